//! The monitor that is made before its command.

use cofferdam_guest_protocol::{Exec, ExecEnd, Stdin};

use crate::client::{Client, argv, shell};
use crate::guest::{Guest, is_alive, spare, wait_until};

/// A guest that has a spare monitor, and that one's id.
fn with_spare() -> (Guest, Client, i32) {
    let guest = Guest::start();
    let mut client = guest.connect();
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0));
    assert_eq!(spare(guest.pid()), None, "one command may be all there is");
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0));
    let waiting = wait_for_spare(&guest);
    (guest, client, waiting)
}

fn wait_for_spare(guest: &Guest) -> i32 {
    wait_until("there is a spare monitor", || spare(guest.pid()).is_some());
    spare(guest.pid()).unwrap()
}

/// What a command can tell of where it runs.
const ABOUT: &str = "cat; pwd; ulimit -n; ls /proc/self/fd | wc -l; readlink /proc/self/fd/0; \
                     umask; echo out; echo err >&2; env | sort";

#[test]
fn the_next_command_has_the_spare_monitor_and_then_there_is_another() {
    let (guest, mut client, waiting) = with_spare();
    let outcome = client.run(shell("echo $PPID"));
    assert_eq!(outcome.text(), format!("{waiting}\n"));
    assert_ne!(wait_for_spare(&guest), waiting);
}

#[test]
fn a_command_cannot_tell_the_difference() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let exec = || Exec { env: vec![(b"A".to_vec(), b"b".to_vec())], ..shell(ABOUT) };
    let first = client.run(exec());
    assert_eq!(first.end(), &ExecEnd::Exited(0));
    assert!(first.text().contains("/dev/null\n"), "{}", first.text());
    for _ in 0..3 {
        let next = client.run(exec());
        assert_eq!((next.text(), &next.error), (first.text(), &first.error));
        wait_for_spare(&guest);
    }
}

#[test]
fn what_a_command_used_is_its_own_alone() {
    let (guest, mut client, _) = with_spare();
    let large = client.run(shell("head -c 100000000 /dev/zero | tail -c 100000000 | wc -c"));
    assert!(large.report().peak_memory > 50 << 20, "{:?}", large.report());
    for _ in 0..2 {
        wait_for_spare(&guest);
        let small = client.run(argv(&["true"]));
        assert!(small.report().peak_memory < 50 << 20, "{:?}", small.report());
    }
}

#[test]
fn a_spare_monitor_that_was_killed_or_stopped_is_not_missed() {
    for signal in ["KILL", "STOP"] {
        let (_guest, mut client, waiting) = with_spare();
        // Piped commands have a monitor of their own.
        let script = format!("kill -{signal} {waiting}");
        let call = client.exec(Exec { stdin: Stdin::Piped, ..shell(&script) });
        client.end_input(call);
        assert_eq!(client.finish(call).end(), &ExecEnd::Exited(0));
        wait_until("the signal has arrived", || signal != "KILL" || !is_alive(waiting));
        for _ in 0..3 {
            let outcome = client.run(shell("echo well"));
            assert_eq!((outcome.end(), outcome.text().as_str()), (&ExecEnd::Exited(0), "well\n"));
        }
    }
}

#[test]
fn commands_with_input_or_many_words_do_without() {
    let (_guest, mut client, waiting) = with_spare();
    let call = client.exec(Exec { stdin: Stdin::Piped, ..shell("echo $PPID; cat") });
    client.feed(call, b"fed\n");
    client.end_input(call);
    let outcome = client.finish(call);
    assert!(outcome.text().ends_with("\nfed\n"), "{}", outcome.text());
    assert!(!outcome.text().starts_with(&format!("{waiting}\n")), "{}", outcome.text());
    let long = format!("echo $PPID # {}", "x".repeat(20_000));
    assert_ne!(client.run(shell(&long)).text(), format!("{waiting}\n"));
    assert_eq!(client.run(shell("echo $PPID")).text(), format!("{waiting}\n"));
}
