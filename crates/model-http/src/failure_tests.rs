//! What the providers are known to say, each with its kind.

use serde_json::json;

use super::*;

#[test]
fn statuses_and_words_of_providers_have_their_kinds() {
    use FailureKind::{NoSuchModel, RateLimited, Rejected, TooLong, Unauthorised, Unavailable};
    let error = |kind: &str, code: Value, message: &str| {
        json!({"error": {"type": kind, "code": code, "message": message}}).to_string()
    };
    for (status, body, kind) in [
        (429, error("rate_limit_error", Value::Null, "slow"), RateLimited),
        (429, error("insufficient_quota", json!("insufficient_quota"), "pay"), Unauthorised),
        (529, error("overloaded_error", Value::Null, "Overloaded"), Unavailable),
        (500, "<html>oops</html>".to_owned(), Unavailable),
        (503, String::new(), Unavailable),
        (408, String::new(), Unavailable),
        (409, String::new(), Unavailable),
        (425, String::new(), Unavailable),
        (413, error("request_too_large", Value::Null, "big"), TooLong),
        (400, error("invalid_request_error", json!("context_length_exceeded"), ""), TooLong),
        (400, error("invalid_request_error", Value::Null, "prompt is too long: 9 > 8"), TooLong),
        (400, error("invalid_request_error", Value::Null, "tool name is too long"), Rejected),
        (400, error("exceed_context_size_error", json!(400), "big"), TooLong),
        (401, error("authentication_error", Value::Null, "key"), Unauthorised),
        (403, String::new(), Unauthorised),
        (402, error("", json!(402), "Insufficient credits"), Unauthorised),
        (404, error("not_found_error", Value::Null, "model: x"), NoSuchModel),
        (404, json!({"error": "model 'x' not found"}).to_string(), NoSuchModel),
        (302, String::new(), Rejected),
        (422, "no".to_owned(), Rejected),
    ] {
        let failure = Said::in_body(body.as_bytes()).with_status(status);
        assert_eq!(failure.kind, kind, "{status} {body}");
    }
}

#[test]
fn errors_inside_a_stream_have_their_kinds() {
    use FailureKind::{RateLimited, Rejected, TooLong, Unavailable};
    for (error, kind) in [
        (json!({"type": "overloaded_error", "message": "Overloaded"}), Unavailable),
        (json!({"type": "rate_limit_error", "message": ""}), RateLimited),
        (json!({"code": 429, "message": "upstream"}), RateLimited),
        (json!({"code": 502, "message": "upstream"}), Unavailable),
        (json!({"type": "invalid_request_error", "message": "no"}), Rejected),
        (json!({"code": "context_length_exceeded", "message": "no"}), TooLong),
        (json!("something went wrong"), Unavailable),
        (json!({"code": "never_seen", "message": "?"}), Unavailable),
    ] {
        assert_eq!(Said::of(&error).mid_stream().kind, kind, "{error}");
    }
}

#[test]
fn words_are_cut_and_kept_on_one_line() {
    let message = Said::in_body("a\n\u{1b}[31m b".as_bytes()).with_status(500).message;
    assert_eq!(message, "answered 500: a [31m b");
    let long = "é".repeat(10_000);
    let message = Said::in_body(long.as_bytes()).with_status(500).message;
    assert_eq!(message.chars().count(), "answered 500: ".len() + LONGEST_WORDS + 1);
}
