//! `kill -9` of `cofferdam run`, anywhere: `--resume` completes the task, and
//! nothing is done twice.

use std::collections::HashSet;

use cofferdam_testkit::{Dialect, Recorded, Turn};
use rustix::process::Signal;
use serde_json::Value;

use crate::agent::{Agent, bash, of_kind, records};
use crate::eventually;

const STEPS: usize = 8;

/// A model that appends one line after another. It looks at the conversation to
/// see how far it is; when it is told that the end of a call is not known, it
/// looks before it writes.
fn careful(request: &Recorded, _: usize) -> Turn {
    let body = request.body.to_string();
    let made = body.matches("call_made_").count() / 2;
    if made >= STEPS {
        return Turn::text("done");
    }
    // The mark of each step is in its command and in its output.
    let step = made;
    bash(&format!("grep -qx {step} log.txt || echo {step} >> log.txt; echo call_made_{step}_"))
}

#[test]
fn a_job_killed_at_ten_points_is_completed_by_its_resumption() {
    // Points spread over the whole run, the same in every run of the test.
    for point in 0..10_usize {
        let lines = 2 + point * 4;
        let agent = Agent::with(Dialect::Messages, careful);
        std::fs::write(agent.workspace.join("log.txt"), "").unwrap();
        let running = agent.run(&["--json", "count"]).spawn();
        eventually("so many events", || running.lines_so_far() >= lines || running.has_ended());
        running.signal(Signal::KILL);
        let first = running.wait();
        assert!(first.code == -9 || first.code == 0, "{}", first.errors());
        if first.code == -9 {
            agent.run(&["--last"]).run().expect_code(0);
        }
        let counted: String = (0..STEPS).map(|step| format!("{step}\n")).collect();
        assert_eq!(agent.file("log.txt"), counted, "killed after {lines} events");
        sound(&agent.transcript());
    }
}

/// A transcript without a gap, in which no call began twice, every call that
/// began has an end, and that ends once.
fn sound(transcript: &[Value]) {
    let mut started = HashSet::new();
    for record in of_kind(transcript, "tool_started") {
        assert!(started.insert(record["call"].as_u64().unwrap()), "{record}");
    }
    let ended: HashSet<u64> = of_kind(transcript, "tool_ended")
        .iter()
        .map(|record| record["call"].as_u64().unwrap())
        .collect();
    assert!(started.is_subset(&ended));
    assert_eq!(of_kind(transcript, "ended").len(), 1);
    assert_eq!(transcript.last().unwrap()["event"], "ended");
}

#[test]
fn a_call_in_doubt_is_told_as_unknown_to_the_model_and_in_the_log() {
    let agent = Agent::with(Dialect::Messages, |request, _| {
        let body = request.body.to_string();
        if body.contains("is not known") {
            Turn::text("I looked; it is there.")
        } else {
            bash("echo begun > begun.txt; sleep 1000")
        }
    });
    let running = agent.run(&["--json", "do it"]).spawn();
    eventually("the call", || running.so_far().contains("tool_started"));
    running.signal(Signal::KILL);
    running.wait().expect_code(-9);
    agent.run(&["--last"]).run().expect_code(0);
    let transcript = agent.transcript();
    let ended = of_kind(&transcript, "tool_ended");
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0]["output"]["status"], "unknown");
    assert_eq!(of_kind(&transcript, "tool_started").len(), 1);
    assert_eq!(of_kind(&transcript, "taken_up").len(), 2);
}

#[test]
fn a_job_is_driven_by_one_process_at_a_time() {
    let agent = Agent::new(Dialect::Chat, [bash("sleep 1000")]);
    let running = agent.run(&["--json", "wait"]).spawn();
    eventually("the call", || running.so_far().contains("tool_started"));
    agent.run(&["--last"]).run().expect_error(2, &["RUN-007", "another process"]);
    running.signal(Signal::INT);
    running.wait().expect_code(130);
}

#[test]
fn a_torn_last_line_is_no_obstacle() {
    let agent = Agent::with(Dialect::Chat, careful);
    std::fs::write(agent.workspace.join("log.txt"), "").unwrap();
    let running = agent.run(&["--json", "count"]).spawn();
    eventually("some events", || running.lines_so_far() >= 12);
    running.signal(Signal::KILL);
    running.wait().expect_code(-9);
    let history = agent.home.path().join("history");
    let path = std::fs::read_dir(history).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(br#"{"v":1,"seq":99,"at":17"#);
    std::fs::write(&path, bytes).unwrap();
    let ran = agent.run(&["--last", "--json"]).run().expect_code(0);
    assert!(!ran.stdout.is_empty());
    sound(&records(&std::fs::read(&path).unwrap()));
}
