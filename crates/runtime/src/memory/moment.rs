//! Moments as models write them: `2026-08-01T12:00:00Z`, `2026-08-01`, `2h ago`.

use cofferdam_types::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo};

/// The moment that these words mean; a time without a zone is UTC.
pub(super) fn moment(words: &str, now: Timestamp) -> Result<Timestamp, String> {
    let words = words.trim();
    let unknown = || {
        format!(
            "{words:?} is no time: write one like 2026-08-01T12:00:00Z, 2026-08-01 (UTC), or \
             \"2h ago\""
        )
    };
    if words.eq_ignore_ascii_case("now") {
        return Ok(now);
    }
    if let Ok(moment) = words.parse::<jiff::Timestamp>() {
        return of_millis(moment.as_millisecond()).ok_or_else(unknown);
    }
    if let Ok(moment) = words.parse::<DateTime>() {
        let moment = moment.to_zoned(TimeZone::UTC).map_err(|_| unknown())?;
        return of_millis(moment.timestamp().as_millisecond()).ok_or_else(unknown);
    }
    let span: Span = words.parse().map_err(|_| unknown())?;
    let length: SignedDuration =
        span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| unknown())?;
    // Nothing that was let go is in the future, whoever leaves the "ago" out.
    let ago = u64::try_from(length.abs().as_millis()).map_err(|_| unknown())?;
    Ok(Timestamp(now.0.saturating_sub(ago)))
}

fn of_millis(millis: i64) -> Option<Timestamp> {
    u64::try_from(millis).ok().map(Timestamp)
}

/// A moment in words.
pub(super) fn in_words(at: Timestamp) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(moment) => moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        Err(_) => "at an unknown time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_750_000_000_000);

    #[test]
    fn times_and_spans_are_understood() {
        let at = |words| moment(words, NOW).unwrap().0;
        assert_eq!(at("2025-06-15T15:06:40Z"), NOW.0);
        assert_eq!(at("2025-06-15T17:06:40+02:00"), NOW.0);
        assert_eq!(at("2025-06-15 15:06:40"), NOW.0);
        assert_eq!(at("2025-06-15"), NOW.0 - 54_400_000);
        assert_eq!(at("now"), NOW.0);
        for words in ["2h ago", "2 hours ago", "2h", "120m ago", "-2h"] {
            assert_eq!(at(words), NOW.0 - 7_200_000, "{words}");
        }
        assert_eq!(at("1d 1h ago"), NOW.0 - 90_000_000);
        assert_eq!(at("9000w ago"), 0);
        assert_eq!(in_words(NOW), "2025-06-15 15:06:40Z");
    }

    #[test]
    fn what_is_no_time_is_told() {
        for words in ["soon", "", "2", "yesterday-ish", "-999999-01-01T00:00:00Z", "1mo ago"] {
            let error = moment(words, NOW).unwrap_err();
            assert!(error.contains("is no time: write one like"), "{error}");
        }
    }
}
