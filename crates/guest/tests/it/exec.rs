//! Commands: how they start, what they get, how they end.

use cofferdam_guest_protocol::{
    CallState, Control, Exec, ExecEnd, Leftovers, Program, Refusal, Reply, Request, Stdin,
};

use crate::client::{argv, shell};
use crate::guest::{Guest, is_alive, processes, wait_until};

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let guest = Guest::start();
    let mut client = guest.connect();
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0));
    assert_eq!(client.run(argv(&["false"])).end(), &ExecEnd::Exited(1));
    assert_eq!(client.run(shell("exit 255")).end(), &ExecEnd::Exited(255));
    assert_eq!(client.run(shell("kill -KILL $$")).end(), &ExecEnd::Signaled(9));
    assert_eq!(client.run(shell("kill -SEGV $$")).end(), &ExecEnd::Signaled(11));
    assert_eq!(client.run(shell("exit 137")).end(), &ExecEnd::Exited(137));
}

#[test]
fn a_program_that_cannot_be_started_says_why() {
    let guest = Guest::start();
    let mut client = guest.connect();
    guest.put("plain", "no program");
    let end = |outcome: crate::client::Outcome| match outcome.end().clone() {
        ExecEnd::NotStarted(errno, text) => (errno, text),
        other => panic!("{other:?}"),
    };
    let (errno, text) = end(client.run(argv(&["no-such-program"])));
    assert_eq!(errno, 2);
    assert!(text.contains("no-such-program"), "{text}");
    let plain = guest.workspace().join("plain");
    assert_eq!(end(client.run(argv(&[plain.to_str().unwrap()]))).0, 13);
    assert_eq!(end(client.run(argv(&["/no/such/path"]))).0, 2);
    let (errno, text) =
        end(client.run(Exec { cwd: b"/no/such/directory".to_vec(), ..argv(&["true"]) }));
    assert_eq!(errno, 2);
    assert!(text.contains("/no/such/directory"), "{text}");
    assert_eq!(end(client.run(Exec { program: Program::Argv(vec![]), ..shell("") })).0, 22);
    let with_nul = Exec { program: Program::Argv(vec![b"a\0b".to_vec()]), ..shell("") };
    assert_eq!(end(client.run(with_nul)).0, 22);
}

#[test]
fn a_command_gets_its_environment_its_directory_and_nothing_else() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let exec = Exec {
        env: vec![(b"ONLY".to_vec(), b"this\nand \xff".to_vec())],
        cwd: b"/usr".to_vec(),
        ..argv(&["/usr/bin/env", "-0"])
    };
    let outcome = client.run(exec.clone());
    assert_eq!(outcome.output, b"ONLY=this\nand \xff\0");
    let exec = Exec { program: Program::Argv(vec![b"pwd".to_vec()]), ..exec };
    assert_eq!(client.run(exec).text(), "/usr\n", "found without a PATH of its own");
}

#[test]
fn a_command_starts_with_clean_signals_descriptors_and_session() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome = client.run(shell(
        "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd; \
         ps -o sid= -p $$ | tr -d ' '; echo $$; umask; ulimit -n",
    ));
    let text = outcome.text();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("SigBlk:\t0000000000000000"));
    // The two that the C library keeps for itself do not matter.
    let ignored = lines.next().and_then(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & !0x1_8000_0000, 0, "{ignored}");
    // The fourth is of `ls` itself.
    assert_eq!(lines.by_ref().take(4).collect::<Vec<_>>(), ["0", "1", "2", "3"], "{text}");
    let session = lines.next();
    assert_eq!(session, lines.next(), "the leader of its own session");
    assert_eq!(lines.next(), Some("0022"));
    assert_eq!(outcome.started.map(|pid| pid.to_string()).as_deref(), session);
}

#[test]
fn usage_is_reported() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome =
        client.run(shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 0.05"));
    let report = outcome.report();
    assert!(report.cpu_us > 1_000, "{report:?}");
    assert!(report.duration_us >= 50_000, "{report:?}");
    assert!(report.peak_memory > 100_000, "{report:?}");
    assert_eq!(report.left_running, 0);
}

#[test]
fn the_process_that_watches_a_command_bears_the_calls_name() {
    let guest = Guest::start();
    let mut client = guest.connect();
    client.request_as(36 * 36 + 35, Request::Exec(shell("sleep 1000")));
    client.pump_until(36 * 36 + 35, |outcome| outcome.started.is_some());
    let named =
        |process: &(i32, i32, char, String)| process.1 == guest.pid() && process.3 == "c10z";
    assert!(processes().iter().any(named));
    client.control(36 * 36 + 35, Control::Kill);
    client.finish(36 * 36 + 35);
}

#[test]
fn processes_left_behind_are_counted_and_go_on() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let call = client.exec(shell("sleep 1000 & echo $!; sleep 1000 & echo $!"));
    client.wait_done(call);
    let outcome = client.outcome(call);
    assert_eq!(outcome.report().left_running, 2);
    let pids: Vec<i32> = outcome.text().lines().map(|line| line.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| is_alive(*pid)));

    client.finish(call);
    assert!(pids.iter().all(|pid| is_alive(*pid)), "also when the call is forgotten");
    client.control(call, Control::Kill);
    wait_until("the leftovers are gone", || pids.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn processes_left_behind_are_killed_if_that_is_asked() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let script = "(setsid sleep 1000 & echo $!) ; sleep 1000 & echo $!; exit 7";
    let exec = Exec { leftovers: Leftovers::Kill, ..shell(script) };
    let outcome = client.run(exec);
    assert_eq!(outcome.end(), &ExecEnd::Exited(7));
    assert_eq!(outcome.report().left_running, 0);
    for line in outcome.text().lines() {
        assert!(!is_alive(line.parse().unwrap()));
    }
}

#[test]
fn a_background_process_that_holds_the_output_does_not_hold_up_the_call() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let outcome = client.run(shell("echo before; sleep 1000 & exit 3"));
    assert_eq!(outcome.end(), &ExecEnd::Exited(3));
    assert_eq!(outcome.text(), "before\n");
    assert_eq!(outcome.report().left_running, 1);
}

#[test]
fn a_background_process_goes_on_writing_without_harm() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let done = guest.workspace().join("done");
    // Far more than a pipe holds; a signal or an error would end it early.
    let script = format!(
        "(while [ ! -e {0}.go ]; do sleep 0.01; done; head -c 5000000 /dev/zero && touch {0}) & \
         echo started",
        done.display()
    );
    let call = client.exec(shell(&script));
    let outcome = client.finish(call);
    assert_eq!(outcome.text(), "started\n");
    guest.put("done.go", "");
    wait_until("the background process has written all", || done.exists());
}

#[test]
fn stdin_is_empty_unless_the_host_sends_it() {
    let guest = Guest::start();
    let mut client = guest.connect();
    assert_eq!(client.run(shell("cat; echo end")).text(), "end\n");
}

#[test]
fn eight_megabytes_of_stdin_come_back() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let input: Vec<u8> = (0..8 << 20).map(|at: u32| (at * 7 % 253) as u8).collect();
    let call = client.exec(Exec { stdin: Stdin::Piped, ..argv(&["cat"]) });
    client.feed(call, &input);
    client.end_input(call);
    let outcome = client.finish(call);
    assert_eq!(outcome.end(), &ExecEnd::Exited(0));
    assert!(outcome.output == input, "{} bytes came back", outcome.output.len());
}

#[test]
fn a_command_that_does_not_read_its_stdin_holds_up_nothing() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let deaf = client.exec(Exec { stdin: Stdin::Piped, ..argv(&["sleep", "1000"]) });
    client.feed(deaf, &vec![0; 900 << 10]);
    assert_eq!(client.run(argv(&["true"])).end(), &ExecEnd::Exited(0));
    client.control(deaf, Control::Kill);
    assert_eq!(client.finish(deaf).end(), &ExecEnd::Signaled(9));
}

#[test]
fn input_to_a_command_that_has_closed_its_stdin_is_thrown_away() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let exec = Exec {
        stdin: Stdin::Piped,
        ..shell("exec <&-; echo closed; while [ ! -e go ]; do sleep 0.01; done")
    };
    let cwd = guest.workspace().into_os_string().into_encoded_bytes();
    let call = client.exec(Exec { cwd, ..exec });
    client.pump_until(call, |outcome| outcome.output == b"closed\n");
    // Several windows: it only gets through when it is taken in.
    client.feed(call, &vec![1; 5 << 20]);
    guest.put("go", "");
    assert_eq!(client.finish(call).end(), &ExecEnd::Exited(0));
}

#[test]
fn an_id_is_used_once_and_calls_can_be_listed() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let running = client.exec(argv(&["sleep", "1000"]));
    client.pump_until(running, |outcome| outcome.started.is_some());
    let done = client.exec(argv(&["true"]));
    client.wait_done(done);

    let list = client.request(Request::Calls);
    let Some(Reply::Calls(mut states)) = client.finish(list).reply else { panic!() };
    states.sort_by_key(|state| state.call);
    let state = |call, running| CallState { call, running };
    assert_eq!(states, [state(running, true), state(done, false)]);

    for call in [running, done] {
        client.take(call);
        client.request_as(call, Request::Exec(argv(&["true"])));
        client.wait_done(call);
        let refused = Some(Reply::Refused(Refusal::IdInUse));
        assert_eq!(client.outcome(call).reply, refused);
    }
}

#[test]
fn three_hundred_orphans_are_reaped() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let script = "i=0; while [ $i -lt 300 ]; do (sleep 0.01 & ); i=$((i+1)); done; exit 4";
    assert_eq!(client.run(shell(script)).end(), &ExecEnd::Exited(4));
    wait_until("no process is left of it", || crate::guest::descendants(guest.pid()).is_empty());
}

#[test]
fn fifty_commands_run_at_once() {
    let guest = Guest::start();
    let mut client = guest.connect();
    let calls: Vec<u64> =
        (0..50).map(|n| client.exec(shell(&format!("sleep 0.2; echo {n}; exit {n}")))).collect();
    for (n, call) in calls.into_iter().enumerate() {
        let outcome = client.finish(call);
        assert_eq!(outcome.text(), format!("{n}\n"));
        assert_eq!(outcome.end(), &ExecEnd::Exited(n as i32));
    }
}
