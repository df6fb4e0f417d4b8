//! What a text that is not in a file was probably meant to be: the lines of the
//! file that are nearest to it, and why they do not match.

use std::collections::HashMap;

use crate::lines::{numbered, shortened};

/// Lines of a file that are looked at.
const LOOKED_AT: usize = 200_000;

/// Places of one line that count: a line that is everywhere says nothing.
const MOST_PLACES: usize = 200;

/// Lines of the file that are shown.
const SHOWN: usize = 12;

/// Characters of a line that are compared when nothing matches.
const COMPARED: usize = 400;

/// Characters of a line that are repeated.
const QUOTED: usize = 160;

/// Says where a text nearly is, and why it is not there.
pub(crate) fn explain(content: &str, wanted: &str) -> String {
    let file: Vec<&str> = content.lines().take(LOOKED_AT).collect();
    let wanted: Vec<&str> = wanted.lines().collect();
    let Some(start) = nearest(&file, &wanted) else {
        return "nothing in the file is like it".to_owned();
    };
    let there = file.get(start..).unwrap_or_default();
    let reason = compare(there, start, &wanted);
    let shown = there.iter().take(wanted.len().min(SHOWN));
    let lines: String =
        (start as u64 + 1..).zip(shown).map(|(number, line)| numbered(number, line)).collect();
    format!("the nearest place is this:\n{lines}{reason}")
}

/// The line at which the file is nearest to the wanted lines.
fn nearest(file: &[&str], wanted: &[&str]) -> Option<usize> {
    by_equal_lines(file, wanted).or_else(|| by_likeness(file, wanted))
}

/// Every wanted line votes for the places where it is, leniently read.
fn by_equal_lines(file: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, line) in file.iter().enumerate() {
        let found = places.entry(lenient(line)).or_default();
        if found.len() < MOST_PLACES {
            found.push(at);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (index, line) in wanted.iter().enumerate() {
        let line = lenient(line);
        if line.is_empty() {
            continue;
        }
        for at in places.get(&line).into_iter().flatten() {
            if let Some(start) = at.checked_sub(index) {
                *votes.entry(start).or_default() += 1;
            }
        }
    }
    let best = votes.into_iter().max_by_key(|(start, count)| (*count, std::cmp::Reverse(*start)));
    best.map(|(start, _)| start)
}

/// The line that has most in common with the longest wanted one.
fn by_likeness(file: &[&str], wanted: &[&str]) -> Option<usize> {
    let (index, longest) = wanted
        .iter()
        .enumerate()
        .max_by_key(|(index, line)| (line.trim().len(), std::cmp::Reverse(*index)))?;
    let pairs = pairs_of(longest);
    let like = |line: &str| {
        let have = pairs_of(line);
        let common = pairs.iter().filter(|pair| have.binary_search(pair).is_ok()).count();
        (common * 100).checked_div(pairs.len()).unwrap_or(0)
    };
    let scores = file.iter().enumerate().map(|(at, line)| (like(line), at));
    let best = scores.max_by_key(|(score, at)| (*score, std::cmp::Reverse(*at)));
    best.filter(|(score, _)| *score >= 60).map(|(_, at)| at.saturating_sub(index))
}

/// The pairs of neighbouring characters in a line, in order.
fn pairs_of(line: &str) -> Vec<(char, char)> {
    let line: Vec<char> = lenient(line).chars().take(COMPARED).collect();
    let mut pairs: Vec<(char, char)> = line.windows(2).filter_map(pair).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn pair(window: &[char]) -> Option<(char, char)> {
    match window {
        [a, b] => Some((*a, *b)),
        _ => None,
    }
}

/// Why the lines there are not the wanted ones.
fn compare(there: &[&str], start: usize, wanted: &[&str]) -> String {
    let last = wanted.len().saturating_sub(1);
    let differs = |(index, line): (usize, &&str)| {
        let Some(have) = there.get(index) else { return true };
        // The text may begin and end within a line.
        !match (index == 0, index == last) {
            (true, true) => have.contains(line),
            (true, false) => have.ends_with(line),
            (false, true) => have.starts_with(line),
            (false, false) => have == line,
        }
    };
    let different: Vec<usize> =
        wanted.iter().enumerate().filter(|line| differs(*line)).map(|(index, _)| index).collect();
    let Some(first) = different.first().copied() else {
        return "its lines are the same: the line ends must differ".to_owned();
    };
    let line = wanted.get(first).copied().unwrap_or_default();
    let number = start + first + 1;
    let Some(have) = there.get(first).copied() else {
        return format!("the file ends before line {number}");
    };
    let same = wanted.len() - different.len();
    let part = if same > 0 {
        format!("{same} of {} lines are the same. ", wanted.len())
    } else {
        String::new()
    };
    let reason = reason(have, line);
    let (have, line) = (shortened(have, QUOTED), shortened(line, QUOTED));
    format!("{part}Line {number}: {reason}\n  file:  {have:?}\n  given: {line:?}")
}

/// How two lines differ.
fn reason(have: &str, given: &str) -> String {
    if have.trim_end() == given.trim_end() {
        return "the white space at the end differs".to_owned();
    }
    if have.trim() == given.trim() {
        let (have, given) = (indentation(have), indentation(given));
        return format!("the indentation differs: the file has {have}, given was {given}");
    }
    if plain_punctuation(have).trim() == plain_punctuation(given).trim() {
        return "quotes, dashes or spaces are other characters".to_owned();
    }
    if one_space(&plain_punctuation(have)) == one_space(&plain_punctuation(given)) {
        return "the white space within differs".to_owned();
    }
    if lenient(have) == lenient(given) {
        return "upper and lower case differ".to_owned();
    }
    "the text differs".to_owned()
}

fn indentation(line: &str) -> String {
    let space: Vec<char> = line.chars().take_while(|one| one.is_whitespace()).collect();
    let tabs = space.iter().filter(|one| **one == '\t').count();
    match (tabs, space.len() - tabs) {
        (0, 0) => "none".to_owned(),
        (0, spaces) => format!("{spaces} spaces"),
        (tabs, 0) => format!("{tabs} tabs"),
        (tabs, spaces) => format!("{tabs} tabs and {spaces} spaces"),
    }
}

fn one_space(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn lenient(line: &str) -> String {
    one_space(&plain_punctuation(line)).to_lowercase()
}

/// The line with the quotes, dashes and spaces of a keyboard.
pub(crate) fn plain_punctuation(line: &str) -> String {
    let plain = |one: char| match one {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    };
    line.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_reason_of_a_mismatch_is_named() {
        let file = "fn main() {\n\tlet x = \"a\";\n    call(x);  \n}\n";
        let cases = [
            (
                "    let x = \"a\";",
                "the indentation differs: the file has 1 tabs, given was 4 spaces",
            ),
            ("fn main() {\n\tlet x = “a”;\n", "quotes, dashes or spaces are other characters"),
            ("    call(x);\n}", "the white space at the end differs"),
            ("Fn Main() {", "upper and lower case differ"),
            ("let  x =  \"a\";", "the white space within differs"),
            (
                "fn main() {\n\tlet y = \"b\";",
                "1 of 2 lines are the same. Line 2: the text differs",
            ),
            ("\tlet x = \"abc\";", "Line 2: the text differs"),
            ("}\nmore\nand more", "the file ends before line 5"),
            ("completely different words", "nothing in the file is like it"),
            ("fn main() {\n\tlet x = \"a\";\n    call(x);  \n}\n", "the line ends must differ"),
        ];
        for (wanted, reason) in cases {
            let text = explain(file, wanted);
            assert!(text.contains(reason), "{wanted:?}: {text}");
        }
    }

    #[test]
    fn the_nearest_place_is_shown_with_its_lines() {
        let file = "one\ntwo\nthree\nfour\n";
        let text = explain(file, "Two\nthree");
        assert!(text.contains("     2\ttwo\n     3\tthree\n"), "{text}");
        assert!(text.contains("file:  \"two\"\n  given: \"Two\""), "{text}");
    }

    #[test]
    fn a_large_file_of_equal_lines_is_no_burden() {
        let file = "same line\n".repeat(200_000);
        assert!(explain(&file, "same line\nother\n").contains("the text differs"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_compared_there_is_an_explanation(file in "(?s).{0,80}", wanted in "(?s).{1,40}") {
            prop_assert!(!explain(&file, &wanted).is_empty());
        }
    }
}
