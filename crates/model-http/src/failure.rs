//! What providers say when they fail, as kinds of failure.
//!
//! Codes win over words, and both over the status: some providers answer 429 to
//! an empty purse, and others 400 to everything.

use cofferdam_model::ModelError;
use cofferdam_types::FailureKind;
use serde_json::Value;

/// Characters of a provider's words that are shown.
const LONGEST_WORDS: usize = 500;

/// A provider's own words about a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Its `type` and its `code`.
    codes: Vec<String>,
    message: String,
}

impl Said {
    /// Reads the body of an answer that is not 200.
    pub(crate) fn in_body(body: &[u8]) -> Self {
        let text = || String::from_utf8_lossy(body).into_owned();
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::in_event(&value)
                .unwrap_or_else(|| Self { codes: Vec::new(), message: text() }),
            Err(_) => Self { codes: Vec::new(), message: text() },
        }
    }

    /// Finds an error in the data of an event, if it is one.
    pub(crate) fn in_event(value: &Value) -> Option<Self> {
        match value.get("error") {
            Some(Value::Null) | None => {
                value.get("message").filter(|it| it.is_string()).map(|_| Self::of(value))
            }
            Some(error) => Some(Self::of(error)),
        }
    }

    /// Reads an error object, or a text in its place.
    pub(crate) fn of(error: &Value) -> Self {
        match error {
            Value::Null => return Self::default(),
            Value::String(message) => {
                return Self { codes: Vec::new(), message: message.clone() };
            }
            _ => {}
        }
        let code = |field| match error.get(field) {
            Some(Value::String(code)) => Some(code.clone()),
            Some(Value::Number(code)) => Some(code.to_string()),
            _ => None,
        };
        let message = error.get("message").and_then(Value::as_str);
        let message = message.map_or_else(|| error.to_string(), str::to_owned);
        Self { codes: [code("type"), code("code")].into_iter().flatten().collect(), message }
    }

    /// The failure in a stream that began well.
    pub(crate) fn mid_stream(&self) -> ModelError {
        let status = self.codes.iter().find_map(|code| code.parse().ok());
        ModelError::new(self.kind(status), format!("failed while it answered: {}", self.words()))
    }

    /// The failure that a status announces.
    pub(crate) fn with_status(&self, status: u16) -> ModelError {
        ModelError::new(self.kind(Some(status)), format!("answered {status}: {}", self.words()))
    }

    fn kind(&self, status: Option<u16>) -> FailureKind {
        let by_code = self.codes.iter().find_map(|code| kind_of_code(code));
        if let Some(kind) = by_code {
            return kind;
        }
        if matches!(status, None | Some(400 | 413 | 422 | 500)) && speaks_of_length(&self.message) {
            return FailureKind::TooLong;
        }
        match status {
            Some(status) => kind_of_status(status),
            None if self.codes.iter().any(|code| code.starts_with("invalid_")) => {
                FailureKind::Rejected
            }
            // Not known: asking again is tried, and bounded.
            None => FailureKind::Unavailable,
        }
    }

    fn words(&self) -> String {
        let one_line = self.message.split_whitespace().collect::<Vec<_>>().join(" ");
        let printable = one_line.chars().filter(|character| !character.is_control());
        let mut words: String = printable.clone().take(LONGEST_WORDS).collect();
        if printable.count() > LONGEST_WORDS {
            words.push('…');
        }
        if words.is_empty() {
            words.push_str("(no words)");
        }
        match self.codes.as_slice() {
            [] => words,
            codes => format!("{words} ({})", codes.join(", ")),
        }
    }
}

fn kind_of_code(code: &str) -> Option<FailureKind> {
    Some(match code {
        "context_length_exceeded" | "request_too_large" | "exceed_context_size_error" => {
            FailureKind::TooLong
        }
        "authentication_error"
        | "permission_error"
        | "invalid_api_key"
        | "insufficient_quota"
        | "billing_error"
        | "billing_not_active"
        | "billing_hard_limit_reached" => FailureKind::Unauthorised,
        "model_not_found" | "not_found_error" => FailureKind::NoSuchModel,
        "rate_limit_error" | "rate_limit_exceeded" => FailureKind::RateLimited,
        "overloaded_error"
        | "api_error"
        | "timeout_error"
        | "server_error"
        | "overloaded"
        | "server_is_overloaded"
        | "internal_server_error"
        | "slow_down" => FailureKind::Unavailable,
        _ => return None,
    })
}

fn kind_of_status(status: u16) -> FailureKind {
    match status {
        401..=403 => FailureKind::Unauthorised,
        404 => FailureKind::NoSuchModel,
        413 => FailureKind::TooLong,
        429 => FailureKind::RateLimited,
        408 | 409 | 425 | 500.. => FailureKind::Unavailable,
        _ => FailureKind::Rejected,
    }
}

fn speaks_of_length(message: &str) -> bool {
    let message = message.to_lowercase();
    let phrases = [
        "context length",
        "context window",
        "context size",
        "context limit",
        "maximum context",
        "prompt is too long",
        "input is too long",
        "too many tokens",
    ];
    phrases.iter().any(|phrase| message.contains(phrase))
}

/// What came makes no sense.
pub(crate) fn garbled(message: impl Into<String>) -> ModelError {
    ModelError::new(FailureKind::Garbled, message)
}

/// The stream ended before the answer did.
pub(crate) fn interrupted(message: impl Into<String>) -> ModelError {
    ModelError::new(FailureKind::Interrupted, message)
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
