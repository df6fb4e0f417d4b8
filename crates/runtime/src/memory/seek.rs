//! The places in one long event that fit some words: a paste or an output that is larger
//! than anybody can read is looked through piece by piece.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

use cofferdam_recall::{Words, asked, excerpt};
use cofferdam_types::{ToolOutput, ToolStatus};

use super::Memory;
use super::original::{Body, Original, failed};
use super::window::SHOWN;

/// Lines and bytes of a piece.
const LINES: usize = 30;
const BYTES: usize = 3_000;

/// Lines that are shown of a piece, and those above its best one.
const AROUND: usize = 8;
const ABOVE: usize = 2;

/// Bytes of a line; of a longer one only what fits is shown.
const LONGEST_LINE: usize = 500;

/// Bytes of an event that are looked through: no output that is kept has more.
const LARGEST: u64 = 32 << 20;

/// A piece of a text.
struct Piece<'a> {
    /// Its first line, from 1, and where in that it begins.
    line: u64,
    byte: u64,
    text: &'a str,
    score: usize,
}

impl Memory {
    /// The places in an event that fit these words.
    pub(super) async fn seek(&self, id: u64, query: &str, limit: usize) -> ToolOutput {
        let Original { title, body, .. } = match self.original(id).await {
            Ok(original) => original,
            Err(reason) => return failed(&reason),
        };
        let words = asked(query);
        let looking = tokio::task::spawn_blocking(move || {
            let text = match body {
                Body::Text(text) => text,
                Body::Kept(file) => all(file)?,
            };
            Ok::<_, io::Error>(places(id, &title, &text, &words, limit))
        });
        match looking.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(text) => ToolOutput::text(ToolStatus::Done, text),
            Err(error) => failed(&format!("#{id} cannot be read: {error}")),
        }
    }
}

fn all(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).replace('\0', "␀"))
}

fn places(id: u64, title: &str, text: &str, words: &Words, limit: usize) -> String {
    let mut pieces = pieces(text);
    let all = pieces.len();
    for piece in &mut pieces {
        piece.score = score(piece.text, words);
    }
    pieces.retain(|piece| piece.score > 0);
    pieces.sort_by_key(|piece| (Reverse(piece.score), piece.line, piece.byte));
    let fitting = pieces.len();
    let mut told = format!(
        "{title}: {} bytes; {fitting} of {all} pieces have some of these words\n",
        text.len()
    );
    for piece in pieces.iter().take(limit) {
        let (line, byte, lines) = best(piece, words);
        let at = match byte {
            0 => format!("offset {line}"),
            byte => format!("offset {line}, byte {byte}"),
        };
        let shown = format!("\nid {id}, {at}:\n{}\n", indented(&lines));
        if told.len() + shown.len() > SHOWN {
            break;
        }
        told.push_str(&shown);
    }
    writeln!(told, "\n[`recall` with that id and offset reads on from there]").ok();
    told
}

/// The best line of a piece with some around it, and where they begin: a line, and a byte
/// within.
fn best(piece: &Piece<'_>, words: &Words) -> (u64, u64, String) {
    let lines: Vec<&str> = piece.text.lines().collect();
    // Of those that fit the same, the first.
    let best = (0..lines.len()).max_by_key(|at| {
        let line = lines.get(*at).copied().unwrap_or_default();
        (score(line, words), Reverse(*at))
    });
    let first = best.unwrap_or(0).saturating_sub(ABOVE);
    let around = lines.get(first..).unwrap_or_default().iter().take(AROUND);
    if lines.iter().any(|line| line.len() > LONGEST_LINE) {
        return (piece.line, piece.byte, excerpt(piece.text, words));
    }
    let byte = if first == 0 { piece.byte } else { 0 };
    let around: Vec<&str> = around.copied().collect();
    (piece.line + first as u64, byte, around.join("\n"))
}

/// How well a piece fits: names count twice.
fn score(text: &str, words: &Words) -> usize {
    let lower = text.to_lowercase();
    let joined: String = lower.chars().filter(|c| !matches!(c, '_' | '-')).collect();
    let count = |words: &[String]| {
        words.iter().filter(|word| lower.contains(*word) || joined.contains(*word)).count()
    };
    2 * count(&words.names) + count(&words.words)
}

/// A text in pieces, which together are all of it.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut rest, mut line, mut byte) = (text, 1, 0);
    while !rest.is_empty() {
        let most = rest.get(..rest.floor_char_boundary(BYTES)).unwrap_or(rest);
        let ends = most.match_indices('\n').map(|(at, _)| at + 1);
        let end = ends.take(LINES).last().unwrap_or(most.len()).max(1);
        let (piece, after) = rest.split_at(end);
        pieces.push(Piece { line, byte, text: piece, score: 0 });
        let newlines = piece.bytes().filter(|byte| *byte == b'\n').count() as u64;
        line += newlines;
        byte = if newlines > 0 { 0 } else { byte + piece.len() as u64 };
        rest = after;
    }
    pieces
}

/// Lines of somebody else, set apart from ours.
pub(super) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  | {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_in_a_long_paste_is_found() {
        let mut text = "nothing of note here\n".repeat(5_000);
        text.push_str("the retry_limit of the importer is 17\n");
        text.push_str(&"nor here\n".repeat(5_000));
        let told = places(1, "#1: the task", &text, &asked("retryLimit importer"), 3);
        assert!(told.contains("retry_limit of the importer is 17"), "{told}");
        assert!(told.contains("1 of "), "{told}");
        // Where it says the place is, the place is.
        let offset = told.split("offset ").nth(1).unwrap();
        let offset: usize = offset.split(':').next().unwrap().parse().unwrap();
        let there: Vec<&str> = text.lines().skip(offset - 1).take(LINES).collect();
        assert!(there.iter().any(|line| line.contains("retry_limit")), "{offset}");
    }

    #[test]
    fn pieces_are_all_of_a_text_however_long_its_lines_are() {
        let text = format!("{}\nshort\n{}", "ü".repeat(9_000), "y".repeat(100));
        let pieces = pieces(&text);
        let joined: String = pieces.iter().map(|piece| piece.text).collect();
        assert_eq!(joined, text);
        for piece in &pieces {
            let line = text.lines().nth(usize::try_from(piece.line).unwrap() - 1).unwrap();
            let from = line.get(usize::try_from(piece.byte).unwrap()..).unwrap();
            assert!(from.starts_with(piece.text.lines().next().unwrap()));
        }
        assert!(pieces.len() > 4);
    }

    #[test]
    fn words_that_are_not_there_are_found_nowhere() {
        let told = places(4, "#4: output", "alpha\nbeta\n", &asked("gamma"), 3);
        assert!(told.contains("0 of 1 pieces"), "{told}");
    }
}
