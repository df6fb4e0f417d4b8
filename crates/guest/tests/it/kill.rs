//! Commands that do not want to end, and those that fight back.

use std::time::Instant;

use cofferdam_guest_protocol::{Control, Exec, ExecEnd, Stdin};

use crate::client::{Outcome, argv, shell};
use crate::guest::{Guest, at_work, is_alive, wait_until};

fn timed(script: &str) -> Exec {
    Exec { timeout_ms: Some(300), grace_ms: 100, ..shell(script) }
}

fn pids(outcome: &Outcome) -> Vec<i32> {
    outcome.text().lines().filter_map(|line| line.parse().ok()).collect()
}

fn nothing_is_left(guest: &Guest) {
    wait_until("nothing is left of it", || at_work(guest.pid()).is_empty());
}

#[test]
fn a_time_out_asks_first() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let exec = Exec {
        grace_ms: 30_000,
        ..timed("trap 'echo asked; exit 0' TERM; while :; do sleep 0.01; done")
    };
    let began = Instant::now();
    let outcome = client.run(exec);
    assert_eq!(outcome.end(), &ExecEnd::TimedOut);
    assert_eq!(outcome.text(), "asked\n");
    assert!(began.elapsed().as_secs() < 20, "it did not wait for the whole grace");
    nothing_is_left(&guest);
}

#[test]
fn a_time_out_kills_what_ignores_it() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome = client.run(timed("trap '' TERM INT HUP; while :; do sleep 0.01; done"));
    assert_eq!(outcome.end(), &ExecEnd::TimedOut);
    nothing_is_left(&guest);
}

#[test]
fn a_time_out_kills_what_is_stopped() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome = client.run(timed("sleep 1000 & kill -STOP $!; kill -STOP $$"));
    assert_eq!(outcome.end(), &ExecEnd::TimedOut);
    nothing_is_left(&guest);
}

#[test]
fn a_time_out_finds_what_forked_twice_and_made_a_session() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let script = "trap '' TERM; \
        (setsid sh -c 'trap \"\" TERM; echo $$; (sleep 1000 & echo $!); sleep 1000' & ); \
        sleep 1000";
    let outcome = client.run(timed(script));
    assert_eq!(outcome.end(), &ExecEnd::TimedOut);
    let pids = pids(&outcome);
    assert_eq!(pids.len(), 2, "{:?}", outcome.text());
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    nothing_is_left(&guest);
}

#[test]
fn a_time_out_also_ends_what_the_command_has_left() {
    let guest = Guest::start();
    let mut client = guest.connect();
    // The command itself ends when asked; its child does not.
    let script = "(trap '' TERM; while :; do sleep 0.01; done) & echo $!; \
                  trap 'exit 0' TERM; while :; do sleep 0.01; done";
    let outcome = client.run(timed(script));
    assert_eq!(outcome.end(), &ExecEnd::TimedOut);
    assert_eq!(outcome.report().left_running, 0);
    nothing_is_left(&guest);
}

#[test]
fn a_stopped_monitor_does_not_stop_the_clock() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome = client.run(timed("while :; do kill -STOP $PPID; done"));
    assert_eq!(outcome.end(), &ExecEnd::TimedOut);
    nothing_is_left(&guest);
}

#[test]
fn a_monitor_stopped_once_is_woken() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome = client.run(shell("kill -STOP $PPID; exit 5"));
    assert_eq!(outcome.end(), &ExecEnd::Exited(5));
}

#[test]
fn a_command_that_kills_its_monitor_is_lost_and_dies() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let script = "echo $$; (setsid sleep 1000 & ); kill -KILL $PPID; sleep 1000";
    let outcome = client.run(shell(script));
    assert_eq!(outcome.end(), &ExecEnd::Lost);
    nothing_is_left(&guest);
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0), "others go on");
}

#[test]
fn leftovers_of_a_murdered_monitor_are_killed() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome = client.run(shell("sleep 1000 & echo $!; echo $PPID"));
    assert_eq!(outcome.report().left_running, 1);
    let [leftover, monitor] = pids(&outcome)[..] else { panic!() };
    client.run(shell(&format!("kill -KILL {monitor}")));
    wait_until("the stray is dead", || !is_alive(leftover));
}

#[test]
fn killing_ends_a_call_with_everything_in_it() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let call = client.exec(shell("trap '' TERM; (setsid sleep 1000 &); echo up; sleep 1000"));
    client.pump_until(call, |outcome| outcome.output == b"up\n");
    client.control(call, Control::Kill);
    assert_eq!(client.finish(call).end(), &ExecEnd::Signaled(9));
    nothing_is_left(&guest);
}

#[test]
fn a_kill_right_after_the_request_holds() {
    let guest = Guest::start();
    let mut client = guest.connect();
    for _ in 0..20 {
        let call = client.exec(shell("sleep 1000"));
        client.control(call, Control::Kill);
        assert_eq!(client.finish(call).end(), &ExecEnd::Signaled(9));
    }
    nothing_is_left(&guest);
}

#[test]
fn a_fork_bomb_is_killed() {
    let guest = Guest::start();
    let mut client = guest.connect();
    // Each keeps a few children alive at any time; none of them waits.
    let script = "ulimit -u 400 2>/dev/null; \
        f() { while :; do sleep 0.05 & sleep 0.002; done; }; f & f & f & f & f";
    let outcome = client.run(timed(script));
    assert_eq!(outcome.end(), &ExecEnd::TimedOut);
    nothing_is_left(&guest);
}

#[test]
fn a_signal_reaches_every_process_also_a_stopped_one() {
    let guest = Guest::start();
    let mut client = guest.connect();
    // Ready when both would hear it, and the one is stopped.
    let script = "trap 'echo parent; wait; exit 6' TERM; \
                  (trap 'echo child; exit' TERM; \
                  until grep -q '^State:.T' /proc/$$/status; do sleep 0.01; done; \
                  echo ready; while :; do sleep 0.01; done) & \
                  kill -STOP $$; while :; do sleep 0.01; done";
    let call = client.exec(shell(script));
    client.pump_until(call, |outcome| outcome.output == b"ready\n");
    client.control(call, Control::Signal(libc::SIGTERM));
    let outcome = client.finish(call);
    assert_eq!(outcome.end(), &ExecEnd::Exited(6));
    let text = outcome.text();
    assert!(text.contains("child") && text.contains("parent"), "{text}");
}

#[test]
fn a_signal_right_after_the_request_is_not_lost() {
    let guest = Guest::start();
    let mut client = guest.connect();
    for _ in 0..20 {
        let call = client.exec(Exec { stdin: Stdin::Piped, ..argv(&["cat"]) });
        client.control(call, Control::Signal(libc::SIGUSR1));
        assert_eq!(client.finish(call).end(), &ExecEnd::Signaled(libc::SIGUSR1));
    }
}

#[test]
fn absurd_signals_are_ignored() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let call = client.exec(shell("read x; exit 2"));
    for signal in [-1, 0, 65, i32::MAX, i32::MIN] {
        client.control(call, Control::Signal(signal));
    }
    client.control(12_345, Control::Kill);
    let outcome = client.finish(call);
    assert_eq!(outcome.end(), &ExecEnd::Exited(2));
}

#[test]
fn the_guest_cannot_be_killed_or_read_by_those_inside() {
    let mut guest = Guest::start();
    let mut client = guest.connect();
    // As it is not the first process here, only signals that can be blocked count.
    let pid = guest.pid();
    let script = format!(
        "for s in TERM INT HUP QUIT USR1 ALRM SEGV; do kill -$s {pid}; done; \
         cat /proc/{pid}/environ /proc/$PPID/environ; ls /proc/{pid}/fd; true"
    );
    let outcome = client.run(shell(&script));
    assert_eq!(outcome.end(), &ExecEnd::Exited(0));
    if !rustix::process::getuid().is_root() || !outcome.error.is_empty() {
        assert_eq!(outcome.text(), "");
    }
    assert!(guest.is_alive());
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0));
}
