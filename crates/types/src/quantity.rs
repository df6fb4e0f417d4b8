//! Amounts as people write them: `512M`, `1.5`, `90s`.

use std::time::Duration;

/// An amount that cannot be understood, with what would be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {wanted}")]
pub struct QuantityError {
    text: String,
    wanted: &'static str,
}

/// Bytes: a number with an optional `K`, `M`, `G` or `T` (powers of 1024), each
/// with an optional `B` or `iB`.
///
/// # Errors
/// When the text is no such amount or does not fit.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let error = || QuantityError { text: text.to_owned(), wanted: "a size such as 512M or 2G" };
    let (number, unit) = split_unit(text);
    let prefix = unit.strip_suffix("iB").or_else(|| unit.strip_suffix(['B', 'b']));
    let shift = match prefix.unwrap_or(unit) {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(error()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(error);
    }
    let fraction: f64 = number.parse().map_err(|_| error())?;
    let bytes = fraction * f64::from(1u32 << 10).powi(shift / 10);
    if bytes.is_finite() && (0.0..9.0e18).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(error())
    }
}

/// Bytes that at least a sandbox's first process can live with.
///
/// # Errors
/// When the text is no such amount, or less than 4M.
pub fn parse_memory(text: &str) -> Result<u64, QuantityError> {
    const LEAST: u64 = 4 << 20;
    match parse_bytes(text) {
        Ok(bytes) if bytes >= LEAST => Ok(bytes),
        _ => Err(QuantityError {
            text: text.to_owned(),
            wanted: "a size such as 512M or 2G; nothing can run with less than 4M",
        }),
    }
}

/// CPUs, in thousandths: `2`, `0.5`.
///
/// # Errors
/// When the text is no number above zero, or more than 10,000 CPUs.
pub fn parse_cpus(text: &str) -> Result<u32, QuantityError> {
    let error = || QuantityError {
        text: text.to_owned(),
        wanted: "a number of CPUs between 0.01 and 10000, such as 2 or 0.5",
    };
    let (number, "") = split_unit(text) else { return Err(error()) };
    let cpus: f64 = number.parse().map_err(|_| error())?;
    if (0.01..=10_000.0).contains(&cpus) {
        Ok((cpus * 1000.0).round() as u32)
    } else {
        Err(error())
    }
}

/// A span of time: a number with `ms`, `s` (also with no unit), `m`, `h` or `d`.
///
/// # Errors
/// When the text is no such span or does not fit.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let error =
        || QuantityError { text: text.to_owned(), wanted: "a time such as 60s, 10m or 500ms" };
    let (number, unit) = split_unit(text);
    let seconds_each = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(error()),
    };
    let number: f64 = number.parse().map_err(|_| error())?;
    let span = Duration::try_from_secs_f64(number * seconds_each).map_err(|_| error())?;
    if span.as_secs() < 100 * 365 * 86_400 { Ok(span) } else { Err(error()) }
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("512M", 512 << 20),
            ("2G", 2 << 30),
            ("1.5K", 1536),
            ("3GiB", 3 << 30),
            ("7kb", 7 << 10),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1X", "99999999999999999999", "1e9", "16777216T", "NaN", "1BB"]
        {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory_is_enough_for_something() {
        assert_eq!(parse_memory("4M"), Ok(4 << 20));
        assert!(parse_memory("64K").unwrap_err().to_string().contains("less than 4M"));
        assert!(parse_memory("lots").is_err());
    }

    #[test]
    fn cpus_are_thousandths() {
        assert_eq!(parse_cpus("2"), Ok(2000));
        assert_eq!(parse_cpus("0.5"), Ok(500));
        for text in ["", "0", "-1", "+1", "NaN", "inf", "1e9", "1e1", "two"] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_read_with_and_without_a_unit() {
        assert_eq!(parse_duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        for text in ["", "s", "-1s", "1y", "99999999999d", "NaN"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_text_and_what_would_do() {
        assert_eq!(
            parse_bytes("many").unwrap_err().to_string(),
            "\"many\" is not a size such as 512M or 2G"
        );
    }
}
