//! The part of a text that fits a question best, cut to a few lines.

use crate::words::{Words, head};

/// Bytes of an excerpt, before the marks of what was cut.
const LONGEST: usize = 600;

/// Lines of an excerpt.
const LINES: usize = 8;

/// Bytes of a text that are looked through.
const READ: usize = 256 << 10;

/// Places of one word that are looked at.
const PLACES: usize = 1024;

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
    if !words.names.is_empty() {
        let joined = Joined::of(&lower);
        for (number, name) in words.names.iter().enumerate() {
            places.extend(joined.places(name).into_iter().map(|at| (at, number)));
        }
    }
    for (number, word) in (words.names.len()..).zip(&words.words) {
        places.extend(self::places(&lower, word).map(|at| (at, number)));
    }
    places.sort_unstable();
    let mut counts = vec![0_usize; words.names.len() + words.words.len()];
    let (mut value, mut first) = (0, 0);
    let mut best = (0, 0);
    for last in 0..places.len() {
        let Some(&(end, number)) = places.get(last) else { break };
        enter(&mut counts, number, words, &mut value);
        // Also what comes again further on: an excerpt that begins too early ends too early.
        while let Some(&(at, left)) = places.get(first)
            && (end - at > LONGEST * 2 / 3 || counts.get(left).is_some_and(|count| *count > 1))
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

/// What is left of a word in its other forms: `retries` is found by `retri`. A code, a
/// number or a path has no other form.
fn stem(word: &str) -> &str {
    if word.len() < 6 || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return word;
    }
    word.get(..word.len() - 2).unwrap_or(word)
}

/// Where a word begins in a text. A number or a code is not the beginning of a longer one.
fn places<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let stem = stem(word);
    let is_number = stem.ends_with(|c: char| c.is_ascii_digit());
    let found = text.match_indices(stem).map(|(at, _)| at);
    let goes_on =
        move |at: usize| text.as_bytes().get(at + stem.len()).is_some_and(u8::is_ascii_digit);
    found.filter(move |at| !(is_number && goes_on(*at))).take(PLACES)
}

/// A text without what joins the parts of a name: `max_retries`, `max-retries` and `max
/// retries` are `maxretries` in it, as they are in [`Words::names`].
struct Joined {
    text: String,
    /// The bytes that are left out, in their order: how many of the text above stand before
    /// each.
    left_out: Vec<usize>,
}

impl Joined {
    fn of(lower: &str) -> Self {
        let mut text = String::with_capacity(lower.len());
        let mut left_out = Vec::new();
        for (at, c) in lower.char_indices() {
            // More than one space is between two words that do not belong together.
            let joins = match c {
                '_' | '-' => true,
                ' ' => !lower.get(..at).is_some_and(|before| before.ends_with(' ')),
                _ => false,
            };
            if joins { left_out.push(text.len()) } else { text.push(c) }
        }
        Self { text, left_out }
    }

    /// Where a name begins in the whole text.
    fn places(&self, name: &str) -> Vec<usize> {
        let name = name.replace(['_', '-'], "");
        places(&self.text, &name)
            .map(|at| at + self.left_out.partition_point(|before| *before <= at))
            .collect()
    }
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

    /// Every line of the noise has some of the words, none has the name.
    fn line_found(noise: &str, line: &str, question: &str) -> bool {
        let noise = format!("{noise}\n").repeat(200);
        let found = excerpt(&format!("{noise}{line}\n{noise}"), &asked(question));
        found.contains(line)
    }

    #[test]
    fn a_name_is_found_however_it_is_written() {
        let noise = "the max of all is 7\n\nretries are counted elsewhere, and far apart";
        for line in
            ["max_retries = 5", "maxRetries: 5", "--max-retries=5", "MAX_RETRIES=5", "MaxRetries"]
        {
            for question in ["max_retries", "maxRetries", "max-retries", "the max retries"] {
                assert!(line_found(noise, line, question), "{question} in {line}");
            }
        }
        assert!(line_found("user of a name\n\nname of a user", "the user name", "userName"));
    }

    #[test]
    fn a_path_or_a_code_is_found_and_not_one_that_is_nearly_the_same() {
        let noise = "src/auth/login_form.ts and login.rs, form.rs\n\nsrc auth login form rs";
        for question in ["src/auth/login_form.rs", "login_form.rs", "auth/login_form.rs"] {
            assert!(line_found(noise, "at src/auth/login_form.rs:42:7", question), "{question}");
        }
        for (noise, line) in [
            ("error[E0308]: mismatched\n0432 E E04321", "error[E0432]: unresolved import"),
            ("TS2399: error, TS2300: error", "TS2345: not assignable"),
            ("ERR_MODULE_NOT_MADE FOUND", "ERR_MODULE_NOT_FOUND"),
            ("9f86d0aa 9f86dfff", "commit 9f86d081884c7d"),
        ] {
            let question = line
                .split([':', ' '])
                .find(|word| word.bytes().any(|b| b.is_ascii_digit() || b == b'_'));
            assert!(line_found(noise, line, question.unwrap()), "{line}");
        }
    }

    #[test]
    fn places_in_a_joined_text_are_those_of_the_whole() {
        let text = "_a-b ü__c d  e_";
        let joined = Joined::of(text);
        assert_eq!(joined.text, "abücd e");
        for (part, rest) in [("ab", "a-b"), ("b", "b ü"), ("ü", "ü__"), ("cd", "c d"), ("e", "e_")]
        {
            let at = *joined.places(part).first().unwrap();
            assert!(text.get(at..).unwrap().starts_with(rest), "{part} at {at}");
        }
        assert!(joined.places("x").is_empty());
    }
}
