//! What jobs of a server find again: their own, and nobody else's.

use std::os::unix::fs::PermissionsExt;

use cofferdam_testkit::{Dialect, Recorded, ScriptedAnswer, Turn};
use cofferdam_types::Tokens;
use serde_json::{Value, json};

use crate::agent::{Agent, bash, of_kind, records};
use crate::server_lab::Served;

/// What one job learns.
const FACT: &str = "zebra_port = 48217";

/// Whoever is asked for a summary calls nothing.
fn is_summary(body: &Value) -> bool {
    body["tools"].as_array().is_none_or(Vec::is_empty)
}

/// The model, whose provider does not count: how much was read is guessed.
fn uncounted(request: &Recorded, number: usize) -> Turn {
    match model(request, number) {
        Turn::Answer(answer) => Turn::Answer(ScriptedAnswer { usage: Tokens::default(), ..answer }),
        faulty => faulty,
    }
}

/// Learns the fact, does other things until it is gone, and looks for it. The other job
/// looks for it at once.
fn model(request: &Recorded, turn: usize) -> Turn {
    let body = request.body["messages"].to_string();
    if is_summary(&request.body) {
        let text = "Several files were looked at one after another, and nothing was of note.";
        return Turn::text(text);
    }
    if body.contains("[`recall` with `id` reads") || body.contains("Nothing was found") {
        return Turn::text("done");
    }
    if body.contains("the second task") {
        return Turn::call("recall", json!({ "query": "zebra port" }));
    }
    if body.contains("<memory>") && !body.contains(FACT) {
        return Turn::call("recall", json!({ "query": "zebra port" }));
    }
    match body.contains("call_") || body.contains("tool_use") {
        false => bash(&format!("echo '{FACT}'")),
        true => bash(&format!("seq -f 'row {turn}-%g says nothing' 1 120")),
    }
}

fn complete(served: &Served, task: &str) -> (String, Vec<Value>) {
    let job = served.submit(&["--max-turns", "100", task]);
    served.until(&job, "ended");
    assert_eq!(served.job(&job)["status"], "complete");
    let log = served.ask(&["logs", "--json", &job]).expect_code(0);
    (job, records(&log.stdout))
}

/// What came of the last call.
fn last_output(log: &[Value]) -> String {
    of_kind(log, "tool_ended").last().unwrap()["output"].to_string()
}

#[test]
fn a_job_finds_its_own_past_and_no_other_job_does() {
    let agent = Agent::with(Dialect::Messages, uncounted);
    let served = Served::with_options(agent, &["--context-window", "12000"]);
    let (first, log) = complete(&served, "the first task");
    assert!(!of_kind(&log, "context_cut").is_empty());
    assert!(last_output(&log).contains(FACT), "{}", last_output(&log));
    let directory = served.agent.home.path().join("jobs").join(&first);
    for name in ["recall.db", "context.md"] {
        let about = std::fs::metadata(directory.join(name)).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o600, "{name}");
    }

    let (second, log) = complete(&served, "the second task");
    assert_eq!(of_kind(&log, "tool_started")[0]["tool"], "recall");
    assert!(!last_output(&log).contains("48217"), "{}", last_output(&log));
    let directory = served.agent.home.path().join("jobs").join(&second);
    assert!(!directory.join("context.md").exists());
}
