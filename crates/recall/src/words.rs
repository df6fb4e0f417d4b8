//! The words of a text that is about code: what it is found by.
//!
//! An identifier is a word as a whole, without its case and its underscores, and so
//! is each part of it: `getUserName` and `get_user_name` are `getusername`, `get`,
//! `user` and `name`. Paths, file names and codes of errors are kept whole as well.
//! Whole ones are [`Words::names`], so that an index can let them weigh more. Two words
//! that stand together are a name too: what one calls `userName` is the user name to
//! another.

use std::collections::{HashMap, HashSet};

/// How often a word counts within one text: what a log repeats a thousand times is
/// not a thousand times as much about it.
const REPEATS: u8 = 3;

/// Bytes of a run without spaces that are taken for a name; longer ones are data.
const LONGEST_NAME: usize = 128;

/// Bytes of a word.
const LONGEST_WORD: usize = 64;

/// Bytes of each of two words that count as one as well.
const LONGEST_IN_PAIR: usize = 24;

/// Parts of one run.
const MOST_PARTS: usize = 24;

/// Digits of a hash that people give for all of them.
const SHORT_HASH: usize = 7;

/// Bytes of a question that are read.
const LONGEST_QUESTION: usize = 16 << 10;

/// Words of a question that are looked for.
pub const MOST_ASKED: usize = 32;

/// Of which names at most so many, so that there is room for others.
const MOST_NAMES: usize = 16;

/// The words of a text, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Identifiers of several parts, paths, file names, codes and hashes, each whole, and
    /// two words that stand together as one.
    pub names: Vec<String>,
    /// All others, and the parts of those.
    pub words: Vec<String>,
}

impl Words {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.words.is_empty()
    }

    /// All of them, names first.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.names.iter().chain(&self.words).map(String::as_str)
    }
}

/// The words of a text that is to be found, each as often as it counts.
#[must_use]
pub fn indexed(text: &str) -> Words {
    let mut found = Words::default();
    let mut counts: [HashMap<String, u8>; 2] = Default::default();
    each_word(text, &mut |form, word| {
        let [names, words] = &mut counts;
        let (counts, list) = match form {
            Form::Name => (names, &mut found.names),
            Form::Word => (words, &mut found.words),
        };
        match counts.get_mut(word) {
            Some(count) if *count == REPEATS => return,
            Some(count) => *count += 1,
            None => {
                counts.insert(word.to_owned(), 1);
            }
        }
        list.push(word.to_owned());
    });
    found
}

/// The words of a question, each once: without those that every text has, unless it
/// has no others, and at most [`MOST_ASKED`].
#[must_use]
pub fn asked(text: &str) -> Words {
    let text = head(text, LONGEST_QUESTION);
    let mut found = Words::default();
    let mut common = Vec::new();
    let mut seen = HashSet::new();
    let mut last: Option<String> = None;
    for run in text.split(|c: char| !is_in_run(c)) {
        let mut alone = Alone::default();
        each_of_run(run, &mut |form, word| {
            alone.see(form, word);
            let is_new = seen.insert(word.to_owned());
            match form {
                _ if !is_new => {}
                Form::Word if is_common(word) => common.push(word.to_owned()),
                Form::Word => found.words.push(word.to_owned()),
                Form::Name => found.names.push(word.to_owned()),
            }
        });
        let word = alone.word().map(str::to_owned);
        if let (Some(last), Some(word)) = (&last, &word) {
            let pair = format!("{last}{word}");
            if seen.insert(pair.clone()) {
                found.names.push(pair);
            }
        }
        last = word;
    }
    if found.is_empty() {
        found.words = common;
    }
    found.names.truncate(MOST_NAMES.max(MOST_ASKED.saturating_sub(found.words.len())));
    found.names.truncate(MOST_ASKED);
    found.words.truncate(MOST_ASKED - found.names.len());
    found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Name,
    Word,
}

fn each_word(text: &str, found: &mut impl FnMut(Form, &str)) {
    let mut last = String::new();
    let mut pair = String::new();
    for run in text.split(|c: char| !is_in_run(c)) {
        if run.is_empty() {
            // More than a space is between them.
            last.clear();
            continue;
        }
        let mut alone = Alone::default();
        each_of_run(run, &mut |form, word| {
            alone.see(form, word);
            found(form, word);
        });
        let word = alone.word().filter(|word| word.len() == run.len()).unwrap_or_default();
        if !last.is_empty() && !word.is_empty() {
            pair.clear();
            pair.push_str(&last);
            pair.push_str(word);
            found(Form::Name, &pair);
        }
        last.clear();
        last.push_str(word);
    }
}

/// The one word of a run that has no other, and says something.
#[derive(Default)]
struct Alone {
    seen: usize,
    word: String,
}

impl Alone {
    fn see(&mut self, form: Form, word: &str) {
        self.seen += 1;
        self.word.clear();
        if form == Form::Word && word.len() <= LONGEST_IN_PAIR {
            self.word.push_str(word);
        }
    }

    fn word(&self) -> Option<&str> {
        let word = self.word.as_str();
        let says_something = !word.is_empty() && !is_common(word) && !is_number(word);
        (self.seen == 1 && says_something).then_some(word)
    }
}

fn is_in_run(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')
}

/// A run is everything up to a space or a mark that no name has.
fn each_of_run(run: &str, found: &mut impl FnMut(Form, &str)) {
    let run = run.trim_matches(|c: char| !c.is_alphanumeric());
    if run.is_empty() {
        return;
    }
    // Most of all words, and nothing to do with them.
    if run.len() <= LONGEST_WORD && run.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return each_of_part(run, Place::Alone, found);
    }
    if run.contains('/') {
        if run.len() <= LONGEST_NAME {
            found(Form::Name, &run.to_lowercase());
        }
        for component in run.split('/').take(MOST_PARTS) {
            each_of_file_name(component, found);
        }
    } else {
        each_of_file_name(run, found);
    }
}

/// `login.rs`, `user.name`, `1.2.3`.
fn each_of_file_name(name: &str, found: &mut impl FnMut(Form, &str)) {
    let name = name.trim_matches(|c: char| !c.is_alphanumeric());
    let dots = name.bytes().filter(|byte| *byte == b'.').count();
    if dots == 0 {
        return each_of_identifier(name, found);
    }
    let is_version = || name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if name.len() <= LONGEST_WORD && (dots == 1 || is_version()) {
        found(Form::Name, &name.to_lowercase());
        if is_version() {
            return;
        }
    }
    for part in name.split('.').take(MOST_PARTS) {
        each_of_identifier(part, found);
    }
}

/// `getUserName`, `get_user_name`, `get-user-name`, `E0308`, `HTTPServer2`.
fn each_of_identifier(identifier: &str, found: &mut impl FnMut(Form, &str)) {
    let identifier = identifier.trim_matches(['_', '-']);
    if identifier.is_empty() {
        return;
    }
    if is_uuid(identifier) {
        return found(Form::Name, &identifier.to_lowercase());
    }
    if identifier.len() > LONGEST_NAME {
        return found(Form::Word, &head(identifier, LONGEST_WORD).to_lowercase());
    }
    if is_hash(identifier) {
        let hash = head(identifier, LONGEST_WORD).to_lowercase();
        found(Form::Name, &hash);
        return found(Form::Name, head(&hash, SHORT_HASH));
    }
    let parts = parts(identifier);
    if let [whole] = parts.as_slice() {
        return each_of_part(whole, Place::Alone, found);
    }
    let mut whole: String = identifier.chars().filter(|c| !matches!(c, '_' | '-')).collect();
    whole = whole.to_lowercase();
    found(Form::Name, head(&whole, LONGEST_WORD));
    // Found by a name within it too: `parse_header` in `ERR_PARSE_HEADER_FAILED`.
    if parts.len() > 2 {
        for pair in parts.windows(2) {
            let pair = pair.concat().to_lowercase();
            found(Form::Name, head(&pair, LONGEST_WORD));
        }
    }
    for part in parts {
        each_of_part(part, Place::Within, found);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Alone,
    Within,
}

fn each_of_part(part: &str, place: Place, found: &mut impl FnMut(Form, &str)) {
    if part.is_ascii() {
        let says_something = match place {
            Place::Alone => part.len() > 1 || part.bytes().all(|byte| byte.is_ascii_digit()),
            Place::Within => part.len() > 1,
        };
        let part = head(part, LONGEST_WORD);
        match says_something {
            true if part.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                found(Form::Word, &part.to_ascii_lowercase());
            }
            true => found(Form::Word, part),
            false => {}
        }
        return;
    }
    if !part.chars().any(is_written_without_spaces) {
        return found(Form::Word, head(&part.to_lowercase(), LONGEST_WORD));
    }
    // Two at a time: there are no spaces to tell where a word ends.
    let characters: Vec<char> = part.chars().take(LONGEST_NAME).collect();
    if let [only] = characters.as_slice() {
        return found(Form::Word, &only.to_string());
    }
    for pair in characters.windows(2) {
        let pair: String = pair.iter().collect();
        found(Form::Word, &pair.to_lowercase());
    }
}

/// Where the kind of character changes, a new part begins.
fn parts(identifier: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for piece in identifier.split(['_', '-']).filter(|piece| !piece.is_empty()) {
        let mut begin = 0;
        let mut before: Option<char> = None;
        let mut characters = piece.char_indices().peekable();
        while let Some((at, c)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            let begins = before.is_some_and(|before| begins_a_part(before, c, next));
            if begins && parts.len() + 1 < MOST_PARTS {
                parts.extend(piece.get(begin..at));
                begin = at;
            }
            before = Some(c);
        }
        parts.extend(piece.get(begin..));
        if parts.len() >= MOST_PARTS {
            break;
        }
    }
    parts
}

fn begins_a_part(before: char, c: char, next: Option<char>) -> bool {
    if before.is_numeric() != c.is_numeric() {
        return true;
    }
    // `getUser` before the U; `HTTPServer` before the S.
    c.is_uppercase()
        && (before.is_lowercase()
            || (before.is_uppercase() && next.is_some_and(char::is_lowercase)))
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn is_hash(text: &str) -> bool {
    text.len() >= SHORT_HASH
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn is_written_without_spaces(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0e7f | 0x3040..=0x30ff | 0x3400..=0x9fff | 0xac00..=0xd7af)
}

/// As much of a text as fits, whole characters only.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// Whether a word says nothing about what is looked for.
pub(crate) fn is_common(word: &str) -> bool {
    COMMON.binary_search(&word).is_ok()
}

/// In order. Words that mean something in code are not among them: `if`, `for`,
/// `not`, `in` and `is` are, since every text has them.
const COMMON: &[&str] = &[
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "another", "any", "anyone",
    "are", "as", "ask", "asked", "at", "be", "because", "been", "before", "being", "both", "but",
    "by", "came", "can", "could", "did", "do", "does", "doing", "done", "down", "each", "earlier",
    "else", "ever", "every", "few", "find", "for", "found", "from", "gave", "get", "give", "given",
    "go", "goes", "got", "had", "has", "have", "having", "he", "her", "here", "him", "his", "how",
    "i", "if", "in", "into", "is", "it", "its", "just", "know", "let", "like", "look", "made",
    "make", "many", "may", "me", "might", "more", "most", "much", "must", "my", "need", "no",
    "nor", "not", "now", "of", "off", "on", "once", "one", "only", "or", "other", "our", "out",
    "over", "own", "please", "put", "really", "remember", "said", "same", "saw", "say", "see",
    "seen", "shall", "she", "should", "show", "since", "so", "some", "still", "such", "take",
    "tell", "than", "that", "the", "their", "them", "then", "there", "these", "they", "thing",
    "this", "those", "through", "to", "told", "too", "under", "until", "up", "upon", "us", "use",
    "used", "very", "want", "wanted", "was", "we", "went", "were", "what", "when", "where",
    "which", "while", "who", "whom", "whose", "why", "will", "with", "would", "you", "your",
];

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
