//! The part of a text that fits a question best, cut to a few lines.

use crate::words::{Words, head};

/// Bytes of an excerpt, before the marks of what was cut.
const LONGEST: usize = 600;

/// Lines of an excerpt.
const LINES: usize = 8;

/// Bytes of a text that are looked through.
const READ: usize = 256 << 10;

/// Places of one word that are looked at.
const PLACES: usize = 64;

/// Stands for what was cut.
const CUT: &str = "…";

/// The few lines of a text that hold most of these words; its beginning if it has none.
#[must_use]
pub fn excerpt(text: &str, words: &Words) -> String {
    let text = text.trim_matches(['\n', '\r']);
    let begin = best(text, words);
    // A whole line, with the one above it, unless the line is far too long.
    let line = text.get(..begin).unwrap_or_default().rfind('\n').map_or(0, |at| at + 1);
    let above = text.get(..line.saturating_sub(1)).unwrap_or_default();
    let above = above.rfind('\n').map_or(0, |at| at + 1);
    let far = |from: usize| begin - from > LONGEST / 3;
    let begin = if !far(above) {
        above
    } else if !far(line) {
        line
    } else {
        text.floor_char_boundary(begin - LONGEST / 6)
    };
    let rest = text.get(begin..).unwrap_or_default();
    let lines: usize = rest.split_inclusive('\n').take(LINES).map(str::len).sum();
    let cut = head(rest, lines.min(LONGEST)).trim_end();
    let after = if begin + cut.len() < text.trim_end().len() { CUT } else { "" };
    let before = if begin > 0 { CUT } else { "" };
    format!("{before}{cut}{after}")
}

/// Where the most of the words begin to stand close together.
fn best(text: &str, words: &Words) -> usize {
    // Of the same length as the text: what is not ASCII is compared as it is.
    let lower = head(text, READ).to_ascii_lowercase();
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (number, word) in words.all().enumerate() {
        let stem = stem(word);
        places.extend(lower.match_indices(stem).take(PLACES).map(|(at, _)| (at, number)));
    }
    places.sort_unstable();
    let mut counts = vec![0_usize; words.names.len() + words.words.len()];
    let (mut value, mut first) = (0, 0);
    let mut best = (0, 0);
    for last in 0..places.len() {
        let Some(&(end, number)) = places.get(last) else { break };
        enter(&mut counts, number, words, &mut value);
        while let Some(&(at, left)) = places.get(first)
            && end - at > LONGEST * 2 / 3
        {
            leave(&mut counts, left, words, &mut value);
            first += 1;
        }
        if value > best.0 {
            best = (value, places.get(first).map_or(0, |place| place.0));
        }
    }
    best.1
}

fn enter(counts: &mut [usize], number: usize, words: &Words, value: &mut usize) {
    let Some(count) = counts.get_mut(number) else { return };
    *count += 1;
    if *count == 1 {
        *value += worth(number, words);
    }
}

fn leave(counts: &mut [usize], number: usize, words: &Words, value: &mut usize) {
    let Some(count) = counts.get_mut(number) else { return };
    *count -= 1;
    if *count == 0 {
        *value -= worth(number, words);
    }
}

/// A name says more than a part of one, and a long word more than a short one.
fn worth(number: usize, words: &Words) -> usize {
    let length = words.all().nth(number).map_or(0, str::len).min(12);
    if number < words.names.len() { length * 2 } else { length }
}

/// What is left of a word in its other forms: `retries` is found by `retri`.
fn stem(word: &str) -> &str {
    let length = word.chars().count();
    if length < 6 || !word.is_ascii() {
        return word;
    }
    word.get(..length - 2).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::asked;

    #[test]
    fn the_lines_that_fit_are_shown_with_one_above() {
        let mut text = String::new();
        for number in 0..400 {
            text.push_str(&format!("line {number} of a log that says nothing\n"));
        }
        text.push_str("the pool was exhausted: maxConnections = 37\nretry later\n");
        for number in 400..800 {
            text.push_str(&format!("line {number} of a log that says nothing\n"));
        }
        let found = excerpt(&text, &asked("how many connections may the pool have?"));
        assert!(found.starts_with("…line 399"), "{found}");
        assert!(found.contains("maxConnections = 37\nretry later\n"), "{found}");
        assert!(found.ends_with('…') && found.lines().count() <= LINES, "{found}");
    }

    #[test]
    fn what_is_short_is_shown_whole_and_what_is_one_line_is_cut() {
        assert_eq!(excerpt("one\ntwo\n", &asked("two")), "one\ntwo");
        assert_eq!(excerpt("", &asked("two")), "");
        let long = format!("{}needle{}", "ä".repeat(9000), "ö".repeat(9000));
        let found = excerpt(&long, &asked("needle"));
        assert!(found.contains("needle") && found.len() < LONGEST + 2 * CUT.len() + 1, "{found}");
        assert!(found.starts_with('…') && found.ends_with('…'));
    }

    #[test]
    fn without_a_fitting_word_it_is_the_beginning() {
        assert_eq!(excerpt("alpha\nbeta", &asked("gamma")), "alpha\nbeta");
        assert!(excerpt(&"x".repeat(5000), &Words::default()).ends_with('…'));
    }
}
