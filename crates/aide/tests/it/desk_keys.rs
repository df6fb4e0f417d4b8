//! What is typed arrives in a program.

use serde_json::json;

use crate::desk_hands::Window;
use crate::desktop::{Desktop, wait_until};

/// Every key of the layout, with and without Shift.
const ASCII: &str = "The quick brown fox 0123456789 \
    !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

#[test]
fn every_ascii_letter_is_typed() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    desktop.act(&json!({"action": "type", "text": format!("{ASCII}\n")}));
    assert_eq!(unescaped(&window.says("text ")), ASCII);
}

#[test]
fn letters_that_no_keyboard_has_are_typed() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let text = "äß€漢字 ÄÖÜ — “x” ы";
    desktop.act(&json!({"action": "type", "text": format!("{text}\n")}));
    assert_eq!(unescaped(&window.says("text ")), text);

    // More of them than there are keys to lend, in one text.
    window.forget();
    desktop.act(&json!({"action": "key", "text": "ctrl+slash BackSpace"}));
    let many: String = ('α'..='ω').chain('а'..='я').chain('ぁ'..='を').collect();
    desktop.act(&json!({"action": "type", "text": format!("{many}\n")}));
    assert_eq!(unescaped(&window.says("text ")), many);

    // And the usual ones are where they were.
    window.forget();
    desktop.act(&json!({"action": "key", "text": "ctrl+slash BackSpace"}));
    desktop.act(&json!({"action": "type", "text": format!("{ASCII}\n")}));
    assert_eq!(unescaped(&window.says("text ")), ASCII);
}

#[test]
fn a_terminal_gets_what_is_typed() {
    let desktop = Desktop::start();
    let file = desktop.home().directory.path().join("typed");
    let mut command = desktop.program("/usr/bin/xterm");
    command.args(["-u8", "-T", "terminal", "-e", "/bin/sh", "-c"]);
    command.arg(format!("cat > {}", file.display()));
    let _terminal = crate::desktop::Talker::start(command);
    wait_until("the terminal has the keyboard", || {
        desktop.windows().iter().any(|window| window.title == "terminal" && window.focused)
            && file.exists()
    });
    let text = "echo 'Größe' äß€漢字😀\n\tand a second line\n";
    desktop.act(&json!({"action": "type", "text": text}));
    desktop.act(&json!({"action": "key", "text": "ctrl+d"}));
    wait_until("all of it is there", || {
        std::fs::read_to_string(&file).unwrap_or_default().len() >= text.len()
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn chords_arrive_with_all_their_keys() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    // 1 is Shift, 4 is Control, 8 is Alt. What Tk has a use for itself is only heard
    // of when the key is released.
    for (chord, heard) in [
        ("ctrl+shift+t", "key T state 5"),
        ("alt+x", "released x state 8"),
        ("Return", "key Return state 0"),
        ("F5", "key F5 state 0"),
        ("ctrl+Page_Down", "key Next state 4"),
        ("shift+Tab", "released ISO_Left_Tab state 1"),
        ("Escape", "key Escape state 0"),
        ("exclam", "key exclam state 1"),
        ("ctrl+ä", "key adiaeresis state 4"),
        ("ctrl+plus", "key plus state 5"),
    ] {
        window.forget();
        desktop.act(&json!({"action": "key", "text": chord}));
        window.says(heard);
    }
    window.forget();
    desktop.act(&json!({"action": "key", "text": "a b", "repeat": 2}));
    wait_until("a b a b", || {
        let said = window.said();
        let keys: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("key ")).collect();
        keys == ["a state 0", "b state 0", "a state 0", "b state 0"]
    });
}

#[test]
fn a_key_is_held_for_a_time() {
    let desktop = Desktop::start();
    let window = Window::open(&desktop);
    let begun = std::time::Instant::now();
    desktop.act(&json!({"action": "hold_key", "text": "x", "duration": 1.2}));
    assert!(begun.elapsed().as_secs_f64() >= 1.2);
    window.says("released x");
}

/// What Python's `ascii` made of a text.
fn unescaped(text: &str) -> String {
    let mut command = crate::desktop::program("/usr/bin/python3");
    command.args(["-c", "import ast, sys; sys.stdout.buffer.write(ast.literal_eval(sys.argv[1]).encode('utf-8', 'surrogatepass'))", text]);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}
