//! Commands with a terminal.

use cofferdam_guest_protocol::{Channel, Control, Exec, ExecEnd, PtySize, Stdin};

use crate::client::{argv, shell};
use crate::guest::{Guest, descendants, processes, wait_until};

fn with_terminal(script: &str) -> Exec {
    let pty = Some(PtySize { rows: 31, cols: 117 });
    Exec { pty, stdin: Stdin::Piped, ..shell(script) }
}

/// Waits until the program that is to be disturbed runs.
fn wait_for_sleep(guest: &Guest) {
    wait_until("sleep runs", || {
        let ours = descendants(guest.pid());
        processes().iter().any(|process| ours.contains(&process.0) && process.3 == "sleep")
    });
}

#[test]
fn it_is_a_terminal_of_the_size_asked_for() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome =
        client.run(with_terminal("tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all"));
    assert_eq!(outcome.end(), &ExecEnd::Exited(0));
    let text = outcome.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("/dev/pts/"), "{text}");
    assert_eq!(lines[1..], ["31 117", "all"]);
    assert!(outcome.error.is_empty());
    assert_eq!(outcome.ended.len(), 2);
    assert!(outcome.ended.contains(&Channel::Error));
}

#[test]
fn a_resize_reaches_the_command() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.01; done";
    let call = client.exec(with_terminal(script));
    client.pump_until(call, |outcome| outcome.output.ends_with(b"ready\r\n"));
    client.control(call, Control::Resize(PtySize { rows: 50, cols: 200 }));
    let outcome = client.finish(call);
    assert_eq!(outcome.text(), "ready\r\n50 200\r\n");
}

#[test]
fn control_c_interrupts_the_job_in_the_foreground() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let call = client.exec(with_terminal("trap 'echo caught; exit 9' INT; echo ready; sleep 1000"));
    client.pump_until(call, |outcome| outcome.output.ends_with(b"ready\r\n"));
    wait_for_sleep(&guest);
    client.feed(call, b"\x03");
    let outcome = client.finish(call);
    assert_eq!(outcome.end(), &ExecEnd::Exited(9));
    assert!(outcome.text().contains("caught"), "{}", outcome.text());
}

#[test]
fn an_interactive_shell_has_job_control() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let exec = Exec { program: argv(&["/bin/sh", "-i"]).program, ..with_terminal("") };
    let call = client.exec(exec);
    client.feed(call, b"sleep 1000\n");
    wait_for_sleep(&guest);
    client.feed(call, b"\x1a");
    client.pump_until(call, |outcome| outcome.text().contains("Stopped"));
    client.feed(call, b"jobs; echo $((40+2)); exit; exit\n");
    client.pump_until(call, |outcome| outcome.text().contains("42"));
    let text = client.outcome(call).text();
    assert!(!text.contains("job control turned off"), "{text}");
    client.control(call, Control::Kill);
    client.finish(call);
}

#[test]
fn what_is_typed_is_echoed_and_the_end_of_input_is_told() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let exec = Exec { program: argv(&["cat"]).program, ..with_terminal("") };
    let call = client.exec(exec);
    client.feed(call, b"hello\n");
    client.end_input(call);
    let outcome = client.finish(call);
    assert_eq!(outcome.end(), &ExecEnd::Exited(0));
    assert_eq!(outcome.text(), "hello\r\nhello\r\n");
}

#[test]
fn the_last_output_before_the_end_is_not_lost() {
    let guest = Guest::start();
    let mut client = guest.connect();
    for _ in 0..20 {
        let outcome = client.run(with_terminal("seq 1 5000"));
        let lines = outcome.text().lines().count();
        assert_eq!(lines, 5000);
        assert!(outcome.output.ends_with(b"5000\r\n"));
    }
}

#[test]
fn a_background_process_on_the_terminal_does_not_hold_up_the_call() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let script = "trap '' HUP; (trap '' HUP; sleep 1000) & echo here; exit 2";
    let outcome = client.run(with_terminal(script));
    assert_eq!(outcome.end(), &ExecEnd::Exited(2));
    assert_eq!(outcome.text(), "here\r\n");
}

#[test]
fn a_terminal_is_gone_after_a_time_out() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let exec =
        Exec { timeout_ms: Some(200), grace_ms: 50, ..with_terminal("trap '' TERM; sleep 1000") };
    assert_eq!(client.run(exec).end(), &ExecEnd::TimedOut);
}
