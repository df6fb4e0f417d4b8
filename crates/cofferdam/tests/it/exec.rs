//! How a command ends is how `cofferdam exec` ends.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::home::Home;
use crate::invocation::Invocation;
use crate::processes;

#[test]
fn the_exit_code_is_the_commands_own() {
    exit_codes(&Home::new());
}

pub(crate) fn exit_codes(home: &Home) {
    for code in [0, 1, 7, 124, 255] {
        let ran = home.shell(&[], &format!("exit {code}")).expect_code(code);
        assert_eq!((ran.text(), ran.errors()), (String::new(), String::new()), "exit {code}");
    }
}

#[test]
fn a_caller_that_ignores_its_children_is_told_how_the_command_ended() {
    ignored_children(&Home::new());
}

pub(crate) fn ignored_children(home: &Home) {
    // What a program ignores, the one that it becomes ignores.
    let program = home.program().to_str().unwrap();
    let words = ["--ignore-signal=CHLD", program, "exec", "--timeout", "60s", "--"];
    for (script, code) in [("exit 3", 3), ("sleep 0 & (sleep 0 &); wait; exit 4", 4)] {
        let words = words.into_iter().chain(["sh", "-c", script]);
        let mut ran = Invocation::new(Path::new("/usr/bin/env"), home.user()).words(words);
        ran = ran.env("COFFERDAM_HOME", home.path());
        let ran = ran.run().expect_code(code);
        assert_eq!(ran.errors(), "", "{script}");
    }
}

#[test]
fn a_command_that_a_signal_ends_has_128_and_the_signals_number() {
    signals(&Home::new());
}

pub(crate) fn signals(home: &Home) {
    for signal in [Signal::TERM, Signal::KILL, Signal::SEGV, Signal::HUP] {
        let number = signal.as_raw();
        let ran = home.shell(&[], &format!("kill -{number} $$")).expect_code(128 + number);
        assert_eq!(ran.errors(), "", "signal {number}");
    }
}

#[test]
fn a_time_out_ends_even_those_who_will_not_hear_of_it() {
    time_out(&Home::new());
}

pub(crate) fn time_out(home: &Home) {
    // One is deaf, one is stopped, one has left the family.
    let script = r"
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1000)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
print('ready', flush=True)
time.sleep(1000)
";
    let mark = home.mark();
    let words = ["--timeout", "1s", "--", "/usr/bin/python3", "-c", script, &mark];
    let ran = home.exec(words).run().expect_error(124, &["time was up"]);
    assert_eq!(ran.text(), "ready\n");
    assert!(ran.elapsed >= Duration::from_secs(1), "{:?}", ran.elapsed);
    assert_eq!(processes::with_argument(&mark), Vec::<i32>::new());
}

#[test]
fn a_time_out_lets_a_command_end_in_order() {
    let home = Home::new();
    let script = "trap 'echo tidied; exit 3' TERM; echo ready; while :; do sleep 0.02; done";
    let ran = home.shell(&["--timeout", "500ms"], script).expect_code(124);
    assert_eq!(ran.text(), "ready\ntidied\n");
    assert!(ran.elapsed < Duration::from_secs(30), "{:?}", ran.elapsed);
}

#[test]
fn a_command_that_is_quick_does_not_wait_for_its_time_out() {
    let home = Home::new();
    let ran = home.shell(&["--timeout", "1h"], "echo done").expect_code(0);
    assert!(ran.elapsed < Duration::from_secs(30), "{:?}", ran.elapsed);
}

#[test]
fn what_is_not_there_is_127_and_what_is_no_program_is_126() {
    not_started(&Home::new());
}

pub(crate) fn not_started(home: &Home) {
    for missing in ["frobnicate", "./frobnicate", "/no/such/program", ""] {
        let ran = home.exec(["--", missing]).run();
        ran.expect_error(127, &["error[SBX-006]", "No such file", "--read"]);
    }
    for forbidden in ["/etc/hosts", "/workspace", "/dev/null"] {
        let ran = home.exec(["--", forbidden]).run();
        ran.expect_error(126, &["error[SBX-006]", forbidden, "Permission denied"]);
    }
}

#[test]
fn a_file_that_is_no_program_is_126() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let program = workspace.join("program");
    home.make_file(&program, "\x7fELF and then nonsense");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let workspace = workspace.to_str().unwrap();
    let ran = home.exec(["--workspace", workspace, "--", "./program"]).run();
    ran.expect_error(126, &["error[SBX-006]", "program"]);
}

#[test]
fn a_process_in_the_background_does_not_hold_up_the_end() {
    background(&Home::new());
}

pub(crate) fn background(home: &Home) {
    let mark = home.mark();
    let script = "sh -c 'sleep 1000; : \"$0\"' \"$0\" & echo here";
    let ran = home.exec(["--", "sh", "-c", script, &mark]).run().expect_code(0);
    assert_eq!(ran.text(), "here\n");
    assert!(ran.elapsed < Duration::from_secs(30), "{:?}", ran.elapsed);
    assert_eq!(processes::with_argument(&mark), Vec::<i32>::new());
}

#[test]
fn two_sandboxes_of_one_home_leave_each_other_alone() {
    let home = Home::new();
    let first = home.exec(["--", "sh", "-c", "echo ready; read word; echo $word"]).spawn();
    first.until_it_says("ready\n");
    home.shell(&[], "true").expect_code(0);
    let mut first = first;
    std::io::Write::write_all(first.stdin.as_mut().unwrap(), b"alive\n").unwrap();
    assert_eq!(first.wait().expect_code(0).text(), "ready\nalive\n");
}

#[test]
fn ten_at_once_all_end_well() {
    let home = Home::new();
    let run = |number: usize| home.exec(["--", "echo", &number.to_string()]).spawn();
    let running: Vec<_> = (0..10).map(run).collect();
    for (number, running) in running.into_iter().enumerate() {
        assert_eq!(running.wait().expect_code(0).text(), format!("{number}\n"));
    }
}

#[test]
fn the_first_start_makes_its_home() {
    let home = Home::new();
    let fresh = home.beside("not/yet/there");
    let ran = home.exec(["--", "echo", "hello"]).env("COFFERDAM_HOME", &fresh).run();
    assert_eq!(ran.expect_code(0).text(), "hello\n");
    let mode = std::fs::metadata(fresh.join("sandboxes")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn what_a_dead_sandbox_left_is_removed_whatever_lies_beside_it() {
    let home = Home::new();
    let sandboxes = home.path().join("sandboxes");
    let dead = sandboxes.join("01900000-0000-7000-8000-000000000000");
    std::fs::create_dir_all(dead.join("root/deep")).unwrap();
    let odd: Vec<_> = (0..9)
        .map(|number| sandboxes.join(format!("01900000-0000-7000-8000-00000000000{}", number + 1)))
        .collect();
    for path in &odd {
        std::fs::write(path, "not a directory").unwrap();
    }
    let ran = home.shell(&[], "true").expect_code(0);
    assert!(ran.errors().contains("error[SBX-009]"), "what stays is told: {}", ran.errors());
    let removed = !dead.exists();
    for path in &odd {
        drop(std::fs::remove_file(path)); // the product may have removed it
    }
    assert_eq!(home.shell(&[], "true").expect_code(0).errors(), "");
    assert!(removed, "a stray file kept the remains of a sandbox from being removed");
}

#[test]
fn words_that_are_too_long_together_are_126_and_nothing_is_run() {
    let home = Home::new();
    let long = vec!["x".repeat(100_000); 12];
    let ran = home.exec(["--", "true"]).words(&long).run();
    ran.expect_error(126, &["error[SBX-006]: cannot start true", "1 MiB"]);
    let name = |number: usize| format!("LONG_{number}");
    let mut exec = home.exec([""; 0]);
    for (number, value) in long.iter().enumerate() {
        exec = exec.words(["--env", &name(number)]).env(&name(number), value);
    }
    exec.words(["--", "true"]).run().expect_error(126, &["SBX-006", "variables"]);
}
