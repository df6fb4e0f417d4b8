//! `cofferdam context`, and what people see of a conversation that is cut.

use cofferdam_testkit::{Dialect, Recorded, ScriptedAnswer, Turn};
use cofferdam_types::Tokens;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent::{Agent, bash, of_kind, records};
use crate::eventually;
use crate::server_lab::Served;

/// Rounds that read something long: more than the window has room for.
const ROUNDS: usize = 10;

const WINDOW: &str = "16000";

const SUMMARY: &str = "SUMMARY SO FAR: many numbers were printed one after the other, nothing was \
    changed, and the last of them is still to be looked at.";

/// A model that has so much printed that it no longer fits, and one that summarises it.
fn model() -> impl FnMut(&Recorded, usize) -> Turn + Send + 'static {
    let mut rounds = 0;
    move |request, _| {
        let read = serde_json::to_vec(&request.body).unwrap().len() as u64 / 4;
        // As if half of it had been read before.
        let (input, cache_read) = (read - read / 2, read / 2);
        let usage = Tokens { input, cache_read, cache_write: 0, output: 40 };
        let answer = ScriptedAnswer { usage, ..ScriptedAnswer::default() };
        if request.body["model"] == "brief" {
            return Turn::Answer(ScriptedAnswer { text: SUMMARY.to_owned(), ..answer });
        }
        rounds += 1;
        if rounds > ROUNDS {
            return Turn::Answer(ScriptedAnswer { text: "all is read".to_owned(), ..answer });
        }
        let command = json!({"command": format!("seq {rounds} {}", 900 + rounds)});
        Turn::Answer(ScriptedAnswer { calls: vec![("bash".to_owned(), command)], ..answer })
    }
}

/// The cuts that the log has are the cuts that are shown, and the text is what was sent
/// last.
fn agrees(shown: &Value, log: &[Value], requests: &[Recorded]) {
    let cuts = of_kind(log, "context_cut");
    assert!(!cuts.is_empty());
    let told = shown["cuts"].as_array().unwrap();
    assert_eq!(told.len(), cuts.len());
    for (told, cut) in told.iter().zip(&cuts) {
        assert_eq!(told["event"], cut["seq"]);
        assert_eq!((&told["before"], &told["after"]), (&cut["tokens"][0], &cut["tokens"][1]));
    }
    let by_model = told.iter().filter(|cut| cut["by"] == "model");
    let model: Vec<&Value> = by_model.map(|cut| &cut["bill"]["model"]).collect();
    assert!(!model.is_empty() && model.iter().all(|name| **name == "anthropic/brief"), "{told:?}");
    let conversation = &shown["conversations"][0];
    assert_eq!(conversation["window"], 16_000);
    let asked = requests.iter().rfind(|request| request.body["model"] != "brief").unwrap();
    let sent = asked.body["messages"].to_string();
    let first = conversation["messages"][0]["content"][1]["text"].as_str().unwrap();
    assert!(first.contains("<memory>") && first.contains(SUMMARY), "{first}");
    assert!(sent.contains(&json!(first).to_string()));
    let system = json!(conversation["system"]).to_string();
    assert!(asked.body["system"].to_string().contains(&system));
}

#[test]
fn what_the_model_of_a_job_sees_is_shown_by_part_and_cut() {
    let agent = Agent::with(Dialect::Messages, model());
    let words = ["--summariser", "anthropic/brief", "--context-window", WINDOW, "read a lot"];
    let ran = agent.run(&words).run().expect_code(0);
    let seen = ran.errors();
    assert!(
        seen.contains("summarising…") && seen.contains("were summarised to save room"),
        "{seen}"
    );
    assert!(!seen.contains("SUMMARY SO FAR") && !ran.text().contains("SUMMARY"), "{seen}");
    assert!(seen.contains("% cached)"), "{seen}");
    let log = agent.transcript();
    assert_eq!(log[0]["spec"]["summariser"], "anthropic/brief");

    let context = |words: &[&str]| agent.invoke("context", words).env("CONTEXT_WINDOW", WINDOW);
    let json = context(&["--last", "--json", "--full"]).run().expect_code(0);
    agrees(&serde_json::from_str(&json.text()).unwrap(), &log, &agent.requests());
    let id = log[0]["spec"]["job"].as_str().unwrap();
    let told = context(&[id]).run().expect_code(0).text();
    for words in ["instructions", "tools", "task and memory", "summary of #", "recent messages"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(told.contains("summarised by anthropic/brief"), "{told}");
    let end = id.rsplit('-').next().unwrap();
    let full = context(&["--full", end]).run().expect_code(0).text();
    assert!(full.contains("===== orchestrator: instructions =====") && full.contains(SUMMARY));
    // Nobody has such a job, here or at a server, of which there is none.
    let server = "http://127.0.0.1:9";
    context(&["ffffffff"]).run().expect_error(2, &["RUN-005"]);
    context(&["--server", server, id]).run().expect_error(1, &["REM-001"]);
}

#[test]
fn whoever_summarises_can_be_another_model_when_a_job_goes_on() {
    let mut planned = 0;
    let agent = Agent::with(Dialect::Messages, move |request, _| {
        // Its provider does not count.
        let usage = Tokens::default();
        let says = |text: &str| {
            Turn::Answer(ScriptedAnswer { text: text.to_owned(), usage, ..Default::default() })
        };
        if request.body["tools"].as_array().is_none_or(Vec::is_empty) {
            return says(SUMMARY);
        }
        planned += 1;
        if planned > 40 {
            return says("all is read");
        }
        let command = json!({"command": format!("seq {planned} {}", 900 + planned)});
        let calls = vec![("bash".to_owned(), command)];
        Turn::Answer(ScriptedAnswer { calls, usage, ..Default::default() })
    });
    let words = ["--json", "--context-window", WINDOW, "--summariser", "anthropic/brief"];
    agent.run(&words).words(["--max-turns", "18", "read a lot"]).run().expect_code(4);
    let words = ["--json", "--context-window", WINDOW, "--last", "--max-turns", "200"];
    agent.run(&words).words(["--summariser", "anthropic/other"]).run().expect_code(0);
    let log = agent.transcript();
    let changed = of_kind(&log, "models_changed");
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(changed[0]["summariser"], "anthropic/other");
    let since = changed[0]["seq"].as_u64();
    let mut before_and_after = [0, 0];
    for asked in of_kind(&log, "model_asked").iter().filter(|one| one["role"] == "summariser") {
        let after = asked["seq"].as_u64() > since;
        assert_eq!(asked["model"], if after { "anthropic/other" } else { "anthropic/brief" });
        before_and_after[usize::from(after)] += 1;
    }
    assert!(before_and_after.iter().all(|asked| *asked > 0), "{before_and_after:?}");
    // The one that it has already is no change.
    let same = ["--last", "--summariser", "anthropic/other", "and once more"];
    agent.run(&same).run().expect_code(0);
    assert_eq!(of_kind(&agent.transcript(), "models_changed").len(), 1);
}

#[test]
fn a_job_is_looked_at_while_it_runs() {
    let agent = Agent::new(Dialect::Messages, [bash("sleep 600")]);
    let running = agent.run(&["--json", "wait"]).spawn();
    eventually("a call", || running.so_far().contains("tool_started"));
    let told = agent.invoke("context", &["--last"]).run().expect_code(0).text();
    assert!(told.contains("recent messages") && told.contains("sleep 600"), "{told}");
    assert!(told.contains("nothing was cut"), "{told}");
    running.signal(Signal::INT);
    running.wait().expect_code(130);
}

#[test]
fn a_server_s_job_names_who_summarises_and_is_looked_at_the_same_way() {
    let served = Served::with_options(
        Agent::with(Dialect::Messages, model()),
        &["--context-window", WINDOW],
    );
    let words = ["submit", "--follow", "--summariser", "anthropic/brief", "read a lot"];
    let followed = served.ask(&words).expect_code(0);
    assert!(!followed.errors().contains("SUMMARY SO FAR"), "{}", followed.errors());
    let id = followed.text().lines().next().unwrap().to_owned();
    let log = records(&served.ask(&["logs", "--json", &id]).expect_code(0).stdout);
    let words = ["context", "--json", "--full", &id];
    let json = served.command(&words).env("CONTEXT_WINDOW", WINDOW).run().expect_code(0);
    agrees(&serde_json::from_str(&json.text()).unwrap(), &log, &served.agent.requests());
    let told = served.ask(&["logs", &id]).expect_code(0).text();
    assert!(told.contains("summarising…") && !told.contains("SUMMARY SO FAR"), "{told}");
    let job = served.job(&id);
    assert_eq!(job["summariser"], "anthropic/brief");
    assert!(job["tokens_cached"].as_u64().unwrap() > 0, "{job}");
    let status = served.ask(&["status", &id]).expect_code(0).text();
    assert!(status.contains("% cached)"), "{status}");
    served.ask(&["context", "ffffffff"]).expect_error(2, &["REM-007"]);
    served.ask(&["submit", "--summariser", "nobody/x", "t"]).expect_error(1, &["API-012"]);
}
