//! The patch format: files to add, to delete, to update and to move, in one text.
//!
//! ```text
//! *** Begin Patch
//! *** Update File: src/main.rs
//! *** Move to: src/start.rs
//! @@ fn main() {
//!  context
//! -removed
//! +added
//! *** Add File: notes.txt
//! +a line
//! *** Delete File: old.txt
//! *** End Patch
//! ```

use std::iter::Peekable;
use std::str::Lines;

/// What is to happen to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add { path: String, lines: Vec<String> },
    Delete { path: String },
    Update { path: String, to: Option<String>, hunks: Vec<Hunk> },
}

/// A place in a file, and what is to happen there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Its line in the patch.
    pub(super) at: usize,
    /// Lines that come somewhere before the place, each after the one before it.
    pub(super) headers: Vec<String>,
    pub(super) lines: Vec<(Mark, String)>,
    /// The place is at the end of the file.
    pub(super) at_end: bool,
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Keep,
    Remove,
    Add,
}

impl Hunk {
    /// The lines that must be there.
    pub(super) fn old(&self) -> Vec<&str> {
        let old = self.lines.iter().filter(|(mark, _)| *mark != Mark::Add);
        old.map(|(_, line)| line.as_str()).collect()
    }
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";

/// Reads a patch; says at which line it is none.
pub(super) fn parse(input: &str) -> Result<Vec<Change>, String> {
    let mut reader = Reader { lines: unwrapped(input).lines().peekable(), number: 0 };
    match reader.next() {
        Some(first) if first.trim_end() == BEGIN => {}
        first => return Err(reader.wrong(&format!("the first line must be `{BEGIN}`"), first)),
    }
    let mut changes = Vec::new();
    loop {
        let Some(line) = reader.next() else {
            return Err(format!("the last line must be `{END}`; the patch ends without it"));
        };
        let line = line.trim_end();
        if line == END {
            break;
        }
        if let Some(path) = line.strip_prefix(ADD) {
            changes.push(Change::Add { path: path_in(path, &reader)?, lines: reader.added()? });
        } else if let Some(path) = line.strip_prefix(DELETE) {
            changes.push(Change::Delete { path: path_in(path, &reader)? });
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            changes.push(reader.update(path_in(path, &reader)?)?);
        } else if !line.is_empty() {
            let expected = "expected `*** Add File: PATH`, `*** Update File: PATH`, \
                            `*** Delete File: PATH` or `*** End Patch`";
            return Err(reader.wrong(expected, Some(line)));
        }
    }
    if changes.is_empty() {
        return Err("the patch changes nothing".to_owned());
    }
    Ok(changes)
}

/// The patch without the shell's quoting that some models put around it.
fn unwrapped(input: &str) -> &str {
    let text = input.trim();
    let Some((first, rest)) = text.split_once('\n') else { return text };
    let Some((_, word)) = first.split_once("<<") else { return text };
    let word = word.trim().trim_start_matches('-').trim_matches(['\'', '"']);
    let inner = rest.trim_end().strip_suffix(word);
    match inner {
        Some(inner) if !word.is_empty() && rest.trim_start().starts_with("***") => inner.trim(),
        _ => text,
    }
}

fn path_in(text: &str, reader: &Reader<'_>) -> Result<String, String> {
    let path = text.trim();
    if path.is_empty() {
        return Err(reader.wrong("a path is missing", None));
    }
    Ok(path.to_owned())
}

struct Reader<'a> {
    lines: Peekable<Lines<'a>>,
    number: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.number += 1;
        self.lines.next()
    }

    fn wrong(&self, expected: &str, found: Option<&str>) -> String {
        let found = found.map_or(String::new(), |found| format!("; this is there: {found:?}"));
        format!("line {} of the patch: {expected}{found}", self.number)
    }

    /// Whether what follows belongs to the same file.
    fn goes_on(&mut self) -> bool {
        self.lines.peek().is_some_and(|line| !line.starts_with("*** ") || is_end_of_file(line))
    }

    /// The lines of a new file.
    fn added(&mut self) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        while self.goes_on() {
            let Some(line) = self.next() else { break };
            match line.strip_prefix('+') {
                Some(line) => lines.push(line.to_owned()),
                None if line.trim().is_empty() || is_end_of_file(line) => {}
                None => return Err(self.wrong("a line of a new file begins with `+`", Some(line))),
            }
        }
        Ok(lines)
    }

    fn update(&mut self, path: String) -> Result<Change, String> {
        let mut to = None;
        if let Some(target) = self.lines.peek().and_then(|line| line.strip_prefix(MOVE)) {
            self.next();
            to = Some(path_in(target, self)?);
        }
        let mut hunks = Vec::new();
        while self.goes_on() {
            let hunk = self.hunk()?;
            if !hunk.lines.is_empty() {
                hunks.push(hunk);
            }
        }
        if hunks.is_empty() && to.is_none() {
            return Err(self.wrong(&format!("no change follows for {path}"), None));
        }
        Ok(Change::Update { path, to, hunks })
    }

    fn hunk(&mut self) -> Result<Hunk, String> {
        let mut hunk = Hunk { at: self.number + 1, ..Hunk::default() };
        while let Some(header) = self.lines.peek().and_then(|line| line.strip_prefix("@@")) {
            self.next();
            let header = header.trim();
            if !header.is_empty() && !are_numbers(header) {
                hunk.headers.push(header.to_owned());
            }
        }
        while self.goes_on() {
            if self.lines.peek().is_some_and(|line| line.starts_with("@@")) {
                break;
            }
            let Some(line) = self.next() else { break };
            if is_end_of_file(line) {
                hunk.at_end = true;
                break;
            }
            let mut rest = line.chars();
            let mark = match rest.next() {
                None | Some(' ') => Mark::Keep,
                Some('-') => Mark::Remove,
                Some('+') => Mark::Add,
                Some(_) => {
                    let expected = "a line of a change begins with ` `, `-`, `+` or `@@`";
                    return Err(self.wrong(expected, Some(line)));
                }
            };
            hunk.lines.push((mark, rest.as_str().to_owned()));
        }
        Ok(hunk)
    }
}

fn is_end_of_file(line: &str) -> bool {
    line.trim_end() == END_OF_FILE
}

/// Whether a header is the `-1,3 +1,4 @@` of another format, which says nothing
/// here.
fn are_numbers(header: &str) -> bool {
    let mut words = header.split_whitespace();
    let number = |word: Option<&str>, sign: char| {
        let digits = |text: &str| text.chars().all(|one| one.is_ascii_digit() || one == ',');
        word.and_then(|word| word.strip_prefix(sign)).is_some_and(digits)
    };
    number(words.next(), '-') && number(words.next(), '+')
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
