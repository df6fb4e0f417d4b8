//! Streams of Chat Completions, with the habits of their servers, as data.

use super::*;
use crate::wire::tests::decode;

/// Deltas in short: `"text"`, `~"thinking"`, `0=id:name`, `0+arguments`.
fn short(delta: &Delta) -> String {
    match delta {
        Delta::Text(text) => format!("{text:?}"),
        Delta::Thinking(text) => format!("~{text:?}"),
        Delta::CallBegun { index, id, name } => format!("{index}={id}:{name}"),
        Delta::Arguments { index, text } => format!("{index}+{text}"),
        Delta::Used(tokens) => format!("used {} {}", tokens.input, tokens.cache_read),
        other => format!("{other:?}"),
    }
}

fn chunk(delta: &str, reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":{reason}}}]}}"#)
}

fn check(pieces: &[&str], reason: &str, expected: &[&str], stop: StopReason) {
    let mut stream: Vec<_> = pieces.iter().map(|delta| chunk(delta, "null")).collect();
    stream.push(chunk("{}", reason));
    stream.push("[DONE]".to_owned());
    let stream: Vec<_> = stream.iter().map(String::as_str).collect();
    let (deltas, found) = decode(Decoder::new(7), &stream).unwrap();
    assert_eq!(deltas.iter().map(short).collect::<Vec<_>>(), expected);
    assert_eq!(found, stop);
}

fn check_calls(pieces: &[&str], expected: &[&str]) {
    let pieces: Vec<_> =
        pieces.iter().map(|piece| format!(r#"{{"tool_calls":[{piece}]}}"#)).collect();
    let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
    check(&pieces, "\"tool_calls\"", expected, StopReason::Tools);
}

#[test]
fn calls_are_told_apart_by_their_index() {
    check_calls(
        &[
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":""}}"#,
            r#"{"index":1,"id":"b","function":{"name":"y","arguments":""}}"#,
            r#"{"index":1,"function":{"arguments":"{}"}}"#,
            r#"{"index":0,"function":{"arguments":"{\"k\":1}"}}"#,
        ],
        &["0=a:x", "1=b:y", "1+{}", "0+{\"k\":1}"],
    );
}

#[test]
fn a_name_or_an_id_may_be_repeated() {
    check_calls(
        &[
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}"#,
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":"}"}}"#,
        ],
        &["0=a:x", "0+{", "0+}"],
    );
    check_calls(
        &[
            r#"{"id":"a","function":{"name":"x","arguments":"{"}}"#,
            r#"{"id":"a","function":{"name":"x","arguments":"}"}}"#,
        ],
        &["0=a:x", "0+{", "0+}"],
    );
    check_calls(
        &[
            r#"{"function":{"name":"x","arguments":"{"}}"#,
            r#"{"function":{"name":"x","arguments":"}"}}"#,
        ],
        &["0=call_7_0:x", "0+{", "0+}"],
    );
}

#[test]
fn whole_calls_without_index_and_id_are_several() {
    check_calls(
        &[
            r#"{"function":{"name":"x","arguments":"{}"}}"#,
            r#"{"function":{"name":"x","arguments":{"k":1}}}"#,
            r#"{"function":{"name":"y"}}"#,
            r#"{"function":{"arguments":"{\"l\""}}"#,
            r#"{"function":{"arguments":":2}"}}"#,
        ],
        &[
            "0=call_7_0:x",
            "0+{}",
            "1=call_7_1:x",
            "1+{\"k\":1}",
            "2=call_7_2:y",
            "2+{\"l\"",
            "2+:2}",
        ],
    );
}

#[test]
fn calls_that_all_have_index_0_are_told_apart_by_their_id() {
    check_calls(
        &[
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
            r#"{"index":0,"id":"b","function":{"name":"x","arguments":"{}"}}"#,
        ],
        &["0=a:x", "0+{}", "1=b:x", "1+{}"],
    );
}

#[test]
fn a_name_may_come_after_its_arguments() {
    check_calls(
        &[
            r#"{"index":0,"id":"a","function":{"arguments":"{"}}"#,
            r#"{"index":0,"function":{"name":"x","arguments":"}"}}"#,
        ],
        &["0=a:x", "0+{}"],
    );
}

#[test]
fn thinking_comes_under_either_name() {
    let pieces = [r#"{"reasoning_content":"a"}"#, r#"{"reasoning":"b"}"#, r#"{"content":"c"}"#];
    check(&pieces, "\"stop\"", &["~\"a\"", "~\"b\"", "\"c\""], StopReason::Done);
}

#[test]
fn each_finish_reason_has_its_meaning() {
    for (reason, expected) in [
        ("stop", StopReason::Done),
        ("eos", StopReason::Done),
        ("tool_calls", StopReason::Done),
        ("length", StopReason::OutputLimit),
        ("content_filter", StopReason::Refused),
    ] {
        check(&[], &format!("{reason:?}"), &[], expected);
    }
    let call = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}]}"#;
    check(&[call], "\"stop\"", &["0=a:x", "0+{}"], StopReason::Tools);
    check(&[call], "\"length\"", &["0=a:x", "0+{}"], StopReason::OutputLimit);
}

#[test]
fn streams_without_a_reason_are_cut_off_with_and_without_their_last_event() {
    let said = chunk(r#"{"content":"a"}"#, "null");
    for stream in [vec![said.as_str()], vec![said.as_str(), "[DONE]"], vec![]] {
        let failure = decode(Decoder::new(0), &stream).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Interrupted);
    }
}

#[test]
fn errors_and_nonsense_have_their_kinds() {
    let nameless =
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#, "\"stop\"");
    for (data, kind) in [
        (r#"{"error":{"message":"m","code":429}}"#, FailureKind::RateLimited),
        (r#"{"error":"m"}"#, FailureKind::Unavailable),
        (&chunk("{}", "\"error\""), FailureKind::Unavailable),
        (&nameless, FailureKind::Garbled),
        ("nonsense", FailureKind::Garbled),
    ] {
        assert_eq!(decode(Decoder::new(0), &[data]).unwrap_err().kind, kind, "{data}");
    }
}

#[test]
fn usage_may_come_with_or_without_details() {
    for (usage, expected) in [
        (r#"{"usage":{"prompt_tokens":9,"completion_tokens":1}}"#, "used 9 0"),
        (
            r#"{"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}"#,
            "used 5 4",
        ),
    ] {
        let stopped = chunk("{}", "\"stop\"");
        let stream = [&*stopped, usage];
        let (deltas, _) = decode(Decoder::new(0), &stream).unwrap();
        assert_eq!(deltas.iter().map(short).collect::<Vec<_>>(), [expected]);
    }
}
