//! What is done with the mouse arrives in a program.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use cofferdam_aide_protocol::{DeskFailureKind, DeskPiece};
use serde_json::json;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{ConnectionExt, CreateWindowAux, EventMask, KeyButMask, WindowClass};
use x11rb::rust_connection::{DefaultStream, RustConnection};

use crate::desktop::{Desktop, Home, Talker, wait_until};

/// The window of `window.py`.
pub(crate) struct Window(Talker);

impl Window {
    pub(crate) fn open(desktop: &Desktop) -> Self {
        let mut command = desktop.program("/usr/bin/python3");
        command.args(["-c", include_str!("window.py")]);
        let window = Self(Talker::start(command));
        window.says("ready");
        window
    }

    pub(crate) fn says(&self, beginning: &str) -> String {
        self.0.says(beginning)
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.0.said()
    }

    pub(crate) fn forget(&self) {
        self.0.forget();
    }

    /// Left, top, width and height of one of its parts.
    pub(crate) fn place(&self, part: &str) -> [u32; 4] {
        let numbers = self.says(&format!("at {part} "));
        let numbers: Vec<u32> =
            numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    }

    /// The middle of one of its parts.
    pub(crate) fn middle(&self, part: &str) -> [u32; 2] {
        let [x, y, width, height] = self.place(part);
        [x + width / 2, y + height / 2]
    }
}

#[test]
fn a_button_is_pressed() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let button = window.middle("button");
    desktop.act(&json!({"action": "left_click", "coordinate": button}));
    window.says("pressed");
}

#[test]
fn clicks_are_told_apart() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let [x, y, ..] = window.place("canvas");
    let at = [x + 20, y + 30];
    for (action, heard) in [
        ("left_click", "down1 20 30 state 0"),
        ("middle_click", "down2 20 30 state 0"),
        ("right_click", "down3"),
        ("double_click", "double 20 30"),
        ("triple_click", "triple 20 30"),
    ] {
        desktop.act(&json!({"action": action, "coordinate": at}));
        window.says(heard);
        // Another click in the same place would count as one more of the same.
        desktop.act(&json!({"action": "mouse_move", "coordinate": [x + 90, y + 90]}));
        desktop.act(&json!({"action": "left_click"}));
        window.says("down1 90 90");
    }
}

#[test]
fn keys_are_held_during_a_click_and_not_after() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let [x, y, ..] = window.place("canvas");
    let at = [x + 20, y + 30];
    // 1 is Shift, 4 is Control.
    desktop.act(&json!({"action": "left_click", "coordinate": at, "text": "ctrl+shift"}));
    window.says("down1 20 30 state 5");
    desktop.act(&json!({"action": "left_click", "coordinate": [x + 60, y + 60]}));
    window.says("down1 60 60 state 0");

    // Not even when it fails: the second key does not exist.
    let bad = json!({"action": "left_click", "coordinate": at, "text": "ctrl+nonsense"});
    let pieces = desktop.act_with("", &bad);
    let [DeskPiece::Failed(failure)] = pieces.as_slice() else { panic!("{pieces:?}") };
    assert_eq!(failure.kind, DeskFailureKind::Refused);
    assert!(failure.why.contains("nonsense"), "{}", failure.why);
    desktop.act(&json!({"action": "left_click", "coordinate": [x + 99, y + 99]}));
    window.says("down1 99 99 state 0");
}

#[test]
fn something_is_dragged() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let [x, y, ..] = window.place("canvas");
    desktop.act(&json!({
        "action": "left_click_drag",
        "start_coordinate": [x + 10, y + 20],
        "coordinate": [x + 110, y + 90],
    }));
    window.says("up1 110 90");
    let said = window.said();
    assert!(said.iter().any(|line| line.starts_with("down1 10 20")), "{said:?}");
    let drags = said.iter().filter(|line| line.starts_with("drag")).count();
    assert!(drags >= 2, "{said:?}");
}

#[test]
fn a_button_can_be_held_over_several_actions() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let [x, y, ..] = window.place("canvas");
    desktop.act(&json!({"action": "mouse_move", "coordinate": [x + 10, y + 20]}));
    desktop.act(&json!({"action": "left_mouse_down"}));
    desktop.act(&json!({"action": "mouse_move", "coordinate": [x + 50, y + 60]}));
    window.says("drag 50 60");
    assert!(!window.said().iter().any(|line| line.starts_with("up1")));
    desktop.act(&json!({"action": "left_mouse_up"}));
    window.says("up1 50 60");
}

/// A viewer that presses the left button here, and goes when the window has seen it.
fn press_and_go(desktop: &Desktop, window: &Window, [x, y]: [u32; 2]) {
    let mut viewer = UnixStream::connect(&desktop.is.vnc).unwrap();
    let mut read = |length: usize, answer: &[u8]| {
        let mut bytes = vec![0; length];
        viewer.read_exact(&mut bytes).unwrap();
        viewer.write_all(answer).unwrap();
        bytes
    };
    read(12, b"RFB 003.008\n");
    read(2, &[1]);
    read(4, &[1]);
    let screen = read(24, &[]);
    let name = u32::from_be_bytes(screen[20..].try_into().unwrap());
    let ([x0, x1], [y0, y1]) = ((x as u16).to_be_bytes(), (y as u16).to_be_bytes());
    read(name as usize, &[5, 1, x0, x1, y0, y1]);
    window.says("down1");
}

fn let_go(desktop: &Desktop) {
    let release = || assert_eq!(desktop.home().run("release", ""), [DeskPiece::Done]);
    let window = Window::open(desktop);
    let [x, y, ..] = window.place("canvas");
    press_and_go(desktop, &window, [x + 10, y + 20]);
    release();
    window.says("up1 10 20");

    // What the job holds stays held. Not where it would be a double click.
    window.forget();
    desktop.act(&json!({"action": "left_mouse_down", "coordinate": [x + 100, y + 120]}));
    window.says("down1");
    release();
    desktop.act(&json!({"action": "mouse_move", "coordinate": [x + 50, y + 60]}));
    window.says("drag 50 60");
    assert!(!window.said().iter().any(|line| line.starts_with("up1")));
    desktop.act(&json!({"action": "left_mouse_up"}));
    window.says("up1 50 60");
}

#[test]
fn what_a_viewer_held_that_is_gone_is_let_go_of() {
    let_go(&Desktop::start());
    let home = Home::with_programs(&["Xvfb", "x11vnc", "xkbcomp", "openbox"]);
    let_go(&Desktop::start_in(home, "start"));
    let none = Home::new().run("release", "");
    let [DeskPiece::Failed(failure)] = none.as_slice() else { panic!("{none:?}") };
    assert_eq!(failure.kind, DeskFailureKind::NotRunning);
}

#[test]
fn the_wheel_turns_up_and_down() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let [x, y, ..] = window.place("canvas");
    for (direction, button) in [("up", 4), ("down", 5)] {
        desktop.act(&json!({
            "action": "scroll",
            "coordinate": [x + 10, y + 20],
            "scroll_direction": direction,
            "scroll_amount": 3,
        }));
        let heard = format!("down{button} 10 20");
        wait_until("three clicks of the wheel", || {
            window.said().iter().filter(|line| line.starts_with(&heard)).count() == 3
        });
    }
}

/// Tk knows nothing of wheels that turn sideways; so this is a window of our own.
#[test]
fn the_wheel_turns_sideways() {
    let desktop = Desktop::start();
    let (connection, window) = bare_window(&desktop);
    for (direction, button) in [("left", 6), ("right", 7)] {
        desktop.act(&json!({
            "action": "scroll",
            "coordinate": [50, 60],
            "scroll_direction": direction,
            "scroll_amount": 2,
            "text": "shift",
        }));
        for _ in 0..2 {
            let event = loop {
                if let Event::ButtonPress(event) = connection.wait_for_event().unwrap() {
                    break event;
                }
            };
            assert_eq!((event.event, event.detail), (window, button));
            assert_eq!((event.root_x, event.root_y), (50, 60));
            assert_eq!(event.state, KeyButMask::SHIFT);
        }
    }
}

/// A window over the upper left of the screen that hears buttons.
fn bare_window(desktop: &Desktop) -> (RustConnection, u32) {
    let number = desktop.is.display.trim_start_matches(':');
    let stream = UnixStream::connect(format!("/tmp/.X11-unix/X{number}")).unwrap();
    let (stream, _) = DefaultStream::from_unix_stream(stream).unwrap();
    let authority = std::fs::read(&desktop.is.authority).unwrap();
    let (_, cookie) = authority.split_last_chunk::<16>().unwrap();
    let kind = b"MIT-MAGIC-COOKIE-1".to_vec();
    let connection =
        RustConnection::connect_to_stream_with_auth_info(stream, 0, kind, cookie.to_vec()).unwrap();
    let root = connection.setup().roots[0].root;
    let window = connection.generate_id().unwrap();
    let (depth, class) = (x11rb::COPY_DEPTH_FROM_PARENT, WindowClass::INPUT_OUTPUT);
    let how = CreateWindowAux::new()
        .override_redirect(1)
        .event_mask(EventMask::BUTTON_PRESS | EventMask::STRUCTURE_NOTIFY);
    connection.create_window(depth, window, root, 0, 0, 300, 300, 0, class, 0, &how).unwrap();
    connection.map_window(window).unwrap();
    connection.flush().unwrap();
    while !matches!(connection.wait_for_event().unwrap(), Event::MapNotify(_)) {}
    (connection, window)
}

#[test]
fn what_makes_no_sense_is_refused() {
    let desktop = Desktop::start();
    for (action, why) in [
        (json!({"action": "fly"}), "there is no action `fly`"),
        (json!({"action": "mouse_move"}), "needs `coordinate`"),
        (json!({"action": "type"}), "needs `text`"),
        (json!({"action": "wait", "duration": 1e9}), "`duration`"),
        (json!({"action": "scroll", "scroll_direction": "in"}), "up, down, left or right"),
        (json!({"action": "zoom", "region": [5, 5, 5, 9]}), "x0 < x1"),
        (json!({"action": "left_click", "coordinate": [1280, 3]}), "1280 wide"),
        (json!({"action": "key", "text": "Retrun"}), "no key `Retrun`"),
        (json!({"action": "screenshot", "colour": 3}), "colour"),
        (json!("screenshot"), "this is no action"),
    ] {
        let pieces = desktop.act_with("", &action);
        let [DeskPiece::Failed(failure)] = pieces.as_slice() else { panic!("{pieces:?}") };
        assert_eq!(failure.kind, DeskFailureKind::Refused, "{action}");
        assert!(failure.why.contains(why), "{action}: {}", failure.why);
    }
}

#[test]
fn an_action_that_is_ended_lets_go() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let mut command = desktop.home().desk("act");
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let hold = json!({"action": "hold_key", "text": "ctrl+shift", "duration": 90});
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), hold.to_string().as_bytes())
        .unwrap();
    window.says("key Control_L");
    window.says("key Shift_L");
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(!child.wait().unwrap().success());
    window.says("released Control_L");

    // One that is killed cannot; the next action does it then.
    window.forget();
    let mut command = desktop.home().desk("act");
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), hold.to_string().as_bytes())
        .unwrap();
    window.says("key Control_L");
    child.kill().unwrap();
    child.wait().unwrap();
    desktop.act(&json!({"action": "type", "text": "x"}));
    window.says("key x state 0");
}
