//! What was found to be wrong.

use std::fmt;

/// Something that must not be, in words.
#[derive(Debug)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

impl From<std::io::Error> for Violation {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<serde_json::Error> for Violation {
    fn from(error: serde_json::Error) -> Self {
        Self(format!("what came is not the JSON that was expected: {error}"))
    }
}

/// Fails unless something is so.
pub(super) fn ensure(is_so: bool, otherwise: impl FnOnce() -> String) -> Result<(), Violation> {
    if is_so { Ok(()) } else { Err(Violation(otherwise())) }
}
