//! The documents that each kind of event becomes.

use std::time::Duration;

use cofferdam_types::{
    Arguments, CallId, LOG_VERSION, ModelName, Outcome, StopReason, Timestamp, Tokens, ToolOutput,
};

use super::*;

#[derive(Default)]
struct Log {
    documents: Documents,
    seq: u64,
}

impl Log {
    fn push(&mut self, event: Event) -> Vec<Document> {
        self.seq += 1;
        let at = Timestamp(self.seq * 10);
        self.documents.of(&Record { v: LOG_VERSION, seq: self.seq, at, event })
    }

    fn answer(&mut self, thread: u32, role: Role, blocks: Vec<Block>) -> Vec<Document> {
        let request = RequestId(u32::try_from(self.seq).unwrap());
        let model = ModelName("demo".to_owned());
        let thread = ThreadId(thread);
        self.push(Event::ModelAsked { thread, request, role, model, attempt: 1, span: None });
        let answer = Answer { blocks, stop: StopReason::Done, tokens: Tokens::default() };
        self.push(Event::ModelAnswered { request, answer, cost: None })
    }

    fn ended(&mut self, thread: u32, id: &str, text: &str) -> Vec<Document> {
        let output = ToolOutput::text(ToolStatus::Done, text);
        let (call, thread) = (CallId(1), ThreadId(thread));
        self.push(Event::ToolEnded { call, thread, id: id.to_owned(), output })
    }
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn call(id: &str, name: &str, arguments: &str) -> Block {
    let arguments = Arguments(arguments.to_owned());
    Block::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments })
}

fn kinds(documents: &[Document]) -> Vec<(u32, Kind)> {
    let kind = |document: &Document| match document.source {
        Source::Event { part, kind, .. } => (part, kind),
        Source::File { .. } => panic!("a file"),
    };
    documents.iter().map(kind).collect()
}

#[test]
fn what_is_said_called_and_put_out_is_found_with_what_was_before_it() {
    let mut log = Log::default();
    let said = log.push(Event::UserSaid { text: "Fix the login.".to_owned() });
    assert_eq!(kinds(&said), [(0, Kind::User)]);

    let blocks = vec![
        Block::Thinking { text: "secret".to_owned(), seal: None },
        text("I read it."),
        call("a", "read_file", r#"{"path":"/workspace/src/login.rs","first":3}"#),
        call("b", "bash", r#"{"command":"ls"}"#),
    ];
    let answered = log.answer(0, Role::Orchestrator, blocks);
    assert_eq!(kinds(&answered), [(0, Kind::Answer), (1, Kind::Call), (2, Kind::Call)]);
    let [answer, read, _] = answered.as_slice() else { panic!("{answered:?}") };
    assert_eq!((answer.text.as_str(), answer.before.as_str()), ("I read it.", "Fix the login."));
    assert_eq!(read.files, ["src/login.rs"]);
    assert_eq!(read.before, "I read it.");
    assert_eq!(read.text, "read_file\nfirst: 3\npath: /workspace/src/login.rs");

    let second = log.ended(0, "b", "src");
    assert_eq!(second.first().unwrap().before, "I read it.\nbash\ncommand: ls");
    let first = log.ended(0, "a", "fn login() {}");
    let [first] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!(first.files, ["src/login.rs"]);
    assert!(first.before.starts_with("I read it.\nread_file"), "{}", first.before);
}

#[test]
fn conversations_do_not_mix() {
    let mut log = Log::default();
    log.push(Event::UserSaid { text: "to the first".to_owned() });
    log.answer(0, Role::Orchestrator, vec![call("x", "delegate", r#"{"instruction":"do"}"#)]);
    let brief = "write the parser".to_owned();
    let (thread, call_id) = (ThreadId(1), CallId(7));
    let told = log.push(Event::Delegated { thread, call: call_id, brief, reading: None });
    assert_eq!(kinds(&told), [(0, Kind::Call)]);
    let coder = log.answer(1, Role::Coder, vec![call("x", "bash", r#"{"command":"cat a.rs"}"#)]);
    assert_eq!(coder.first().unwrap().before, "write the parser");
    assert_eq!(log.ended(1, "x", "out").first().unwrap().files, ["a.rs"]);
    assert!(log.ended(0, "x", "done").first().unwrap().before.contains("delegate"));
}

#[test]
fn checks_and_other_endings_are_found() {
    let mut log = Log::default();
    let result = CheckResult {
        command: "make check".to_owned(),
        outcome: Outcome::Exited { exit_code: 2 },
        output: "1 failed".to_owned(),
        took: Duration::ZERO,
    };
    let checked = log.push(Event::CheckEnded { attempt: 1, results: vec![result] });
    assert_eq!(kinds(&checked), [(0, Kind::Check)]);
    assert_eq!(checked.first().unwrap().text, "make check\nexit code: 2\n1 failed");
    let output = ToolOutput::text(ToolStatus::Refused, "not allowed");
    let (call, thread, id) = (CallId(1), ThreadId(0), "z".to_owned());
    let refused = log.push(Event::ToolEnded { call, thread, id, output });
    assert_eq!(refused.first().unwrap().text, "[refused]\nnot allowed");
    assert!(log.push(Event::Paused).is_empty());
    assert!(log.ended(0, "y", "  \n").is_empty());
}

#[test]
fn what_was_recalled_and_summaries_are_not_found_again() {
    let mut log = Log::default();
    let blocks = vec![text("Where was it?"), call("r", "recall", r#"{"query":"needle"}"#)];
    assert_eq!(kinds(&log.answer(0, Role::Orchestrator, blocks)), [(0, Kind::Answer)]);
    assert!(log.ended(0, "r", "the needle is in event 3").is_empty());
    assert!(log.answer(0, Role::Summariser, vec![text("all of it, shorter")]).is_empty());
    let next = log.answer(0, Role::Orchestrator, vec![text("on")]);
    assert!(!next.first().unwrap().before.contains("shorter"));
}

#[test]
fn long_texts_come_in_parts_that_are_all_of_it() {
    let mut log = Log::default();
    let line = "a line of a long output, with ümläuts\n";
    for long in [line.repeat(20_000), "ü".repeat(300_000), line.repeat(900)] {
        let documents = log.ended(0, "none", &long);
        assert!(documents.len() > 1);
        let parts: Vec<u32> = kinds(&documents).iter().map(|(part, _)| *part).collect();
        assert!(parts.into_iter().eq(0..u32::try_from(documents.len()).unwrap()));
        assert!(documents.iter().all(|document| document.text.len() <= PART));
        assert!(documents.iter().all(|document| document.before.len() <= BEFORE));
        let whole: String = documents.iter().map(|document| document.text.as_str()).collect();
        assert!(whole == long);
    }
    let whole = line.repeat(WHOLE / line.len());
    assert_eq!(log.ended(0, "none", &whole).len(), 1);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut log = Log::default();
    for number in 0..2000_u32 {
        let brief = "b".repeat(5000);
        log.push(Event::Delegated {
            thread: ThreadId(number + 1),
            call: CallId(1),
            brief,
            reading: None,
        });
        let id = format!("c{number}");
        log.answer(number + 1, Role::Coder, vec![call(&id, "bash", "not json")]);
    }
    assert!(log.documents.calls.len() <= OPEN);
    assert!(log.documents.before.len() <= OPEN + 1);
    assert!(log.documents.before.values().all(|before| before.len() <= BEFORE));
    assert!(log.documents.questions.is_empty());
}
