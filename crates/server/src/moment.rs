//! Moments, as text and as they are now.

use std::time::{SystemTime, UNIX_EPOCH};

use cofferdam_types::Timestamp;

/// This moment, by the machine's clock.
#[expect(clippy::disallowed_methods, reason = "this is the edge where time comes in")]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A moment by RFC 3339, in UTC.
pub(crate) fn text(moment: Timestamp) -> String {
    let millis = i64::try_from(moment.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// The same of nanoseconds since 1970.
pub(crate) fn text_of_nanos(nanos: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(nanos))
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_by_rfc_3339() {
        assert_eq!(text(Timestamp(0)), "1970-01-01T00:00:00Z");
        assert_eq!(text(Timestamp(1_794_800_000_250)), "2026-11-16T03:33:20.25Z");
        assert!(text(Timestamp(u64::MAX)).starts_with("9999-"));
        assert_eq!(text_of_nanos(-1_000_000_000), "1969-12-31T23:59:59Z");
    }
}
