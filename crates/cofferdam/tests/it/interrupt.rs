//! Signals to us are signals to the command; the second one leaves no choice.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::home::Home;
use crate::{invocation, json, processes};

#[test]
fn a_signal_is_passed_on_and_its_end_is_the_commands() {
    passed_on(&Home::new());
}

pub(crate) fn passed_on(home: &Home) {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let running = home.exec(["--", "sh", "-c", "echo ready; exec sleep 1000"]).spawn();
        running.until_it_says("ready\n");
        running.signal(signal);
        running.wait().expect_code(128 + signal.as_raw());
    }
}

#[test]
fn a_command_may_answer_a_signal_in_its_own_way() {
    let home = Home::new();
    let script = "trap 'echo bye; exit 7' TERM INT; echo ready; while :; do sleep 0.02; done";
    for signal in [Signal::INT, Signal::TERM] {
        let running = home.exec(["--", "sh", "-c", script]).spawn();
        running.until_it_says("ready\n");
        running.signal(signal);
        assert_eq!(running.wait().expect_code(7).text(), "ready\nbye\n");
    }
}

/// A command that hears no polite signal, with a child that does not either.
const DEAF: &str = "trap '' TERM INT HUP; (while :; do sleep 0.05; done) & echo ready
                    while :; do sleep 0.05; done";

#[test]
fn a_deaf_command_is_killed_after_a_while() {
    deaf(&Home::new());
}

pub(crate) fn deaf(home: &Home) {
    let mark = home.mark();
    let running = home.exec(["--", "sh", "-c", DEAF, &mark]).spawn();
    running.until_it_says("ready\n");
    running.signal(Signal::TERM);
    let ran = running.wait().expect_code(137);
    assert!(ran.elapsed >= Duration::from_secs(4), "{:?}", ran.elapsed);
    assert_eq!(processes::with_argument(&mark), Vec::<i32>::new());
}

#[test]
fn the_second_signal_kills_at_once() {
    let home = Home::new();
    let mark = home.mark();
    let running = home.exec(["--", "sh", "-c", DEAF, &mark]).spawn();
    running.until_it_says("ready\n");
    running.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(200)); // two of the same may become one
    running.signal(Signal::TERM);
    let ran = running.wait().expect_code(137);
    assert!(ran.elapsed < Duration::from_secs(5), "{:?}", ran.elapsed);
    assert_eq!(processes::with_argument(&mark), Vec::<i32>::new());
}

#[test]
fn what_was_done_before_a_signal_is_kept() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let words = ["--workspace", workspace.to_str().unwrap(), "--", "sh", "-c"];
    // A shell may lose a signal that comes while it starts a program.
    let running = home.exec(words).words(["echo half > file; echo ready; read word"]).spawn();
    running.until_it_says("ready\n");
    running.signal(Signal::INT);
    running.wait().expect_code(130);
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "half\n");
}

#[test]
fn a_signal_is_obeyed_although_nobody_reads_our_output() {
    for options in [&["--"][..], &["--json", "--"]] {
        let home = Home::new();
        let mark = home.mark();
        let mut exec = home.exec(options).words(["sh", "-c", "exec yes \"$0\"", mark.as_str()]);
        exec.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = exec.command().spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 10]).unwrap();
        std::thread::sleep(Duration::from_millis(300)); // every buffer fills up
        invocation::kill(i32::try_from(child.id()).unwrap(), Signal::TERM);
        assert_eq!(invocation::wait(&mut child), 143, "{options:?}");
        drop(stdout);
    }
}

/// A signal that finds nothing to end is no reason to keep to ourselves how it ended.
#[test]
fn how_it_ended_is_told_although_a_signal_comes_while_the_sandbox_is_closed() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let place = workspace.to_str().unwrap();
    let script = "mkdir $0; cd $0; i=0; while [ $i -lt 2000 ]; do : > $i; i=$((i + 1)); done";
    // Whether it was told used to be a matter of luck.
    for round in 0..6 {
        let words = ["--json", "--workspace", place, "--", "sh", "-c", script];
        let running = home.exec(words).words([format!("round-{round}")]).spawn();
        let first = workspace.join(format!("round-{round}"));
        crate::eventually("changes are applied", || first.exists());
        running.signal(Signal::INT);
        let last = json::last(&running.wait().expect_code(0));
        assert_eq!((&last["event"], &last["exit_code"]), (&"ended".into(), &0.into()), "{round}");
    }
}

/// Output that nobody took before a signal made us go is missing, and that is no success.
#[test]
fn output_that_is_given_up_after_a_signal_is_told() {
    for options in [&["--output", "6M", "--"][..], &["--json", "--output", "6M", "--"]] {
        let home = Home::new();
        let mark = home.mark();
        let script = "head -c 5000000 /dev/zero | tr '\\0' x; exit 0";
        let mut exec = home.exec(options).words(["sh", "-c", script, mark.as_str()]);
        exec.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = exec.command().spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"xxx") {
            let mut byte = [0];
            stdout.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        let own = i32::try_from(child.id()).unwrap();
        // The guest holds what the command wrote, and the command is through.
        crate::eventually("the command has ended", || processes::with_argument(&mark) == [own]);
        invocation::kill(own, Signal::TERM);
        assert_eq!(invocation::wait(&mut child), 143, "{options:?}");
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert!(told.contains("dropped") && told.contains("signal 15"), "{options:?}: {told}");
        drop(stdout);
    }
}

#[test]
fn a_signal_that_was_ignored_when_we_began_stays_ignored() {
    // `nohup cofferdam exec …`, or one in the background of a script.
    let home = Home::new();
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_cofferdam")]);
    shell.args(["exec", "--", "sh", "-c", "echo ready; read word; echo $word"]);
    shell.env("COFFERDAM_HOME", home.path());
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = shell.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 6]).unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    invocation::kill(pid, Signal::HUP);
    invocation::kill(pid, Signal::INT);
    std::thread::sleep(Duration::from_millis(200)); // had they been heard, it would end
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"alive\n").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "alive\n");
    assert_eq!(invocation::wait(&mut child), 0);
}

#[test]
fn waiting_for_a_directory_that_another_works_on_can_be_interrupted() {
    let home = Home::new();
    let directory = home.make_directory("work");
    let directory = directory.to_str().unwrap();
    let first =
        home.exec(["--workspace", directory, "--", "sh", "-c", "echo ready; sleep 1000"]).spawn();
    first.until_it_says("ready\n");
    let second = home.exec(["--workspace", directory, "--", "true"]).spawn();
    crate::eventually("it to listen", || processes::catches(second.pid(), Signal::TERM));
    second.signal(Signal::TERM);
    let told = second.wait().expect_error(143, &["RUN-009", "nothing of the command was run"]);
    assert!(!told.errors().contains("--last"), "there is no job: {}", told.errors());
    first.signal(Signal::TERM);
    first.wait().expect_code(143);
}
