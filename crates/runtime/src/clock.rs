//! The time, for the log.

use std::time::{SystemTime, UNIX_EPOCH};

use cofferdam_types::Timestamp;

/// This moment.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the edge where time comes in")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
