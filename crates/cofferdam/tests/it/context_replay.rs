//! A recorded job that was cut on the way is replayed: the same happens again.

use std::collections::BTreeMap;

use cofferdam_testkit::{Dialect, Fault, Recorded, ScriptedAnswer, Turn};
use cofferdam_types::Tokens;
use serde_json::{Value, json};

use crate::agent::{Agent, ending, of_kind, records};
use crate::invocation::Ran;

const WINDOW: &str = "16000";

const TASK: &str = "read a lot";

/// Rounds that the orchestrator reads something long in, and those of its coder.
const ROUNDS: usize = 70;
const CODERS_ROUNDS: usize = 14;

/// Who is asked, by what it is told to be.
fn asked(body: &Value) -> &'static str {
    let system = body["system"].to_string();
    let known = [
        ("You summarise", "summariser"),
        ("You read something long", "reader"),
        ("You are the coder", "coder"),
    ];
    let known = known.into_iter().find(|(words, _)| system.contains(words));
    known.map_or("orchestrator", |(_, who)| who)
}

/// A model that has so much printed that it no longer fits, has a long file read, has a
/// coder do the same, and is not always well.
fn model() -> impl FnMut(&Recorded, usize) -> Turn + Send + 'static {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    move |request, _| {
        let read = serde_json::to_vec(&request.body).unwrap().len() as u64 / 4;
        let usage = Tokens { input: read, output: 40, ..Tokens::default() };
        let says =
            |text: String| Turn::Answer(ScriptedAnswer { text, usage, ..Default::default() });
        let calls = |name: &str, arguments: Value| {
            let calls = vec![(name.to_owned(), arguments)];
            Turn::Answer(ScriptedAnswer { calls, usage, ..Default::default() })
        };
        let who = asked(&request.body);
        let time = times.entry(who).or_default();
        *time += 1;
        let time = *time;
        let prints = || calls("bash", json!({"command": format!("seq {time} {}", 800 + time)}));
        let too_long = json!({"type": "error", "error":
            {"type": "invalid_request_error", "message": "prompt is too long"}});
        match (who, time) {
            ("summariser", 1) => says("}{ ;; ]] ".repeat(30)),
            ("summariser", 3) => Turn::status(500, &[], "broken"),
            ("summariser", 4) => says("x".to_owned()).but(Fault::Empty),
            ("summariser", 6) => Turn::status(400, &[], "no"),
            ("summariser", _) => says(format!(
                "SUMMARY {time}: {}",
                "many numbers were printed one after the other and nothing was changed by it; "
                    .repeat(4)
            )),
            ("reader", _) => says(format!("NOTE {time}: the numbers go on")),
            ("coder", time) if time > CODERS_ROUNDS => says("the coder is done".to_owned()),
            ("coder", _) => prints(),
            (_, 1) => calls("bash", json!({"command": "seq 1 20000 > long.txt"})),
            (_, 2) => {
                let question = json!({"path": "long.txt", "question": "what are the numbers?"});
                calls("digest", question)
            }
            (_, 3) => Turn::status(500, &[], "broken"),
            (_, 10) => says("x".to_owned()).but(Fault::Empty),
            (_, 20) => calls("delegate", json!({"instruction": "print a lot"})),
            (_, 30) => Turn::status(400, &[], too_long.to_string()),
            (_, time) if time > ROUNDS => says("all is read".to_owned()),
            _ => prints(),
        }
    }
}

fn run(agent: &Agent, words: &[&str]) -> Ran {
    let all = [&["--json", "--max-turns", "500"], words].concat();
    let ran = agent.run(&all).run().expect_code(0);
    assert_eq!(ending(&ran)["summary"], "all is read");
    ran
}

/// A record without what differs from run to run: when, how long, by which name, for how
/// much.
fn alike(record: &Value) -> Value {
    const DIFFER: [&str; 12] = [
        "at",
        "job",
        "sandbox",
        "took_ms",
        "retry_at",
        "retry_after_ms",
        "time_ms",
        "model",
        "orchestrator",
        "coder",
        "cost",
        "unpriced",
    ];
    match record {
        Value::Object(fields) => {
            let same = fields.iter().filter(|(name, _)| !DIFFER.contains(&name.as_str()));
            Value::Object(same.map(|(name, value)| (name.clone(), alike(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(alike).collect()),
        other => other.clone(),
    }
}

#[track_caller]
fn same(recorded: &[Value], replayed: &[Value]) {
    for (recorded, replayed) in recorded.iter().zip(replayed) {
        assert_eq!(alike(recorded), alike(replayed));
    }
    assert_eq!(recorded.len(), replayed.len());
}

/// Everything is in it that a replay has to follow.
#[track_caller]
fn has_all(log: &[Value]) {
    let cuts = of_kind(log, "context_cut");
    let any = |what: &str, is: &dyn Fn(&Value) -> bool| {
        assert!(cuts.iter().any(|one| is(one)), "no cut {what}");
    };
    any("prunes", &|one| one["cut"]["how"] == "pruned");
    any("is a model's", &|one| one["cut"]["by"] == "model");
    any("is by rule", &|one| one["cut"]["by"] == "rule");
    any("is of summaries", &|one| one["cut"]["span"]["of"] == "summaries");
    any("is the coder's", &|one| one["thread"] == 2);
    let notes = of_kind(log, "noted");
    assert!(notes.iter().any(|note| note["text"].to_string().contains("makes sense")), "{notes:?}");
    let read = of_kind(log, "delegated");
    assert!(read.iter().any(|one| one["reading"]["pieces"].as_u64() > Some(2)), "{read:?}");
    let failed = of_kind(log, "model_failed");
    assert!(failed.iter().any(|one| one["failure"]["kind"] == "too_long"), "{failed:?}");
}

#[test]
fn a_job_that_was_cut_is_replayed_to_the_same_events() {
    let agent = Agent::with(Dialect::Messages, model());
    let narrow = ["--context-window", WINDOW];
    let recorded = records(&run(&agent, &[&narrow[..], &[TASK]].concat()).stdout);
    has_all(&recorded);
    let asked = agent.requests().len();
    let replay = format!("replay/{}", recorded[0]["spec"]["job"].as_str().unwrap());

    std::fs::remove_file(agent.workspace.join("long.txt")).unwrap();
    let replayed = run(&agent, &[&narrow[..], &["--model", &replay, TASK]].concat());
    let replayed = records(&replayed.stdout);
    same(&recorded, &replayed);
    assert_eq!(agent.requests().len(), asked, "nobody else was asked");

    // A replay that another process goes on with follows the recording all the same.
    std::fs::remove_file(agent.workspace.join("long.txt")).unwrap();
    let first = ["--json", "--model", &replay, "--max-turns", "31", TASK];
    agent.run(&[&narrow[..], &first].concat()).run().expect_code(4);
    run(&agent, &[&narrow[..], &["--last"]].concat());

    // One that can read more has less to ask for, and says the same.
    std::fs::remove_file(agent.workspace.join("long.txt")).unwrap();
    run(&agent, &["--model", &replay, TASK]);
    assert_eq!(agent.requests().len(), asked, "nobody else was asked");
}
