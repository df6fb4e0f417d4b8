//! A part of a text that may be too long to show: by lines, and within a line that is
//! too long itself by bytes. Only the part is held.

use std::io::{self, BufRead};

/// Bytes that are shown at once.
pub(super) const SHOWN: usize = 12_000;

/// Which part is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The first line, from 1.
    pub(super) line: u64,
    /// So many lines at most.
    pub(super) lines: u64,
    /// Where in the first line to begin, from 0.
    pub(super) byte: Option<u64>,
}

impl Range {
    /// The range, if there is sense in it.
    pub(super) fn sound(self) -> Result<Self, String> {
        if self.lines == 0 {
            return Err("`limit` must be at least 1".to_owned());
        }
        Ok(self)
    }
}

/// A part of a text.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The part.
    pub(super) text: String,
    /// The last line of it that is there, at least in part.
    pub(super) last: u64,
    /// Where it goes on: a line, and a byte within.
    pub(super) next: Option<(u64, u64)>,
    /// Lines and bytes of the whole text.
    pub(super) lines: u64,
    pub(super) bytes: u64,
}

/// The part of a text that is wanted.
pub(super) fn window(reader: &mut impl BufRead, range: Range) -> io::Result<Window> {
    let mut taking = Taking {
        range,
        out: Vec::new(),
        line_begins: 0,
        line: 1,
        byte: 0,
        done: false,
        window: Window::default(),
    };
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() {
            break;
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(part.len(), |end| end + 1);
        taking.take(part.get(..length).unwrap_or_default());
        reader.consume(length);
    }
    Ok(taking.finish())
}

struct Taking {
    range: Range,
    out: Vec<u8>,
    /// Where the present line begins in `out`.
    line_begins: usize,
    line: u64,
    /// Bytes of the present line so far.
    byte: u64,
    done: bool,
    window: Window,
}

impl Taking {
    /// Takes a line or a part of one.
    fn take(&mut self, piece: &[u8]) {
        if self.line >= self.range.line && !self.done {
            self.show(piece);
        }
        self.window.bytes += piece.len() as u64;
        self.byte += piece.len() as u64;
        if piece.ends_with(b"\n") {
            self.line += 1;
            self.byte = 0;
            self.line_begins = self.out.len();
        }
    }

    fn show(&mut self, piece: &[u8]) {
        if self.line - self.range.line >= self.range.lines {
            self.stop_at(self.line, 0);
            return;
        }
        let first = self.line == self.range.line;
        let skipped = if first { self.range.byte.unwrap_or(0) } else { 0 };
        let skipped = usize::try_from(skipped.saturating_sub(self.byte)).unwrap_or(usize::MAX);
        let Some(wanted) = piece.get(skipped..).filter(|wanted| !wanted.is_empty()) else { return };
        let room = SHOWN.saturating_sub(self.out.len());
        if wanted.len() <= room {
            self.out.extend_from_slice(wanted);
            self.window.last = self.line;
            return;
        }
        if self.line_begins > 0 {
            // The line is shown whole the next time.
            self.out.truncate(self.line_begins);
            self.stop_at(self.line, 0);
            return;
        }
        let fits = |end: &usize| wanted.get(*end).is_none_or(|byte| byte & 0xc0 != 0x80);
        let end = (0..=room).rev().find(fits).unwrap_or(0);
        self.out.extend_from_slice(wanted.get(..end).unwrap_or_default());
        self.window.last = self.line;
        self.stop_at(self.line, self.byte + (skipped + end) as u64);
    }

    fn stop_at(&mut self, line: u64, byte: u64) {
        self.window.next = Some((line, byte));
        self.done = true;
    }

    fn finish(mut self) -> Window {
        self.window.lines = self.line - u64::from(self.byte == 0);
        let text = String::from_utf8_lossy(&self.out);
        // Some providers refuse it.
        self.window.text = text.replace('\0', "␀");
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, line: u64, lines: u64, byte: Option<u64>) -> Window {
        // A small buffer, so that lines come in pieces.
        let mut reader = io::BufReader::with_capacity(7, text.as_bytes());
        window(&mut reader, Range { line, lines, byte }).unwrap()
    }

    #[test]
    fn lines_are_taken_from_anywhere() {
        let text = "one is long\ntwo\nthree";
        let all = of(text, 1, u64::MAX, None);
        assert_eq!((all.text.as_str(), all.next, all.lines, all.bytes), (text, None, 3, 21));
        let some = of(text, 2, 1, None);
        assert_eq!((some.text.as_str(), some.last, some.next), ("two\n", 2, Some((3, 0))));
        let last = of(text, 3, 9, None);
        assert_eq!((last.text.as_str(), last.last, last.next), ("three", 3, None));
        let none = of(text, 4, 9, None);
        assert_eq!((none.text.as_str(), none.last, none.next), ("", 0, None));
        assert_eq!(of("", 1, 9, None).lines, 0);
    }

    #[test]
    fn a_text_read_on_and_on_is_the_whole_text() {
        let long = "ä".repeat(20_000);
        let text = format!("{}short\n{long}\n{}end", "some words\n".repeat(3_000), "x\n".repeat(9));
        let (mut read, mut line, mut byte) = (String::new(), 1, 0);
        let mut times = 0;
        loop {
            let part = of(&text, line, u64::MAX, Some(byte));
            assert!(part.text.len() <= SHOWN && !part.text.contains('\u{fffd}'));
            read.push_str(&part.text);
            times += 1;
            match part.next {
                Some(next) => (line, byte) = next,
                None => break,
            }
        }
        assert_eq!(read, text);
        assert!(times < 12, "{times}");
    }

    #[test]
    fn a_byte_is_counted_within_its_line() {
        let text = "first\n0123456789\nlast";
        assert_eq!(of(text, 2, 1, Some(4)).text, "456789\n");
        assert_eq!(of(text, 2, 2, Some(400)).text, "last");
    }
}
