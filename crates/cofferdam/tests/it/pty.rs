//! At a terminal a command is interactive.

use rustix::process::Signal;

use crate::home::Home;
use crate::invocation;
use crate::terminal::Terminal;

fn start(home: &Home, words: &[&str]) -> Terminal {
    let mut exec = home.exec(["--"]).words(words).env("TERM", "xterm-test");
    Terminal::start(exec.command())
}

#[test]
fn a_command_at_a_terminal_has_one_of_its_own() {
    has_a_terminal(&Home::new());
}

pub(crate) fn has_a_terminal(home: &Home) {
    let script = "tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all; echo $TERM; exit 4";
    let (code, shown) = start(home, &["sh", "-c", script]).end();
    assert_eq!(code, 4);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("/dev/pts/"), "{shown}");
    assert_eq!(lines[1..], ["30 100", "all", "xterm-test"]);
}

#[test]
fn a_resize_of_ours_is_one_of_the_commands() {
    resized(&Home::new());
}

pub(crate) fn resized(home: &Home) {
    let script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.02; done";
    let terminal = start(home, &["sh", "-c", script]);
    terminal.until_it_shows("ready");
    terminal.resize(41, 133);
    let (code, shown) = terminal.end();
    assert_eq!((code, shown.as_str()), (0, "ready\r\n41 133\r\n"));
}

#[test]
fn control_c_interrupts_the_command_and_not_us() {
    control_c(&Home::new());
}

pub(crate) fn control_c(home: &Home) {
    // A shell may lose a signal that comes while it starts a program.
    let terminal =
        start(home, &["sh", "-c", "trap 'echo caught; exit 9' INT; echo ready; read word"]);
    terminal.until_it_shows("ready");
    terminal.press("\u{3}");
    let (code, shown) = terminal.end();
    assert_eq!(code, 9);
    assert!(shown.contains("caught"), "{shown}");

    let terminal = start(home, &["sh", "-c", "echo ready; read word"]);
    terminal.until_it_shows("ready");
    terminal.press("\u{3}");
    assert_eq!(terminal.end().0, 130);
}

#[test]
fn jobs_can_be_stopped_and_continued() {
    jobs(&Home::new());
}

pub(crate) fn jobs(home: &Home) {
    let terminal = start(home, &["bash", "--norc", "-i"]);
    terminal.press("PS1='> '\n");
    terminal.until_it_shows("\n> ");
    terminal.press("sh -c 'echo begun; read word; echo got $word'\n");
    terminal.until_it_shows("begun\r\n");
    terminal.press("\u{1a}");
    terminal.until_it_shows("Stopped");
    terminal.press("echo $((6 * 7))\n");
    terminal.until_it_shows("42\r\n");
    terminal.press("fg\n");
    terminal.press("this\n");
    terminal.until_it_shows("got this\r\n");
    terminal.press("exit 5\n");
    assert_eq!(terminal.end().0, 5);
}

#[test]
fn what_is_typed_is_echoed_once_and_the_end_of_input_is_told() {
    let home = Home::new();
    let terminal = start(&home, &["sh", "-c", "echo ready; exec cat"]);
    terminal.until_it_shows("ready\r\n");
    terminal.press("hello\n");
    terminal.until_it_shows("hello\r\nhello\r\n");
    terminal.press("\u{4}");
    let (code, shown) = terminal.end();
    assert_eq!((code, shown.as_str()), (0, "ready\r\nhello\r\nhello\r\n"));
}

#[test]
fn after_a_signal_the_terminal_is_as_it_was() {
    let home = Home::new();
    for (script, code) in [
        ("echo ready; exec sleep 1000", 143),
        ("trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done", 3),
    ] {
        let terminal = start(&home, &["sh", "-c", script]);
        terminal.until_it_shows("ready");
        invocation::kill(terminal.pid(), Signal::TERM);
        assert_eq!(terminal.end().0, code); // which looks at the settings
    }
}

/// Whoever holds a terminal's lock because nobody takes what he writes does not keep us from
/// giving the terminal back.
#[test]
fn a_signal_is_obeyed_although_nobody_looks_at_the_terminal() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let words = ["--workspace", workspace.to_str().unwrap(), "--"];
    let mut exec = home.exec(words).words(["sh", "-c", "echo x > made; exec yes"]);
    let terminal = Terminal::start_unread(exec.command());
    terminal.until_it_is_full();
    invocation::kill(terminal.pid(), Signal::TERM);
    assert_eq!(terminal.end().0, 143); // which looks at the settings
    assert_eq!(std::fs::read_to_string(workspace.join("made")).unwrap(), "x\n");
}

#[test]
fn after_a_failure_the_terminal_is_as_it_was() {
    let home = Home::new();
    let (code, shown) = start(&home, &["frobnicate"]).end();
    assert_eq!(code, 127);
    assert!(shown.starts_with("error[SBX-006]"), "{shown}");
    let (code, shown) = start(&home, &["sh", "-c", "stty raw -echo; kill -9 $$"]).end();
    assert_eq!((code, shown.as_str()), (137, ""));
}

#[test]
fn when_the_terminal_goes_so_does_the_command() {
    let home = Home::new();
    let mark = home.mark();
    let mut terminal = start(&home, &["sh", "-c", "echo ready; sleep 1000; : $0", &mark]);
    terminal.until_it_shows("ready");
    terminal.hang_up();
    assert_eq!(terminal.end().0, 129);
}

#[test]
fn keys_cannot_be_pressed_from_inside() {
    no_injection(&Home::new());
}

pub(crate) fn no_injection(home: &Home) {
    let script = "
import fcntl, termios
try:
    fcntl.ioctl(0, termios.TIOCSTI, b'x')
    print('pressed')
except OSError:
    print('refused')
";
    let (code, shown) = start(home, &["/usr/bin/python3", "-c", script]).end();
    assert_eq!((code, shown.as_str()), (0, "refused\r\n"));
}

#[test]
fn with_a_pipe_on_either_side_there_is_no_terminal_inside() {
    let home = Home::new();
    let ran = home.shell(&[], "tty; test -t 1 || echo no").expect_code(0);
    assert_eq!(ran.text(), "not a tty\nno\n");
}

#[test]
fn events_at_a_terminal_stay_events() {
    let home = Home::new();
    let mut exec = home.exec(["--json", "--", "sh", "-c", "tty || echo none"]);
    let (code, shown) = Terminal::start(exec.command()).end();
    assert_eq!(code, 0);
    assert!(
        shown.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{shown}"
    );
    assert!(shown.contains("not a tty"), "{shown}");
}
