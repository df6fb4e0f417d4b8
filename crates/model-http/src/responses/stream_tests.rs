//! Streams of OpenAI Responses, as data.

use cofferdam_types::FailureKind;

use super::*;
use crate::wire::tests::decode;

const COMPLETED: &str = r#"{"type":"response.completed","response":{"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":2}}}"#;

fn check(stream: &[&str], expected: &[Delta], stop: StopReason) {
    let (deltas, found) = decode(Decoder::default(), stream).unwrap();
    let without_usage: Vec<_> =
        deltas.into_iter().filter(|delta| !matches!(delta, Delta::Used(_))).collect();
    assert_eq!(without_usage, expected);
    assert_eq!(found, stop);
}

fn begun(index: u32, id: &str) -> Delta {
    Delta::CallBegun { index, id: id.to_owned(), name: "bash".to_owned() }
}

fn arguments(index: u32, text: &str) -> Delta {
    Delta::Arguments { index, text: text.to_owned() }
}

#[test]
fn a_call_may_come_in_pieces_or_whole_and_is_taken_once() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"bash","arguments":""}}"#;
    let piece =
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\""}"#;
    let done = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c","name":"bash","arguments":"{\"a\":1}"}}"#;
    let whole = [begun(0, "c"), arguments(0, r#"{"a":1}"#)];
    let pieces = [begun(0, "c"), arguments(0, r#"{"a""#), arguments(0, ":1}")];
    check(&[added, piece, done, COMPLETED], &pieces, StopReason::Tools);
    check(&[added, done, COMPLETED], &whole, StopReason::Tools);
    check(&[done, COMPLETED], &whole, StopReason::Tools);
    let anew = r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\": 1}"}"#;
    let spaced = [begun(0, "c"), arguments(0, r#"{"a": 1}"#)];
    check(&[added, anew, done, COMPLETED], &spaced, StopReason::Tools);
    let other =
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"b\""}"#;
    let failure = decode(Decoder::default(), &[added, other, done, COMPLETED]).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Garbled);
}

#[test]
fn a_message_may_come_whole() {
    let done = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"hi"}]}}"#;
    let piece = r#"{"type":"response.output_text.delta","output_index":0,"delta":"hi"}"#;
    let said = [Delta::Text("hi".to_owned())];
    check(&[done, COMPLETED], &said, StopReason::Done);
    check(&[piece, done, COMPLETED], &said, StopReason::Done);
}

#[test]
fn reasoning_is_kept_as_it_came_if_it_can_be_sent_back() {
    let item =
        r#"{ "type":"reasoning","id":"rs","summary":[],"encrypted_content":"e", "new":1.0 }"#;
    let done = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#);
    let seal = Seal { wire: "responses".to_owned(), data: item.to_owned() };
    check(&[&done, COMPLETED], &[Delta::Sealed(seal)], StopReason::Done);
    let stored = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[],"encrypted_content":null}}"#;
    check(&[stored, COMPLETED], &[], StopReason::Done);
}

#[test]
fn cached_tokens_are_not_counted_twice() {
    let (deltas, _) = decode(Decoder::default(), &[COMPLETED]).unwrap();
    let tokens = Tokens { input: 6, cache_read: 4, cache_write: 0, output: 2 };
    assert_eq!(deltas, [Delta::Used(tokens)]);
}

#[test]
fn answers_that_are_not_whole_say_why() {
    let incomplete = |reason: &str| {
        format!(
            r#"{{"type":"response.incomplete","response":{{"incomplete_details":{{"reason":"{reason}"}}}}}}"#
        )
    };
    check(&[&incomplete("max_output_tokens")], &[], StopReason::OutputLimit);
    check(&[&incomplete("content_filter")], &[], StopReason::Refused);
    let refusal = r#"{"type":"response.refusal.delta","output_index":0,"delta":"no"}"#;
    check(&[refusal, COMPLETED], &[Delta::Text("no".to_owned())], StopReason::Refused);
}

#[test]
fn failures_have_their_kinds() {
    for (data, kind) in [
        (
            r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"m"}}}"#,
            FailureKind::RateLimited,
        ),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"m"}}}"#,
            FailureKind::TooLong,
        ),
        (r#"{"type":"response.failed","response":{}}"#, FailureKind::Unavailable),
        (
            r#"{"type":"error","code":"server_error","message":"m","param":null}"#,
            FailureKind::Unavailable,
        ),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","code":null,"message":"m"}}"#,
            FailureKind::Rejected,
        ),
        (
            r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{"}"#,
            FailureKind::Garbled,
        ),
        (
            r#"{"type":"response.output_text.done","output_index":0,"text":"x"}"#,
            FailureKind::Interrupted,
        ),
    ] {
        assert_eq!(decode(Decoder::default(), &[data]).unwrap_err().kind, kind, "{data}");
    }
}
