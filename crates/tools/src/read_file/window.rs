//! The lines of a file that are looked at: found without holding more of the file
//! than a window, and shown with their numbers.

use crate::encoding::Encoding;
use crate::lines::{self, count_lines};
use crate::trouble::Trouble;

use super::source::{Part, Source};

/// A file up to this size is read whole.
pub(super) const WHOLE: u64 = 1 << 20;

/// Bytes of a larger file that are looked at for lines to show.
const WINDOW: u64 = 256 << 10;

/// Bytes of a larger file that are searched for the first line to show.
const SEARCHED: u64 = 2 << 30;

/// Bytes of text that are shown.
const SHOWN: usize = 48 << 10;

/// A part of a file that begins with a line.
pub(super) struct Window {
    /// The number of that line.
    pub(super) first: u64,
    pub(super) text: String,
    /// Whether it reaches to the end of the file.
    pub(super) to_end: bool,
    /// How many lines the file has, if that is known.
    pub(super) lines: Option<u64>,
    pub(super) size: u64,
    pub(super) notes: Vec<String>,
}

/// The window at a line of a file that was read whole.
pub(super) fn of_whole(path: &str, bytes: &[u8], first: u64) -> Result<Window, Trouble> {
    let encoding = Encoding::of(bytes);
    let mut text = encoding.decode(bytes);
    let mut notes: Vec<String> = encoding.note().map(str::to_owned).into_iter().collect();
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    if text.contains("\r\n") {
        notes.push("lines end in CRLF".to_owned());
    }
    let lines = count_lines(text.as_bytes());
    let Some(start) = start_of(text.as_bytes(), first) else {
        return Err(beyond(path, first, lines));
    };
    let text = text.get(start..).unwrap_or_default().to_owned();
    let size = bytes.len() as u64;
    Ok(Window { first, text, to_end: true, lines: Some(lines), size, notes })
}

/// The window at a line of a large file, whose beginning was read.
pub(super) async fn of_large(
    path: &str,
    source: &Source,
    beginning: Part,
    first: u64,
) -> Result<Window, Trouble> {
    let size = beginning.size;
    let (mut part, mut offset, mut before) = (beginning.bytes, 0_u64, 0_u64);
    // Where the line begins.
    let start = loop {
        if part.is_empty() {
            return Err(beyond(path, first, before));
        }
        if let Some(start) = start_of(&part, first - before) {
            break offset + start as u64;
        }
        before += memchr::memchr_iter(b'\n', &part).count() as u64;
        offset += part.len() as u64;
        if offset > SEARCHED {
            return Err(Trouble::Failed(format!(
                "{path}: line {first} is not in the first {}; use bash for the rest",
                lines::size(SEARCHED)
            )));
        }
        part = source.read(offset, WHOLE).await?.bytes;
    };
    let part = source.read(start, WINDOW).await?;
    let to_end = start + part.bytes.len() as u64 >= part.size;
    let encoding = Encoding::of(&part.bytes);
    let mut notes: Vec<String> = encoding.note().map(str::to_owned).into_iter().collect();
    let text = encoding.decode(&part.bytes);
    if text.contains("\r\n") {
        notes.push("lines end in CRLF".to_owned());
    }
    Ok(Window { first, text, to_end, lines: None, size, notes })
}

fn beyond(path: &str, first: u64, lines: u64) -> Trouble {
    Trouble::Failed(format!("{path} has {lines} lines; there is no line {first}"))
}

/// Where a line begins, counted from 1, if it is there.
fn start_of(bytes: &[u8], line: u64) -> Option<usize> {
    if line <= 1 {
        return Some(0);
    }
    let end = memchr::memchr_iter(b'\n', bytes).nth(usize::try_from(line - 2).ok()?)?;
    (end + 1 < bytes.len()).then_some(end + 1)
}

impl Window {
    /// The lines with their numbers, and how to go on.
    pub(super) fn show(&self, limit: u64) -> String {
        let mut shown = String::new();
        let mut number = self.first;
        let mut rest = self.text.as_str();
        while !rest.is_empty() && number - self.first < limit && shown.len() < SHOWN {
            let (line, after) = match rest.split_once('\n') {
                Some((line, after)) => (line, after),
                // Cut by the window: it is shown when it is the first one.
                None if !self.to_end && number > self.first => break,
                None => (rest, ""),
            };
            shown.push_str(&lines::numbered(number, line.strip_suffix('\r').unwrap_or(line)));
            number += 1;
            rest = after;
        }
        let mut notes = self.notes.clone();
        if !self.to_end && number == self.first + 1 && !self.text.contains('\n') {
            notes.push("this line goes on; use bash, `cut -c` say, for the rest of it".to_owned());
        }
        if !(rest.is_empty() && self.to_end) {
            let (first, last) = (self.first, number - 1);
            let whole = match self.lines {
                Some(lines) => format!("of {lines}"),
                None => format!("of a file of {}", lines::size(self.size)),
            };
            notes.push(format!("lines {first} to {last} {whole}; go on with offset {number}"));
        }
        for note in notes {
            shown.push_str(&format!("[{note}]\n"));
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str, first: u64, limit: u64) -> String {
        of_whole("a", text.as_bytes(), first).map_or_else(
            |trouble| match trouble {
                Trouble::Failed(text) => text,
                other => panic!("{other:?}"),
            },
            |window| window.show(limit),
        )
    }

    #[test]
    fn lines_have_their_numbers_and_a_cut_says_how_to_go_on() {
        assert_eq!(show("a\nb\n", 1, 9), "     1\ta\n     2\tb\n");
        assert_eq!(show("a\nb\nc", 2, 1), "     2\tb\n[lines 2 to 2 of 3; go on with offset 3]\n");
        assert_eq!(show("a\nb\nc", 3, 1), "     3\tc\n");
        assert_eq!(show("a\n", 2, 1), "a has 1 lines; there is no line 2");
        assert_eq!(show("a\r\n\r\n", 1, 9), "     1\ta\n     2\t\n[lines end in CRLF]\n");
        assert_eq!(show("\u{feff}a", 1, 9), "     1\ta\n");
    }

    #[test]
    fn a_long_text_is_shown_up_to_a_size() {
        let text = format!("{}\n", "x".repeat(99)).repeat(1_000);
        let shown = show(&text, 1, 2_000);
        assert!(shown.len() < SHOWN + 300, "{}", shown.len());
        assert!(shown.ends_with("]\n"), "{shown}");
    }
}
