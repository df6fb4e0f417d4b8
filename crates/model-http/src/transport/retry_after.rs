//! How long a provider asks us to wait.

use std::time::Duration;

use http::HeaderMap;

/// A wait longer than this is a refusal; it is not counted beyond.
const LONGEST: Duration = Duration::from_hours(7 * 24);

/// Reads the headers: milliseconds, seconds, or a date. A date is compared with
/// the answer's own, so that it does not matter what time it is here.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |text: &str, unit: f64| {
        let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite())? / unit;
        Duration::try_from_secs_f64(seconds.min(LONGEST.as_secs_f64())).ok()
    };
    if let Some(found) = text("retry-after-ms").and_then(|text| seconds(text, 1000.0)) {
        return Some(found);
    }
    let value = text("retry-after")?;
    if let Some(found) = seconds(value, 1.0) {
        return Some(found);
    }
    let then = httpdate::parse_http_date(value).ok()?;
    let now = httpdate::parse_http_date(text("date")?).ok()?;
    Some(then.duration_since(now).unwrap_or(Duration::ZERO).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn seconds_milliseconds_and_dates_are_understood() {
        let date = ("date", "Mon, 16 Nov 2026 10:00:00 GMT");
        let millis = |millis| Some(Duration::from_millis(millis));
        for (given, expected) in [
            (vec![("retry-after", "2")], millis(2_000)),
            (vec![("retry-after", "1.5")], millis(1_500)),
            (vec![("retry-after", "9"), ("retry-after-ms", "250")], millis(250)),
            (vec![date, ("retry-after", "Mon, 16 Nov 2026 10:00:30 GMT")], millis(30_000)),
            (vec![date, ("retry-after", "Mon, 16 Nov 2026 09:00:00 GMT")], millis(0)),
            (vec![("retry-after", "Mon, 16 Nov 2026 10:00:30 GMT")], None),
            (vec![("retry-after", "1e300")], millis(7 * 24 * 3_600_000)),
            (vec![("retry-after", "-1")], None),
            (vec![("retry-after", "NaN")], None),
            (vec![("retry-after", "soon")], None),
            (vec![], None),
        ] {
            let pairs = given.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            assert_eq!(retry_after(&pairs.collect()), expected, "{given:?}");
        }
    }
}
