//! What a job recalls, with somebody who says what texts mean.

use cofferdam_testkit::{Dialect, Embedded, EmbeddingServer, Embeddings, Turn};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::agent::{Agent, bash, of_kind};
use crate::eventually;
use crate::server_lab::Served;

/// Notes that a job writes, of which one is meant.
const NOTES: usize = 8;

const QUESTION: &str = "quokka note";

/// A model that writes notes and asks for them again.
fn agent() -> Agent {
    let note = |number: usize| match number {
        NOTES => {
            "the last quokka note says that the burrow at the creek is under water now".to_owned()
        }
        _ => format!("quokka note {number}"),
    };
    // One after another: what runs at the same time ends in any order.
    let notes = (1..=NOTES).map(|number| bash(&format!("echo {}", note(number))));
    let recall = Turn::call("recall", json!({ "query": QUESTION, "limit": 20 }));
    Agent::new(Dialect::Messages, notes.chain([recall]))
}

/// The lines of the list that the model was given, each with what was found there.
pub(crate) fn found(log: &[Value]) -> Vec<String> {
    let outputs = of_kind(log, "tool_ended");
    let mut texts = outputs.iter().flat_map(|record| strings(record));
    let list = texts.rfind(|text| text.contains("`recall` with `id` reads one whole"));
    let list = list.unwrap_or_else(|| panic!("no list in {outputs:?}"));
    let mut found: Vec<String> = Vec::new();
    for line in list.lines() {
        match found.last_mut() {
            Some(last) if line.starts_with("  | ") => last.push_str(line),
            _ => found.push(line.to_owned()),
        }
    }
    found
}

/// All texts in a value.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

/// An embedder with a thread of its own.
fn embedder(
    answer: impl FnMut(&Embedded) -> Embeddings + Send + 'static,
) -> (EmbeddingServer, Runtime) {
    let runtime: Runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    (runtime.block_on(EmbeddingServer::start(answer)).unwrap(), runtime)
}

/// What one answers that knows which note is meant.
fn good(question: &Embedded) -> Embeddings {
    let meant = |text: &String| text.contains("burrow") || text == QUESTION;
    let vector = |text| if meant(text) { vec![1.0, 0.0] } else { vec![0.0, 1.0] };
    Embeddings::Vectors(question.texts().iter().map(vector).collect())
}

/// What is found by a job beside this embedder, and what that was asked.
fn beside(
    answer: impl FnMut(&Embedded) -> Embeddings + Send + 'static,
) -> (Vec<String>, Vec<Embedded>) {
    let (server, _runtime) = embedder(answer);
    let agent = agent();
    let run = agent.run(&["write notes"]).env("VLLM_BASE_URL", server.base_url());
    run.env("COFFERDAM_EMBEDDER", "vllm/vectors").run().expect_code(0);
    (found(&agent.transcript()), server.asked())
}

/// Where the note that is meant stands: its output, or how it was written.
fn place(found: &[String]) -> usize {
    found.iter().rposition(|line| line.contains("burrow")).unwrap()
}

#[test]
fn what_is_meant_comes_earlier_with_an_embedder_and_nothing_is_lost_with_a_bad_one() {
    let alone = agent();
    alone.run(&["write notes"]).run().expect_code(0);
    let by_words = found(&alone.transcript());

    let (mixed, asked) = beside(good);
    assert!(place(&mixed) < place(&by_words), "{by_words:#?}\n{mixed:#?}");
    assert_eq!(asked.len(), 1, "only what was asked for is looked at");
    assert_eq!(asked[0].body["model"], "vectors");
    let texts = asked[0].texts();
    assert_eq!(texts[0], QUESTION);
    assert!((NOTES..=50).contains(&(texts.len() - 1)), "{}", texts.len());

    let (found, asked) = beside(|_| Embeddings::Whole(500, "out of order".to_owned()));
    assert_eq!(without_times(&found), without_times(&by_words));
    assert_eq!(asked.len(), 1);
}

/// The list without what differs from job to job.
pub(crate) fn without_times(found: &[String]) -> Vec<String> {
    let parts = found.iter().map(|line| line.split(", ").collect::<Vec<_>>());
    parts.map(|parts| [parts[0], parts[parts.len() - 1]].join(", ")).collect()
}

#[test]
fn jobs_of_a_server_have_the_embedder_of_its_settings() {
    let (server, _runtime) = embedder(good);
    let agent = agent();
    agent.configure(&format!(
        "[model]\nembedder = \"mine/vectors\"\n[providers.mine]\nwire = \"chat\"\n\
         base_url = \"{}\"\nkey = \"key-of-the-embedder\"\n",
        server.base_url()
    ));
    let served = Served::with_options(agent, &[]);
    let job = served.submit(&["write notes"]);
    eventually("the end of the job", || served.job(&job)["status"] == "complete");
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].authorization.as_deref(), Some("Bearer key-of-the-embedder"));
    assert_eq!(asked[0].texts()[0], QUESTION);
}

#[test]
fn an_embedder_that_cannot_be_one_is_told_before_anything_begins() {
    for (name, words) in [
        ("anthropic/claude-x", ["anthropic/claude-x cannot be used", "makes no embeddings"]),
        ("groq/vectors", ["no key for groq", "GROQ_API_KEY"]),
        ("stranger/vectors", ["unknown provider \"stranger\"", "known are anthropic"]),
        ("vectors", ["COFFERDAM_EMBEDDER names the model", "without its provider"]),
    ] {
        let agent = agent();
        let run = agent.run(&["write notes"]).env("COFFERDAM_EMBEDDER", name);
        run.run().expect_error(2, &words);
        assert!(agent.requests().is_empty(), "{name}");
    }
}
