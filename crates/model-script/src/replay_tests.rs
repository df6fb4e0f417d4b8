//! A recorded log answers as it was recorded, and nothing else.

use std::path::PathBuf;

use cofferdam_model::Assembler;
use cofferdam_types::{
    Arguments, Budget, CallId, JobId, JobSpec, LOG_VERSION, Limits, Network, Place, Reading, Span,
    StopReason, Timestamp, Tokens, ToolCall, Toolbox,
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

fn asked_coder(thread: u32, request: u32) -> Event {
    match asked(thread, request) {
        Event::ModelAsked { thread, request, model, attempt, span, .. } => {
            Event::ModelAsked { thread, request, role: Role::Coder, model, attempt, span }
        }
        other => other,
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
        asked_coder(1, 3),
        failed(2),
        answered(3, says("saw")),
        asked(0, 4),
        answered(4, says_nothing(StopReason::Done)),
        asked_coder(1, 5),
        asked(0, 6),
        answered(6, says("hull")),
        answered(5, says("plane")),
    ])
}

fn request(which: Which, opening: &str, given: &[Answer]) -> Request {
    let mut messages = vec![Message::user(opening)];
    for answer in given {
        messages.push(Message::Model { blocks: answer.blocks.clone() });
        messages.push(Message::user("go on"));
    }
    Request {
        system: String::new(),
        messages,
        tools: Toolbox::default(),
        max_output: 100,
        cache_key: String::new(),
        which,
    }
}

fn put(replay: &Replay, request: Request) -> Result<Answer, ModelError> {
    let mut assembler = Assembler::default();
    for piece in replay.ask(request).collect::<Vec<_>>().now_or_never().unwrap() {
        assembler.push(piece?)?;
    }
    assembler.finish()
}

/// Asks the orchestrator, after so many questions and with these answers before it.
fn ask(replay: &Replay, earlier: u32, given: &[Answer]) -> Result<Answer, ModelError> {
    put(replay, request(Which { earlier, ..Which::FIRST }, TASK, given))
}

/// Asks a coder.
fn ask_coder(
    replay: &Replay,
    (thread, earlier): (u32, u32),
    brief: &str,
    given: &[Answer],
) -> Result<Answer, ModelError> {
    let which = Which { thread: ThreadId(thread), role: Role::Coder, earlier };
    put(replay, request(which, brief, given))
}

/// Asks for a summary of a conversation, or about a piece of something long.
fn ask_summariser(
    replay: &Replay,
    (thread, earlier): (u32, u32),
    words: &str,
) -> Result<Answer, ModelError> {
    let which = Which { thread: ThreadId(thread), role: Role::Summariser, earlier };
    put(replay, request(which, words, &[]))
}

fn replay(records: Vec<Record>) -> Replay {
    Replay::from_records(ModelName("replay".to_owned()), records)
}

#[test]
fn each_conversation_gets_its_own_answers_and_failures_in_order() {
    let replay = replay(recording());
    let brief = "Cut the planks. They are for this task: Build a boat";
    assert_eq!(replay.name().0, "replay");
    for _ in 0..2 {
        assert_eq!(ask(&replay, 0, &[]), Ok(says("keel")));
        assert_eq!(ask_coder(&replay, (1, 1), brief, &[says("saw")]), Ok(says("plane")));
        let stalled = ask(&replay, 1, &[says("keel")]).unwrap_err();
        assert_eq!((stalled.kind, &*stalled.message), (FailureKind::Stalled, "stalled"));
        assert_eq!(ask(&replay, 2, &[says("keel")]), Ok(says_nothing(StopReason::Done)));
        assert_eq!(ask(&replay, 3, &[says("keel")]), Ok(says("hull")));
        assert_eq!(ask_coder(&replay, (1, 0), brief, &[]), Ok(says("saw")));
    }
}

#[test]
fn what_was_cut_before_the_model_changes_no_answer() {
    let replay = replay(recording());
    assert_eq!(ask(&replay, 3, &[]), Ok(says("hull")));
    let memory = format!("{TASK}\n<memory>what it came to</memory>");
    let which = Which { earlier: 3, ..Which::FIRST };
    assert_eq!(put(&replay, request(which, &memory, &[says("keel")])), Ok(says("hull")));
}

#[test]
fn a_long_task_may_be_cut_too() {
    let task = format!("{TASK}. {}", "It has to float. ".repeat(900));
    let Event::Created { mut spec } = created() else { unreachable!() };
    spec.task.clone_from(&task);
    let records = log([Event::Created { spec }, asked(0, 1), answered(1, says("keel"))]);
    let cut: String = task.chars().take(300).collect();
    let short = request(Which::FIRST, &format!("{cut}\n[the rest is left out]"), &[]);
    assert_eq!(put(&replay(records), short), Ok(says("keel")));
}

#[test]
fn summaries_and_pieces_are_apart_from_answers() {
    let span = Span::Messages { through: 9 };
    let summary = |thread, request| match asked(thread, request) {
        Event::ModelAsked { thread, request, model, attempt, .. } => Event::ModelAsked {
            thread,
            request,
            role: Role::Summariser,
            model,
            attempt,
            span: Some(span),
        },
        other => other,
    };
    let reading = match delegated(1, "how many are there?") {
        Event::Delegated { thread, call, brief, .. } => {
            let reading = Some(Reading { handle: "h".to_owned(), pieces: 2 });
            Event::Delegated { thread, call, brief, reading }
        }
        other => other,
    };
    let replay = replay(log([
        created(),
        asked(0, 1),
        answered(1, says("keel")),
        summary(0, 2),
        answered(2, says_nothing(StopReason::Done)),
        summary(0, 3),
        answered(3, says("a keel was laid")),
        reading,
        summary(1, 4),
        answered(4, says("three in the first")),
        summary(1, 5),
        answered(5, says("two in the second")),
        asked(0, 6),
        answered(6, says("hull")),
    ]));
    let transcript = format!("The task of the whole conversation:\n{TASK}\n\nand so on");
    let empty = says_nothing(StopReason::Done);
    assert_eq!(ask_summariser(&replay, (0, 0), &transcript), Ok(empty));
    assert_eq!(ask_summariser(&replay, (0, 1), &transcript), Ok(says("a keel was laid")));
    assert_eq!(ask(&replay, 1, &[]), Ok(says("hull")));
    let piece = "What is to be found out:\nhow many are there?\n\nPiece 2 of 2 follows.";
    assert_eq!(ask_summariser(&replay, (1, 0), piece), Ok(says("three in the first")));
    assert_eq!(ask_summariser(&replay, (1, 1), piece), Ok(says("two in the second")));
    let error = ask_summariser(&replay, (0, 2), &transcript).unwrap_err();
    assert!(error.message.ends_with("conversation 0 has 2 summaries"), "{error}");
}

#[test]
fn a_question_that_nobody_waited_for_is_put_again_and_a_retry_comes_at_once() {
    let fails = |kind, retry_at| match failed(1) {
        Event::ModelFailed { request, mut failure, tokens, cost, .. } => {
            failure.kind = kind;
            failure.retry_after = Some(Duration::from_secs(60));
            Event::ModelFailed { request, failure, tokens, cost, retry_at }
        }
        other => other,
    };
    let replay = replay(log([
        created(),
        asked(0, 1),
        fails(FailureKind::Abandoned, Some(Timestamp(9))),
        asked(0, 1),
        fails(FailureKind::RateLimited, Some(Timestamp(9))),
        asked(0, 1),
        fails(FailureKind::Unavailable, None),
    ]));
    let error = ask(&replay, 0, &[]).unwrap_err();
    assert_eq!((error.kind, error.retry_after), (FailureKind::RateLimited, Some(Duration::ZERO)));
    let error = ask(&replay, 1, &[]).unwrap_err();
    let minute = Some(Duration::from_secs(60));
    assert_eq!((error.kind, error.retry_after), (FailureKind::Unavailable, minute));
}

#[test]
fn a_question_beyond_the_recording_is_rejected() {
    let error = ask(&replay(recording()), 4, &[says("keel"), says("hull")]).unwrap_err();
    assert_eq!(error.kind, FailureKind::Rejected);
    assert_eq!(
        error.message,
        "the recording has no answer for this question: conversation 0 has 4 answers"
    );
    let given = [says("keel"), says("hull")];
    assert_eq!(ask(&replay(recording()), 9, &given), Err(error), "and further beyond");
}

#[test]
fn another_task_is_rejected() {
    for records in [recording(), Vec::new()] {
        let error = put(&replay(records), request(Which::FIRST, "Build a house", &[])).unwrap_err();
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
    let error = ask(&replay(recording()), 4, &given).unwrap_err();
    assert_eq!(error.kind, FailureKind::Rejected);
    insta::assert_snapshot!(error, @r#"conversation 0 differs from the recording at answer 2: recorded is "hull bash {\"command\":\"hull\"}", here it was "mast bash {\"command\":\"mast\"}""#);
}

#[test]
fn a_long_answer_is_shown_by_its_beginning() {
    let given = [says(&"ü".repeat(500))];
    let error = ask(&replay(recording()), 1, &given).unwrap_err();
    assert!(error.message.ends_with("ü…\""), "{error}");
    assert!(error.message.chars().count() < 300, "{error}");
}

#[test]
fn an_answer_that_declines_is_given_although_it_says_nothing() {
    let refusal = says_nothing(StopReason::Refused);
    let records = log([created(), asked(0, 1), answered(1, refusal.clone())]);
    assert_eq!(ask(&replay(records), 0, &[]), Ok(refusal));
}

#[test]
fn conversations_are_told_apart_by_number_and_else_by_how_they_begin() {
    let replay = replay(log([
        created(),
        delegated(1, "Paint it"),
        delegated(2, "Paint it"),
        delegated(3, "Sand it"),
        asked_coder(1, 1),
        asked_coder(2, 2),
        asked_coder(3, 3),
        answered(1, says("red")),
        answered(2, says("blue")),
        answered(3, says("dust")),
    ]));
    assert_eq!(ask_coder(&replay, (2, 0), "Paint it", &[]), Ok(says("blue")));
    assert_eq!(ask_coder(&replay, (1, 0), "Paint it", &[]), Ok(says("red")));
    assert_eq!(ask_coder(&replay, (1, 0), "Sand it", &[]), Ok(says("dust")));
    let error = ask_coder(&replay, (1, 1), "Paint it", &[says("green")]).unwrap_err();
    assert!(error.message.contains("answer 1"), "{error}");
}
