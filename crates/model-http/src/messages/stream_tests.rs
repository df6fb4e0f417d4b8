//! Streams of Anthropic Messages, as data.

use cofferdam_types::FailureKind;

use super::*;
use crate::wire::tests::decode;

fn stop(reason: &str) -> String {
    format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#)
}

#[test]
fn each_stop_reason_has_its_meaning() {
    for (reason, expected) in [
        ("end_turn", StopReason::Done),
        ("stop_sequence", StopReason::Done),
        ("tool_use", StopReason::Done),
        ("max_tokens", StopReason::OutputLimit),
        ("pause_turn", StopReason::OutputLimit),
        ("model_context_window_exceeded", StopReason::OutputLimit),
        ("refusal", StopReason::Refused),
    ] {
        let said = stop(reason);
        let stream = [said.as_str(), r#"{"type":"message_stop"}"#];
        let (_, found) = decode(Decoder::default(), &stream).unwrap();
        assert_eq!(found, expected, "{reason}");
    }
}

#[test]
fn hidden_thinking_is_sealed_apart_from_what_can_be_read() {
    let (deltas, _) = decode(
        Decoder::default(),
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s1"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s2"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"d"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            &stop("end_turn"),
        ],
    )
    .unwrap();
    let sealed =
        |data: &str| Delta::Sealed(Seal { wire: "messages".to_owned(), data: data.to_owned() });
    let expected = [
        Delta::Thinking("hm".to_owned()),
        sealed(r#"{"type":"thinking","signature":"s1s2"}"#),
        sealed(r#"{"type":"redacted_thinking","data":"d"}"#),
        Delta::Used(Tokens::default()),
    ];
    assert_eq!(deltas, expected);
}

#[test]
fn a_call_given_whole_at_its_beginning_is_taken_whole() {
    let (deltas, found) = decode(
        Decoder::default(),
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"bash","input":{"command":"ls"}}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            &stop("end_turn"),
        ],
    )
    .unwrap();
    assert!(
        deltas.contains(&Delta::Arguments { index: 0, text: r#"{"command":"ls"}"#.to_owned() })
    );
    assert_eq!(found, StopReason::Tools);
}

#[test]
fn events_of_another_kind_are_passed_over_and_nonsense_is_not() {
    let (deltas, _) = decode(
        Decoder::default(),
        &[r#"{"type":"ping"}"#, r#"{"type":"new_kind","x":1}"#, &stop("end_turn")],
    )
    .unwrap();
    assert_eq!(deltas, [Delta::Used(Tokens::default())]);
    for (data, kind) in [
        ("{", FailureKind::Garbled),
        (r#"{"x":1}"#, FailureKind::Garbled),
        (
            r#"{"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
            FailureKind::Garbled,
        ),
        (r#"{"error":{"type":"rate_limit_error","message":"m"}}"#, FailureKind::RateLimited),
        (
            r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#,
            FailureKind::Unavailable,
        ),
    ] {
        assert_eq!(decode(Decoder::default(), &[data]).unwrap_err().kind, kind, "{data}");
    }
}
