//! Text that is already tame, measured in the cells of a terminal, and numbers as
//! people read them.

use std::time::Duration;

use cofferdam_types::{Spent, Tokens, Usd};
use unicode_width::UnicodeWidthChar;

/// The cells of a character. Never less than a terminal uses for it within a
/// sequence, so that nothing is wider than was thought.
pub(crate) fn cells_of(character: char) -> usize {
    character.width().unwrap_or_default()
}

/// The cells of a text.
pub(crate) fn cells(text: &str) -> usize {
    text.chars().map(cells_of).sum()
}

/// As much of a text as fits, with a `…` where something is missing.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if cells(text) <= most {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut width = 0;
    for character in text.chars() {
        width += cells_of(character);
        if width >= most {
            break;
        }
        shown.push(character);
    }
    if most > 0 {
        shown.push('…');
    }
    shown
}

/// `1 line`, `2 lines`.
pub(crate) fn count(number: u64, one: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {one}{end}", grouped(number))
}

/// `12,345`
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `950`, `12.4k`, `1.2M`
fn rough(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..999_950 => tenths(number, 1_000, "k"),
        _ => tenths(number, 1_000_000, "M"),
    }
}

fn tenths(number: u64, unit: u64, name: &str) -> String {
    let tenths = number.saturating_mul(10).saturating_add(unit / 2) / unit;
    format!("{}.{}{name}", tenths / 10, tenths % 10)
}

/// `48.9 kB`
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => count(bytes, "byte"),
        1_000..999_950 => tenths(bytes, 1_000, " kB"),
        _ => tenths(bytes, 1_000_000, " MB"),
    }
}

/// `0.4s`, `12s`, `3:20`
pub(crate) fn span(span: Duration) -> String {
    let tenths = (span.as_millis() + 50) / 100;
    match tenths {
        0..100 => format!("{}.{}s", tenths / 10, tenths % 10),
        100..600 => format!("{}s", tenths / 10),
        _ => clock(span),
    }
}

/// `0:42`, `1:02:03`
pub(crate) fn clock(span: Duration) -> String {
    let seconds = span.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// `12.4k tokens (91% cached)`
pub(crate) fn tokens(tokens: Tokens) -> String {
    let total = format!("{} tokens", rough(tokens.total()));
    match cached(tokens) {
        None => total,
        Some(share) => format!("{total} ({share}% cached)"),
    }
}

/// The same, and whether nobody has said what was cached.
pub(crate) fn tokens_in_all(used: Tokens) -> String {
    match (cached(used), used.read()) {
        (None, 1..) => format!("{} (cached share unknown)", tokens(used)),
        _ => tokens(used),
    }
}

/// How much of a hundred of what was read a provider still had; `None` where nothing
/// was written to a cache and nothing read from it, since then nobody has said.
fn cached(tokens: Tokens) -> Option<u64> {
    if tokens.cache_read == 0 && tokens.cache_write == 0 {
        return None;
    }
    tokens.cache_read.saturating_mul(100).checked_div(tokens.read())
}

/// `12.4k → 3.1k tokens`
pub(crate) fn shrunk(before: u64, after: u64) -> String {
    format!("{} → {} tokens", rough(before), rough(after))
}

/// What was paid, and whether that is all; nothing before there is anything to
/// pay for, when it is not known yet whether the price is.
pub(crate) fn cost(spent: &Spent) -> Option<String> {
    match (spent.cost, spent.unpriced) {
        (Usd::ZERO, 0) if spent.turns == 0 => None,
        (cost, 0) => Some(cost.to_string()),
        (Usd::ZERO, _) => Some("price unknown".to_owned()),
        (cost, _) => Some(format!("{cost} and more (price unknown in part)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_cells_and_not_by_characters() {
        assert_eq!(cut("hello", 5), "hello");
        assert_eq!(cut("hello", 4), "hel…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("hello", 1), "…");
        assert_eq!(cut("hello", 0), "");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(1, "line"), "1 line");
        assert_eq!(count(4_992, "line"), "4,992 lines");
        let rough = [0, 999, 1_000, 12_449, 999_949, 999_950].map(rough);
        assert_eq!(rough, ["0", "999", "1.0k", "12.4k", "999.9k", "1.0M"]);
        let spans = [0, 449, 9_949, 9_950, 59_940, 59_950, 3_723_000];
        assert_eq!(
            spans.map(|millis| span(Duration::from_millis(millis))),
            ["0.0s", "0.4s", "9.9s", "10s", "59s", "0:59", "1:02:03"]
        );
        assert_eq!(size(48_900), "48.9 kB");
    }

    #[test]
    fn the_share_of_the_cache_is_of_what_was_read() {
        let used = Tokens { input: 900, cache_read: 9_100, cache_write: 0, output: 2_400 };
        assert_eq!(tokens(used), "12.4k tokens (91% cached)");
        assert_eq!(tokens(Tokens::default()), "0 tokens");
        assert_eq!(tokens_in_all(Tokens::default()), "0 tokens");
        // Kept, and not yet read again.
        let first = Tokens { input: 10, cache_read: 0, cache_write: 990, output: 0 };
        assert_eq!(tokens_in_all(first), "1.0k tokens (0% cached)");
    }

    #[test]
    fn a_provider_that_says_nothing_of_a_cache_is_not_said_to_have_none() {
        let used = Tokens { input: 900, cache_read: 0, cache_write: 0, output: 100 };
        assert_eq!(tokens(used), "1.0k tokens");
        assert_eq!(tokens_in_all(used), "1.0k tokens (cached share unknown)");
    }

    #[test]
    fn an_unknown_price_is_never_told_as_nothing() {
        let told = |turns, nanos, unpriced| {
            let cost = Usd::from_nanos(nanos);
            super::cost(&Spent { turns, cost, unpriced, ..Spent::default() })
        };
        assert_eq!(told(0, 0, 0), None);
        assert_eq!(told(1, 0, 0).unwrap(), "$0.00");
        assert_eq!(told(1, 0, 2).unwrap(), "price unknown");
        let part = "$0.0123 and more (price unknown in part)";
        assert_eq!(told(2, 12_300_000, 1).unwrap(), part);
        // An answer that broke off costs too.
        assert_eq!(told(0, 12_300_000, 0).unwrap(), "$0.0123");
        assert_eq!(told(0, 0, 1).unwrap(), "price unknown");
    }
}
