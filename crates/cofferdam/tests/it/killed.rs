//! `kill -9` of the program or of its supervisor: nothing is left, nothing is
//! lost.

use std::fs;

use rustix::process::Signal;

use crate::home::Home;
use crate::invocation::{self, Running};
use crate::{eventually, processes};

/// A family that keeps itself busy, some of it stopped and some of it far from
/// home, after it has changed the workspace.
const FAMILY: &str = r"
import os, signal, sys, time
open('/workspace/file', 'w').write('kept')
os.remove('/workspace/old') if os.path.exists('/workspace/old') else None
for kind in range(3):
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if kind == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        if kind == 2:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
        time.sleep(1000)
print('ready', flush=True)
time.sleep(1000)
";

fn begin(home: &Home, options: &[&str]) -> Running {
    let mark = home.mark();
    let running =
        home.exec(options).words(["--", "/usr/bin/python3", "-c", FAMILY, mark.as_str()]).spawn();
    running.until_it_says("ready\n");
    assert!(processes::with_argument(&mark).len() >= 4);
    running
}

fn supervisor(home: &Home) -> i32 {
    let found = home.supervisors();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

#[test]
fn when_we_are_killed_everything_goes() {
    program_killed(&Home::new());
}

pub(crate) fn program_killed(home: &Home) {
    let running = begin(home, &[]);
    let supervisor = supervisor(home);
    running.signal(Signal::KILL);
    running.wait().expect_code(-9);
    let mark = home.mark();
    eventually("the end of its processes", || processes::with_argument(&mark).is_empty());
    eventually("the end of its supervisor", || home.supervisors().is_empty());
    eventually("the number of the supervisor to be free", || {
        processes::name(supervisor).as_deref() != Some("cofferdam-super")
    });
    // That directory and control groups are gone too is checked by `Home`, with
    // no further start of the program.
}

#[test]
fn when_we_are_killed_the_changes_are_kept() {
    program_killed_with_changes(&Home::new());
}

pub(crate) fn program_killed_with_changes(home: &Home) {
    let workspace = home.make_directory("workspace");
    home.make_file(&workspace.join("old"), "x");
    let running = begin(home, &["--workspace", workspace.to_str().unwrap()]);
    running.signal(Signal::KILL);
    running.wait().expect_code(-9);
    eventually("the changes", || {
        fs::read(workspace.join("file")).is_ok_and(|text| text == b"kept")
    });
    eventually("the deletion", || !workspace.join("old").exists());
}

#[test]
fn when_the_supervisor_is_killed_the_command_is_lost_and_the_next_start_cleans_up() {
    supervisor_killed(&Home::new());
}

pub(crate) fn supervisor_killed(home: &Home) {
    let workspace = home.make_directory("workspace");
    home.make_file(&workspace.join("old"), "x");
    let running = begin(home, &["--workspace", workspace.to_str().unwrap()]);
    invocation::kill(supervisor(home), Signal::KILL);
    running.wait().expect_error(125, &["error[SBX-007]"]);
    let mark = home.mark();
    eventually("the end of its processes", || processes::with_argument(&mark).is_empty());
    home.shell(&[], "true").expect_code(0);
    assert_eq!(fs::read_to_string(workspace.join("file")).unwrap(), "kept");
    assert!(!workspace.join("old").exists());
    let ids = home.sandboxes_since();
    assert_eq!(ids.len(), 2);
    eventually("nothing to be left", || home.remains(&ids).is_empty());
}

#[test]
fn when_both_are_killed_the_next_start_cleans_up() {
    let home = Home::new();
    let workspace = home.make_directory("workspace");
    let running = begin(&home, &["--workspace", workspace.to_str().unwrap()]);
    let supervisor = supervisor(&home);
    invocation::kill(supervisor, Signal::STOP);
    running.signal(Signal::KILL);
    running.wait().expect_code(-9);
    invocation::kill(supervisor, Signal::KILL);
    let mark = home.mark();
    eventually("the end of its processes", || processes::with_argument(&mark).is_empty());
    eventually("the end of the supervisor", || home.supervisors().is_empty());
    home.shell(&[], "true").expect_code(0);
    assert_eq!(fs::read_to_string(workspace.join("file")).unwrap(), "kept");
}

#[test]
fn a_lost_command_is_told_as_an_event() {
    let home = Home::new();
    let running = begin_json(&home);
    invocation::kill(supervisor(&home), Signal::KILL);
    let ran = running.wait().expect_code(125);
    let last = crate::json::last(&ran);
    assert_eq!((&last["event"], &last["code"]), (&"failed".into(), &"SBX-007".into()));
    home.shell(&[], "true").expect_code(0);
}

fn begin_json(home: &Home) -> Running {
    let words = ["--json", "--", "sh", "-c", "echo ready; sleep 1000"];
    let running = home.exec(words).spawn();
    running.until_it_says("{\"event\":\"stdout\",\"text\":\"ready\\n\"}\n");
    running
}

#[test]
fn the_programs_own_processes_cannot_be_hurt_from_inside() {
    let home = Home::new();
    let script = "kill -9 1; kill -STOP 1; kill -9 -1; echo survived";
    let ran = home.exec(["--timeout", "20s", "--", "sh", "-c", script]).run();
    // `kill -9 -1` reaches the command's own monitor; what must not happen is
    // that the sandbox hangs or that we say it went well.
    assert_ne!(ran.code, 124, "{}", ran.errors());
    home.shell(&[], "true").expect_code(0);
}
