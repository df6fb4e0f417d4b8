//! Every fault on every wire that has it: what becomes of the answer.

use std::time::Duration;

use cofferdam_model::ModelError;
use cofferdam_model_http::Endpoint;
use cofferdam_testkit::{Dialect, Fault, ScriptedAnswer, ScriptedServer, Turn};
use cofferdam_types::{Answer, FailureKind, StopReason};
use serde_json::json;

use crate::harness::{IDLE, KEY, ask, endpoint, model, request};

const TEXT: &str = "Ich schreibe „größer“ 😀.";

/// An answer of text and a call.
fn turn() -> Turn {
    Turn::Answer(ScriptedAnswer {
        text: TEXT.to_owned(),
        calls: vec![("bash".to_owned(), json!({"command": "echo 'größer' >> log.txt"}))],
        ..ScriptedAnswer::default()
    })
}

/// The answer to a turn on each wire that has its fault; a good one comes after.
async fn on_all_wires(turn: Turn, check: impl Fn(Dialect, Result<Answer, ModelError>)) {
    let (dialects, stalls) = match &turn {
        Turn::Answer(_) => (Dialect::ALL.as_slice(), false),
        Turn::Faulty(fault, _) => (fault.dialects(), is_stall(fault)),
    };
    for dialect in dialects {
        let server = ScriptedServer::start([turn.clone()]).await.unwrap();
        let patient = endpoint(&server, *dialect);
        // Only where nothing else would end it, because a busy machine is slow.
        let idle_timeout = if stalls { IDLE } else { patient.idle_timeout };
        let faulty = Endpoint { idle_timeout, ..patient.clone() };
        check(*dialect, ask(&model(&faulty), request("go")).await);
        let again = ask(&model(&patient), request("go")).await;
        assert_eq!(again.unwrap().text(), "done", "{dialect:?}");
    }
}

fn is_stall(fault: &Fault) -> bool {
    matches!(fault, Fault::StallHeaders | Fault::StallStream | Fault::StallPinging(_))
}

async fn fails(fault: Fault, kind: FailureKind) {
    on_all_wires(turn().but(fault), |dialect, answer| {
        let failure = answer.unwrap_err();
        assert_eq!(failure.kind, kind, "{dialect:?}: {failure}");
        assert!(failure.message.starts_with("127.0.0.1:"), "{dialect:?}: {failure}");
        assert!(failure.kind.passes());
    })
    .await;
}

async fn answers(turn: Turn, check: impl Fn(Dialect, Answer)) {
    on_all_wires(turn, |dialect, answer| check(dialect, answer.unwrap())).await;
}

#[tokio::test]
async fn statuses_that_pass() {
    for (status, kind) in [
        (408, FailureKind::Unavailable),
        (429, FailureKind::RateLimited),
        (500, FailureKind::Unavailable),
        (503, FailureKind::Unavailable),
        (529, FailureKind::Unavailable),
    ] {
        let turn = Turn::status(status, &[("retry-after", "2")], "the words");
        on_all_wires(turn, |dialect, answer| {
            let failure = answer.unwrap_err();
            assert_eq!(failure.kind, kind, "{dialect:?} {status}");
            assert_eq!(failure.retry_after, Some(Duration::from_secs(2)));
            let words = format!("answered {status}: the words");
            assert!(failure.message.ends_with(&words), "{failure}");
        })
        .await;
    }
}

#[tokio::test]
async fn statuses_that_stay() {
    for (status, kind) in [
        (400, FailureKind::Rejected),
        (401, FailureKind::Unauthorised),
        (404, FailureKind::NoSuchModel),
        (413, FailureKind::TooLong),
    ] {
        let turn = Turn::status(status, &[], format!("not with {KEY}"));
        on_all_wires(turn, |dialect, answer| {
            let failure = answer.unwrap_err();
            assert_eq!(failure.kind, kind, "{dialect:?} {status}");
            assert!(!failure.message.contains(KEY), "{failure}");
            assert!(failure.message.contains("not with [key]"), "{failure}");
        })
        .await;
    }
}

#[tokio::test]
async fn an_error_event_inside_a_good_stream() {
    fails(Fault::ErrorEvent, FailureKind::Unavailable).await;
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_call() {
    fails(Fault::ResetMidCall, FailureKind::Interrupted).await;
}

#[tokio::test]
async fn a_reset_after_text() {
    fails(Fault::ResetAfterText, FailureKind::Interrupted).await;
}

#[tokio::test]
async fn a_clean_end_in_the_middle_of_a_call() {
    fails(Fault::EndMidCall, FailureKind::Interrupted).await;
}

#[tokio::test]
async fn a_clean_end_after_text() {
    fails(Fault::EndAfterText, FailureKind::Interrupted).await;
}

#[tokio::test]
async fn a_clean_end_in_the_middle_of_an_event() {
    fails(Fault::EndMidEvent, FailureKind::Interrupted).await;
}

#[tokio::test]
async fn a_last_event_without_a_reason() {
    fails(Fault::NoStopReason, FailureKind::Interrupted).await;
}

#[tokio::test]
async fn headers_that_never_come() {
    fails(Fault::StallHeaders, FailureKind::Stalled).await;
}

#[tokio::test]
async fn a_stream_that_stalls() {
    fails(Fault::StallStream, FailureKind::Stalled).await;
}

#[tokio::test]
async fn a_stream_that_shows_only_signs_of_life() {
    fails(Fault::StallPinging(IDLE / 20), FailureKind::Stalled).await;
}

#[tokio::test]
async fn a_call_that_is_not_utf8() {
    fails(Fault::InvalidUtf8InCall, FailureKind::Garbled).await;
}

#[tokio::test]
async fn text_that_is_not_utf8_is_shown_with_a_mark() {
    answers(turn().but(Fault::InvalidUtf8), |dialect, answer| {
        assert_eq!(answer.text(), format!("{TEXT}\u{fffd}\u{fffd}"), "{dialect:?}");
        assert_eq!(answer.calls().count(), 1);
    })
    .await;
}

#[tokio::test]
async fn characters_that_come_in_two_pieces() {
    answers(turn().but(Fault::SplitUtf8), |dialect, answer| {
        assert_eq!(answer.text(), TEXT, "{dialect:?}");
        let call = answer.calls().next().unwrap();
        assert_eq!(call.arguments.object().unwrap()["command"], "echo 'größer' >> log.txt");
    })
    .await;
}

#[tokio::test]
async fn arguments_that_are_cut_stay_cut() {
    answers(turn().but(Fault::CutArguments), |dialect, answer| {
        let call = answer.calls().next().unwrap();
        assert!(call.arguments.0.starts_with("{\"command\""), "{dialect:?} {call:?}");
        assert!(call.arguments.object().is_err(), "{dialect:?} {call:?}");
        assert_eq!(answer.stop, StopReason::Tools);
    })
    .await;
}

#[tokio::test]
async fn an_unknown_tool_is_passed_on() {
    answers(turn().but(Fault::UnknownTool), |dialect, answer| {
        assert_eq!(answer.calls().next().unwrap().name, "no_such_tool", "{dialect:?}");
    })
    .await;
}

#[tokio::test]
async fn five_megabytes_of_text() {
    answers(turn().but(Fault::HugeText(5_000_000)), |dialect, answer| {
        assert_eq!(answer.text().len(), 5_000_000, "{dialect:?}");
        assert_eq!(answer.calls().count(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_empty_answer() {
    answers(turn().but(Fault::Empty), |dialect, answer| {
        assert!(answer.blocks.is_empty(), "{dialect:?} {answer:?}");
        assert_eq!(answer.stop, StopReason::Done);
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_reaches_the_output_limit() {
    answers(turn().but(Fault::OutputLimit), |dialect, answer| {
        assert_eq!(answer.stop, StopReason::OutputLimit, "{dialect:?}");
        assert!(answer.calls().next().unwrap().arguments.object().is_err());
    })
    .await;
    answers(Turn::text("and so").but(Fault::OutputLimit), |dialect, answer| {
        assert_eq!(answer.stop, StopReason::OutputLimit, "{dialect:?}");
        assert_eq!(answer.text(), "and so");
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_is_no_stream() {
    let body = r#"{"error":{"message":"come back later","code":429}}"#;
    on_all_wires(Turn::status(200, &[], body), |dialect, answer| {
        let failure = answer.unwrap_err();
        assert_eq!(failure.kind, FailureKind::RateLimited, "{dialect:?}");
        assert!(failure.message.contains("come back later"), "{failure}");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    for dialect in Dialect::ALL {
        let server = ScriptedServer::start([]).await.unwrap();
        let model = model(&endpoint(&server, dialect));
        drop(server);
        let failure = ask(&model, request("go")).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unreachable, "{failure}");
    }
}
