//! Windows are listed and brought to the front; `xdotool` runs as it is given.

use cofferdam_aide_protocol::{DeskFailureKind, DeskPiece, Size};
use serde_json::json;

use crate::desk_hands::Window;
use crate::desktop::{Desktop, Home, Talker, wait_until};

#[test]
fn windows_are_listed_and_focused() {
    let desktop = Desktop::start();
    assert_eq!(desktop.windows(), []);
    let window = Window::open(&desktop);
    let mut command = desktop.program("/usr/bin/xterm");
    command.args(["-T", "Über uns", "-geometry", "40x10+700+400", "-e", "sleep", "600"]);
    let _terminal = Talker::start(command);
    wait_until("the terminal is in front", || {
        desktop.windows().first().is_some_and(|top| top.title == "Über uns" && top.focused)
    });
    let windows = desktop.windows();
    let [terminal, below] = windows.as_slice() else { panic!("{windows:?}") };
    assert_eq!(terminal.class, "XTerm");
    assert!(terminal.left >= 690 && terminal.top >= 390, "{terminal:?}");
    assert!(!terminal.hidden && !below.focused);
    assert_eq!(below.title, "A window for tests");
    let [x, y, ..] = window.place("field");
    assert!(i64::from(below.left) < i64::from(x) && i64::from(below.top) < i64::from(y));

    let focus = json!({"action": "focus_window", "window": below.id});
    desktop.act(&focus);
    let windows = desktop.windows();
    assert_eq!(windows[0].title, "A window for tests");
    assert!(windows[0].focused);
    // As it is often written.
    let hex = format!("{:#x}", terminal.id);
    desktop.act(&json!({"action": "focus_window", "window": hex}));
    assert_eq!(desktop.windows()[0].id, terminal.id);

    let pieces = desktop.act_with("", &json!({"action": "focus_window", "window": 77}));
    let [DeskPiece::Failed(failure)] = pieces.as_slice() else { panic!("{pieces:?}") };
    assert_eq!(failure.kind, DeskFailureKind::Refused);
}

#[test]
fn sizes_of_windows_are_those_of_the_picture() {
    let desktop = Desktop::start();
    let mut command = desktop.program("/usr/bin/python3");
    let program = "import tkinter; root = tkinter.Tk(); root.geometry('400x300+100+100'); \
        root.mainloop()";
    command.args(["-c", program]);
    let _window = Talker::start(command);
    wait_until("it is there", || !desktop.windows().is_empty());
    wait_until("it is as large as it wants to be", || {
        desktop.windows()[0].size == Size { width: 400, height: 300 }
    });
    let mut pieces = desktop.act_with("--longest 640", &json!({"action": "windows"}));
    assert_eq!(pieces.pop(), Some(DeskPiece::Done));
    let [DeskPiece::Windows { windows, .. }] = pieces.as_slice() else { panic!("{pieces:?}") };
    assert_eq!(windows[0].size, Size { width: 200, height: 150 });
}

#[test]
fn an_xdotool_script_runs_as_it_is_given() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let [x, y, ..] = window.place("canvas");
    let script = format!("mousemove {} {}\nclick 1\ngetmouselocation", x + 33, y + 44);
    let pieces = desktop.act(&json!({"action": "xdotool", "text": script}));
    window.says("down1 33 44");
    let [DeskPiece::Script { stdout, code: Some(0), .. }] = pieces.as_slice() else {
        panic!("{pieces:?}")
    };
    assert!(stdout.contains(&format!("x:{} y:{}", x + 33, y + 44)), "{stdout}");

    let pieces = desktop.act(&json!({"action": "xdotool", "text": "nonsense"}));
    let [DeskPiece::Script { stderr, code, .. }] = pieces.as_slice() else { panic!("{pieces:?}") };
    assert_ne!(*code, Some(0));
    assert!(stderr.contains("nonsense"), "{stderr}");
}

#[test]
fn without_xdotool_it_says_how_to_get_it() {
    let home = Home::with_programs(&["Xvnc", "xkbcomp", "openbox"]);
    let desktop = Desktop::start_in(home, "start");
    let pieces = desktop.act_with("", &json!({"action": "xdotool", "text": "key a"}));
    let [DeskPiece::Failed(failure)] = pieces.as_slice() else { panic!("{pieces:?}") };
    assert_eq!(failure.kind, DeskFailureKind::Missing);
    assert!(failure.why.contains("apt-get install xdotool"), "{}", failure.why);
}

#[test]
fn a_desktop_that_is_ready_has_a_window_manager_that_listens() {
    // Openbox says who it is long before it listens, and what comes between is lost.
    for _ in 0..3 {
        let desktop = Desktop::start();
        let pieces = desktop.act(&json!({"action": "xdotool", "text": "get_num_desktops"}));
        let [DeskPiece::Script { stdout, .. }] = pieces.as_slice() else { panic!("{pieces:?}") };
        assert_eq!(stdout, "1\n", "{pieces:?}");
    }
}
