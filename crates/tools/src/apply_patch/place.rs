//! Putting a change into the lines of a file.
//!
//! Lines are compared exactly first, then without the white space at their ends,
//! then without any around them, then with plain quotes and dashes: never more
//! loosely. Lines that are kept stay as the file has them, byte for byte.

use crate::cut::readable;
use crate::edit_file::nearest::{explain, plain_punctuation};

use super::parse::{Hunk, Mark};

/// How loosely lines are compared, the strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    Exact,
    TrimmedEnd,
    Trimmed,
    Punctuation,
}

const LIKENESSES: [Likeness; 4] =
    [Likeness::Exact, Likeness::TrimmedEnd, Likeness::Trimmed, Likeness::Punctuation];

impl Likeness {
    fn holds(self, have: &[u8], wanted: &str) -> bool {
        let have = have.strip_suffix(b"\r").unwrap_or(have);
        if self == Self::Exact {
            return have == wanted.as_bytes();
        }
        let have = String::from_utf8_lossy(have);
        match self {
            Self::Exact => false,
            Self::TrimmedEnd => have.trim_end() == wanted.trim_end(),
            Self::Trimmed => have.trim() == wanted.trim(),
            Self::Punctuation => {
                plain_punctuation(&have).trim() == plain_punctuation(wanted).trim()
            }
        }
    }
}

/// The content of a file with the hunks put in, one after the other.
pub(super) fn apply(content: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, String> {
    let had_end = content.is_empty() || content.ends_with(b"\n");
    let lines = crate::lines::split(content);
    let crlf = lines.iter().filter(|line| line.ends_with(b"\r")).count() * 2 > lines.len();
    let mut result: Vec<Vec<u8>> = Vec::with_capacity(lines.len());
    let mut done = 0;
    let mut new_at_end = false;
    for (number, hunk) in (1..).zip(hunks) {
        let place = find(&lines, hunk, done)
            .map_err(|reason| format!("hunk {number} (line {} of the patch): {reason}", hunk.at))?;
        result.extend(lines.get(done..place.start).unwrap_or_default().iter().map(|l| l.to_vec()));
        let mut at = place.start;
        for (mark, line) in hunk.lines.iter().take(place.lines) {
            match mark {
                Mark::Add => {
                    let mut line = line.clone().into_bytes();
                    if crlf {
                        line.push(b'\r');
                    }
                    result.push(line);
                }
                Mark::Keep => {
                    result.extend(lines.get(at).map(|line| line.to_vec()));
                    at += 1;
                }
                Mark::Remove => at += 1,
            }
            new_at_end = *mark != Mark::Keep && at >= lines.len();
        }
        done = at;
    }
    let rest = lines.get(done..).unwrap_or_default();
    new_at_end &= rest.is_empty();
    result.extend(rest.iter().map(|line| line.to_vec()));
    let mut bytes = result.join(&b'\n');
    if !result.is_empty() && (had_end || new_at_end) {
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// Where a hunk goes, and how many of its lines count.
struct Place {
    start: usize,
    lines: usize,
}

fn find(file: &[&[u8]], hunk: &Hunk, from: usize) -> Result<Place, String> {
    let mut from = from;
    for header in &hunk.headers {
        let found =
            seek(file, &[header.as_str()], from, false).or_else(|| containing(file, header, from));
        from = found.ok_or_else(|| missing(file, &[header.as_str()], from, "`@@` line"))? + 1;
    }
    let old = hunk.old();
    if old.is_empty() {
        // Nothing says where: after the header, or at the end.
        let start = if hunk.headers.is_empty() || hunk.at_end { file.len() } else { from };
        return Ok(Place { start, lines: hunk.lines.len() });
    }
    // A header may itself be the first line of what follows.
    let earlier = from.saturating_sub(usize::from(!hunk.headers.is_empty()));
    let found =
        seek(file, &old, from, hunk.at_end).or_else(|| seek(file, &old, earlier, hunk.at_end));
    if let Some(start) = found {
        return Ok(Place { start, lines: hunk.lines.len() });
    }
    // An empty last line is often only how the patch was written.
    if let (Some((Mark::Keep, last)), Some((_, shorter))) = (hunk.lines.last(), old.split_last())
        && last.is_empty()
        && !shorter.is_empty()
        && let Some(start) = seek(file, shorter, from, hunk.at_end)
    {
        return Ok(Place { start, lines: hunk.lines.len() - 1 });
    }
    Err(missing(file, &old, from, "text"))
}

/// Where lines are, from a line on.
fn seek(file: &[&[u8]], wanted: &[&str], from: usize, at_end: bool) -> Option<usize> {
    let last = file.len().checked_sub(wanted.len())?;
    let fits = |start: usize, likeness: Likeness| {
        let there = file.get(start..).unwrap_or_default();
        wanted.iter().zip(there).all(|(wanted, have)| likeness.holds(have, wanted))
    };
    for likeness in LIKENESSES {
        if at_end && last >= from && fits(last, likeness) {
            return Some(last);
        }
        if let Some(start) = (from..=last).find(|start| fits(*start, likeness)) {
            return Some(start);
        }
    }
    None
}

/// The line that holds a header that is only a part of it.
fn containing(file: &[&[u8]], header: &str, from: usize) -> Option<usize> {
    let holds = |line: &&[u8]| memchr::memmem::find(line, header.as_bytes()).is_some();
    file.iter().skip(from).position(holds).map(|at| from + at)
}

/// Says what the file has in the place of what was wanted.
fn missing(file: &[&[u8]], wanted: &[&str], from: usize, what: &str) -> String {
    if from > 0
        && let Some(start) = seek(file, wanted, 0, false)
    {
        return format!(
            "its {what} is at line {}, before the place of the hunk before it; \
             hunks must come in the order of the file",
            start + 1
        );
    }
    let text = readable(&file.join(&b'\n'));
    format!("its {what} is not in the file; {}", explain(&text, &wanted.join("\n")))
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
