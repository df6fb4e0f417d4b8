//! `exec` as a program of its own: that it is the same, and goes as `exec` does. What a sandbox
//! promises is tried with the whole product.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]
#![expect(clippy::disallowed_methods, reason = "the program under test runs on the host")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long what is left of a sandbox may take to go, once its command has ended.
const PARTING: Duration = Duration::from_secs(60);

fn program(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam-exec"));
    command.env("COFFERDAM_HOME", home).stdin(Stdio::null());
    command
}

fn run(home: &TempDir, words: &[&str]) -> Output {
    program(home.path()).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// Waits until nothing of a sandbox is left in a home.
fn wait_until_cleared(home: &TempDir) {
    let deadline = Instant::now() + PARTING;
    loop {
        let left: Vec<_> = std::fs::read_dir(home.path().join("sandboxes"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != ".shared")
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{left:?} stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn streams_and_code_are_the_commands_own_and_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(&home, &["--", "sh", "-c", "echo out; echo err >&2; id -un; exit 7"]);
    assert_eq!(ran.status.code(), Some(7));
    assert_eq!((text(&ran.stdout), text(&ran.stderr)), ("out\nagent\n", "err\n"));
    let ran = run(&home, &["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(ran.status.code(), Some(137));
    wait_until_cleared(&home);
}

#[test]
fn when_it_has_ended_nobody_in_the_sandbox_lives() {
    let home = tempfile::tempdir().unwrap();
    let script = "mkfifo up; (trap '' TERM; echo > up; sleep 1000) & read line < up";
    let words = ["--", "sh", "-c", script];
    // Whoever lives has it open.
    let (reader, writer) = std::io::pipe().unwrap();
    let status = program(home.path()).args(words).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(std::io::read_to_string(reader).unwrap(), "");
    wait_until_cleared(&home);
}

#[test]
fn changes_are_in_the_workspace_when_it_has_ended() {
    let home = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let directory = workspace.path().to_str().unwrap();
    let ran = run(&home, &["--workspace", directory, "--", "sh", "-c", "echo kept > file"]);
    assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(0), ""));
    assert_eq!(std::fs::read_to_string(workspace.path().join("file")).unwrap(), "kept\n");
    let left = std::fs::read_dir(home.path().join("sandboxes")).unwrap();
    let left = left.filter(|entry| entry.as_ref().unwrap().file_name() != ".shared");
    assert_eq!(left.count(), 0, "what was applied is not there a second time");
}

#[test]
fn it_speaks_of_itself() {
    let home = tempfile::tempdir().unwrap();
    let help = run(&home, &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("Usage: cofferdam-exec [OPTIONS] <COMMAND>"));
    let version = run(&home, &["--version"]);
    assert!(text(&version.stdout).starts_with("cofferdam-exec "));
}

#[test]
fn wrong_words_are_told_as_they_were_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(&home, &["--nonsense", "--", "true"]);
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0));
    assert!(text(&ran.stderr).contains("--nonsense"));
    let ran = run(&home, &["--json", "--nonsense", "--", "true"]);
    assert_eq!(ran.status.code(), Some(2));
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(told["cause"].as_str().expect("a cause").contains("--nonsense"), "{told}");
}

#[test]
fn without_a_home_it_says_so() {
    for (words, json) in [(["--", "true", ""], false), (["--json", "--", "true"], true)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam-exec"));
        command.env_clear().stdin(Stdio::null());
        let words = words.into_iter().filter(|word| !word.is_empty());
        let ran = command.args(words).output().unwrap();
        assert_eq!(ran.status.code(), Some(2));
        let told = if json { &ran.stdout } else { &ran.stderr };
        assert!(text(told).contains("HOME is not set"), "{}", text(told));
    }
}
