//! A recorded log answers as it was recorded, and nothing else.

use std::path::PathBuf;

use cofferdam_model::Assembler;
use cofferdam_types::{
    Arguments, Budget, CallId, JobId, JobSpec, LOG_VERSION, Limits, ModelFailure, Network, Place,
    Role, Timestamp, Tokens, ToolCall,
};
use futures_util::FutureExt;

use super::*;

const TASK: &str = "Build a boat";

fn log(events: impl IntoIterator<Item = Event>) -> Vec<Record> {
    let record = |(place, event)| Record {
        v: LOG_VERSION,
        seq: place as u64 + 1,
        at: Timestamp(place as u64),
        event,
    };
    events.into_iter().enumerate().map(record).collect()
}

fn created() -> Event {
    let name = || ModelName("other/model".to_owned());
    Event::Created {
        spec: Box::new(JobSpec {
            job: JobId::generate(),
            task: TASK.to_owned(),
            orchestrator: name(),
            coder: name(),
            summariser: None,
            budget: Budget { turns: 10, tokens: None, cost: None, time: None },
            checks: Vec::new(),
            attempts: 1,
            place: Place {
                workspace: PathBuf::from("/workspace"),
                sandbox: "auto".to_owned(),
                require: None,
                network: Network::None,
                limits: Limits::default(),
                readable: Vec::new(),
                image: None,
                variables: Vec::new(),
            },
            out: None,
        }),
    }
}

fn delegated(thread: u32, brief: &str) -> Event {
    let thread = ThreadId(thread);
    Event::Delegated {
        thread,
        call: CallId(thread.0.into()),
        brief: brief.to_owned(),
        reading: None,
    }
}

fn asked(thread: u32, request: u32) -> Event {
    Event::ModelAsked {
        thread: ThreadId(thread),
        request: RequestId(request),
        role: Role::Orchestrator,
        model: ModelName("other/model".to_owned()),
        attempt: 1,
        span: None,
    }
}

fn failed(request: u32) -> Event {
    let failure = ModelFailure {
        kind: FailureKind::Stalled,
        message: "stalled".to_owned(),
        retry_after: None,
    };
    let request = RequestId(request);
    Event::ModelFailed { request, failure, tokens: Tokens::default(), cost: None, retry_at: None }
}

fn answered(request: u32, answer: Answer) -> Event {
    Event::ModelAnswered { request: RequestId(request), answer, cost: None }
}

fn says(text: &str) -> Answer {
    let call = ToolCall {
        id: format!("call-{text}"),
        name: "bash".to_owned(),
        arguments: Arguments(format!("{{\"command\":\"{text}\"}}")),
    };
    let blocks = vec![Block::Text { text: text.to_owned() }, Block::ToolCall(call)];
    Answer { blocks, stop: StopReason::Tools, tokens: Tokens { output: 7, ..Tokens::default() } }
}

fn says_nothing(stop: StopReason) -> Answer {
    Answer { blocks: Vec::new(), stop, tokens: Tokens::default() }
}

/// Two conversations, their events mixed, with a failure and an empty answer.
fn recording() -> Vec<Record> {
    log([
        created(),
        asked(0, 1),
        answered(1, says("keel")),
        delegated(1, "Cut the planks. They are for this task: Build a boat"),
        asked(0, 2),
        asked(1, 3),
        failed(2),
        answered(3, says("saw")),
        asked(0, 4),
        answered(4, says_nothing(StopReason::Done)),
        asked(1, 5),
        asked(0, 6),
        answered(6, says("hull")),
        answered(5, says("plane")),
    ])
}

fn ask(replay: &Replay, opening: &str, given: &[Answer]) -> Result<Answer, ModelError> {
    let mut messages = vec![Message::user(opening)];
    for answer in given {
        messages.push(Message::Model { blocks: answer.blocks.clone() });
        messages.push(Message::user("go on"));
    }
    let request = Request {
        system: String::new(),
        messages,
        tools: Vec::new(),
        max_output: 100,
        cache_key: String::new(),
    };
    let mut assembler = Assembler::default();
    for piece in replay.ask(request).collect::<Vec<_>>().now_or_never().unwrap() {
        assembler.push(piece?)?;
    }
    assembler.finish()
}

fn replay(records: Vec<Record>) -> Replay {
    Replay::from_records(ModelName("replay".to_owned()), records)
}

#[test]
fn each_conversation_gets_its_own_answers_in_order() {
    let replay = replay(recording());
    let brief = "Cut the planks. They are for this task: Build a boat";
    assert_eq!(replay.name().0, "replay");
    for _ in 0..2 {
        assert_eq!(ask(&replay, TASK, &[]), Ok(says("keel")));
        assert_eq!(ask(&replay, brief, &[says("saw")]), Ok(says("plane")));
        assert_eq!(ask(&replay, TASK, &[says("keel")]), Ok(says("hull")));
        assert_eq!(ask(&replay, brief, &[]), Ok(says("saw")));
    }
}

#[test]
fn a_question_beyond_the_recording_is_rejected() {
    let error = ask(&replay(recording()), TASK, &[says("keel"), says("hull")]).unwrap_err();
    assert_eq!(error.kind, FailureKind::Rejected);
    assert_eq!(
        error.message,
        "the recording has no answer for this question: conversation 0 has 2 answers"
    );
    let given = [says("keel"), says("hull"), says("sail")];
    assert_eq!(ask(&replay(recording()), TASK, &given), Err(error), "and further beyond");
}

#[test]
fn another_task_is_rejected() {
    for records in [recording(), Vec::new()] {
        let error = ask(&replay(records), "Build a house", &[]).unwrap_err();
        assert_eq!(error.kind, FailureKind::Rejected);
        assert_eq!(
            error.message,
            "the recording has no answer for this question: no conversation in it begins like \
             this one"
        );
    }
}

#[test]
fn a_conversation_that_took_another_course_is_told_where() {
    let given = [says("keel"), says("mast")];
    let error = ask(&replay(recording()), TASK, &given).unwrap_err();
    assert_eq!(error.kind, FailureKind::Rejected);
    insta::assert_snapshot!(error, @r#"conversation 0 differs from the recording at answer 2: recorded is "hull bash {\"command\":\"hull\"}", here it was "mast bash {\"command\":\"mast\"}""#);
}

#[test]
fn a_long_answer_is_shown_by_its_beginning() {
    let given = [says(&"ü".repeat(500))];
    let error = ask(&replay(recording()), TASK, &given).unwrap_err();
    assert!(error.message.ends_with("ü…\""), "{error}");
    assert!(error.message.chars().count() < 300, "{error}");
}

#[test]
fn an_answer_that_declines_is_given_although_it_says_nothing() {
    let refusal = says_nothing(StopReason::Refused);
    let records = log([created(), asked(0, 1), answered(1, refusal.clone())]);
    assert_eq!(ask(&replay(records), TASK, &[]), Ok(refusal));
}

#[test]
fn among_equal_briefs_the_course_decides() {
    let brief = "Paint it";
    let replay = replay(log([
        created(),
        delegated(1, brief),
        delegated(2, brief),
        asked(1, 1),
        asked(2, 2),
        answered(1, says("red")),
        answered(2, says("blue")),
        asked(1, 3),
        asked(2, 4),
        answered(3, says("dry red")),
        answered(4, says("dry blue")),
    ]));
    assert_eq!(ask(&replay, brief, &[says("blue")]), Ok(says("dry blue")));
    assert_eq!(ask(&replay, brief, &[says("red")]), Ok(says("dry red")));
    assert!(ask(&replay, brief, &[says("green")]).unwrap_err().message.contains("answer 1"));
}
