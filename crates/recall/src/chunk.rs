//! A text file in pieces: whole definitions where they can be told, paragraphs otherwise. The pieces together are the file, line by line.

use cofferdam_types::Timestamp;

use crate::grammar;
use crate::index::{Document, Source};
use crate::words::head;

/// Bytes of a file that is cut at all; larger ones are data.
pub const LARGEST_FILE: usize = 4 << 20;

/// Bytes of a line; a file with a longer one is data too.
const LONGEST_LINE: usize = 64 << 10;

/// Lines that a piece should have, and may have at most.
const WANTED: usize = 40;
const MOST: usize = 120;

/// Bytes of a piece, unless one line has more.
const LARGEST: usize = 16 << 10;

/// Bytes of the line that says what a piece is within.
const WITHIN: usize = 256;

/// Lines of a file that are numbered.
const MOST_LINES: usize = u32::MAX as usize;

/// How good it is to cut before a line.
const TOP: usize = 75;
const NESTED: usize = 50;
const PARAGRAPH: usize = 50;
const BLANK: usize = 25;
const END_OF_FILE: usize = 60;

/// Lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first line, from 1.
    pub first: u32,
    /// The last line.
    pub last: u32,
    /// The lines, each with its end.
    pub text: String,
    /// The line that begins the definition they are in the middle of; empty if they
    /// begin it themselves.
    pub within: String,
}

/// The documents of a file; none if it is no text.
#[must_use]
pub fn of_file(path: &str, content: &[u8], at: Timestamp) -> Vec<Document> {
    let document = |piece: Piece| Document {
        source: Source::File { path: path.to_owned(), first: piece.first, last: piece.last },
        at,
        files: vec![path.to_owned()],
        text: piece.text,
        before: piece.within,
    };
    pieces(path, content).into_iter().map(document).collect()
}

/// The pieces of a file; none if it is empty, too large, or no text.
#[must_use]
pub fn pieces(path: &str, content: &[u8]) -> Vec<Piece> {
    let Some(text) = text(content) else { return Vec::new() };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.len() > MOST_LINES || lines.iter().any(|line| line.len() > LONGEST_LINE) {
        return Vec::new();
    }
    let begins = grammar::begins(path, text);
    let worth = match &begins {
        Some(begins) => by_definitions(&lines, begins),
        None => by_paragraphs(&lines),
    };
    let mut tops = begins.unwrap_or_default();
    tops.retain(|begin| begin.depth == 0);
    let mut made = Vec::new();
    let mut first = 0;
    while first < lines.len() {
        let end = end_of_piece(&lines, &worth, first);
        made.push(piece(&lines, &tops, first, end));
        first = end;
    }
    made
}

fn text(content: &[u8]) -> Option<&str> {
    if content.is_empty() || content.len() > LARGEST_FILE || content.contains(&0) {
        return None;
    }
    std::str::from_utf8(content).ok()
}

fn piece(lines: &[&str], tops: &[grammar::Begin], first: usize, end: usize) -> Piece {
    let within = tops.partition_point(|top| top.line <= first).checked_sub(1);
    let within = within.and_then(|number| tops.get(number)).filter(|top| top.line < first);
    let within = within.and_then(|top| {
        // The comments above it are not what it is called.
        let begins = lines.get(top.line..first)?.iter().map(|line| line.trim());
        begins.into_iter().find(|line| line.starts_with(char::is_alphabetic))
    });
    let number = |line: usize| u32::try_from(line).unwrap_or(u32::MAX);
    Piece {
        first: number(first + 1),
        last: number(end),
        text: lines.get(first..end).unwrap_or_default().concat(),
        within: within.map_or("", |line| head(line, WITHIN)).to_owned(),
    }
}

/// The line before which it is best to end the piece that begins with `first`.
fn end_of_piece(lines: &[&str], worth: &[usize], first: usize) -> usize {
    let mut bytes = 0;
    let mut best = (0, first + 1);
    for (number, line) in lines.iter().enumerate().skip(first).take(MOST) {
        bytes += line.len();
        if bytes > LARGEST && number > first {
            break;
        }
        let end = number + 1;
        let worth = worth.get(end).copied().unwrap_or(END_OF_FILE);
        let length = end - first;
        // A definition that is somewhat long is better kept whole than cut.
        let off = if length > WANTED { (length - WANTED) / 2 } else { WANTED - length };
        let value = (MOST + worth).saturating_sub(off);
        if value >= best.0 {
            best = (value, end);
        }
    }
    best.1
}

fn by_definitions(lines: &[&str], begins: &[grammar::Begin]) -> Vec<usize> {
    let mut worth: Vec<usize> = by_paragraphs(lines).iter().map(|worth| worth / 2).collect();
    for begin in begins {
        let value = if begin.depth == 0 { TOP } else { NESTED };
        if let Some(worth) = worth.get_mut(begin.line) {
            *worth = value.max(*worth);
        }
    }
    worth
}

fn by_paragraphs(lines: &[&str]) -> Vec<usize> {
    let mut worth = vec![0; lines.len()];
    let mut after_blank = false;
    let mut paragraph = 0;
    for (line, worth) in lines.iter().zip(&mut worth) {
        let is_blank = line.trim().is_empty();
        if after_blank && !is_blank {
            let is_indented = line.starts_with([' ', '\t', '}', ')', ']']);
            // A line alone is a title, and goes with what follows it.
            let is_titled = paragraph == 1;
            *worth = if is_indented || is_titled { BLANK } else { PARAGRAPH };
            paragraph = 0;
        }
        paragraph += usize::from(!is_blank);
        after_blank = is_blank;
    }
    worth
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
