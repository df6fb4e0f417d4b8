//! The terminal, written to: text that only ever grows downwards, and one status
//! line below it that is redrawn in place.
//!
//! Between two writings the cursor rests at the end of the text: the status line
//! is in the row below it, or in the same row if the text's last line is ended.
//! Erasing from the cursor to the end of the screen therefore removes the status
//! line and nothing else, even when the terminal has wrapped it at a new width.
//! No row is ever filled to its last cell, so where the cursor is, is known.

use crate::line::{Line, Overflow, RESET, Tone};
use crate::text::{cells, cells_of, cut};

/// Erases everything from the cursor on.
const ERASE_BELOW: &str = "\u{1b}[J";

/// What stands at the beginning of every row of a paragraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Margin {
    pub(crate) indent: usize,
    pub(crate) sign: &'static str,
}

/// The terminal.
#[derive(Debug)]
pub(crate) struct Page {
    width: usize,
    colour: bool,
    /// Bytes to be written.
    out: String,
    /// Cells of the text's last row that are used.
    column: usize,
    /// The end of the last row that may have to move to the next one.
    word: String,
    /// Line breaks that are written when more text follows.
    breaks: usize,
    /// Whether the terminal may have moved the text since.
    resized: bool,
    /// The status line that is on the screen.
    status: Option<String>,
}

impl Page {
    pub(crate) fn new(width: u16, colour: bool) -> Self {
        Self {
            width: usable(width),
            colour,
            out: String::new(),
            column: 0,
            word: String::new(),
            breaks: 0,
            resized: false,
            status: None,
        }
    }

    /// The cells of a row that are used.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn resize(&mut self, width: u16) {
        self.width = usable(width);
        self.resized = true;
    }

    /// What is to be written now.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Writes a whole line.
    pub(crate) fn line(&mut self, line: &Line) {
        self.end_line();
        let indent = self.indent(line.indent);
        match line.overflow {
            Overflow::Cut => {
                self.begin_row(indent, "");
                for (tone, text) in line.fitting(self.width - indent) {
                    self.toned(tone, &text);
                }
                self.break_row();
            }
            Overflow::Wrap => {
                let margin = Margin { indent, sign: "" };
                for (tone, text) in line.spans() {
                    self.flow(margin, *tone, text);
                }
                self.end_line();
            }
        }
    }

    /// Writes an empty line.
    pub(crate) fn gap(&mut self) {
        self.end_line();
        self.erase_status();
        self.out.push_str("\r\n");
    }

    /// Writes more of a paragraph of tame text, wrapped between words.
    pub(crate) fn flow(&mut self, margin: Margin, tone: Tone, text: &str) {
        self.settle();
        self.tone_on(tone);
        for character in text.chars() {
            match character {
                '\n' if self.column > 0 => self.breaks += 1,
                // Empty lines before the beginning say nothing.
                '\n' => {}
                _ => self.put(margin, character),
            }
        }
        self.tone_off(tone);
    }

    /// Ends the last line of the text, if it has begun.
    pub(crate) fn end_line(&mut self) {
        self.settle();
        self.breaks = 0;
        if self.column > 0 {
            self.break_row();
        }
    }

    /// Has the status line show this.
    pub(crate) fn draw_status(&mut self, text: &str) {
        self.settle();
        let text = cut(text, self.width);
        if self.status.as_ref() == Some(&text) {
            return;
        }
        self.erase_status();
        if self.column == 0 {
            self.toned(Tone::Faint, &text);
            self.out.push('\r');
        } else {
            self.out.push_str("\r\n");
            self.toned(Tone::Faint, &text);
            self.out.push_str(&format!("\r\u{1b}[A\u{1b}[{}C", self.column));
        }
        self.status = Some(text);
    }

    /// Removes the status line.
    pub(crate) fn erase_status(&mut self) {
        if self.status.take().is_some() {
            self.out.push_str(ERASE_BELOW);
        }
    }

    /// At a new width the terminal may have laid out the last row anew: where the
    /// cursor is in it is not known, so the text goes on in the next.
    fn settle(&mut self) {
        if std::mem::take(&mut self.resized) {
            self.erase_status();
            if self.column > 0 {
                self.break_row();
            }
        }
    }

    fn put(&mut self, margin: Margin, character: char) {
        let breaks = std::mem::take(&mut self.breaks);
        if breaks > 0 && self.column > 0 {
            self.break_row();
        }
        if breaks > 1 {
            self.out.push_str("\r\n");
        }
        let indent = self.indent(margin.indent);
        let start = indent + cells(margin.sign);
        let width = cells_of(character);
        if self.column > start && self.column + width > self.width {
            let moved = std::mem::take(&mut self.word);
            let moved_width = cells(&moved);
            let moves = character != ' ' && moved_width > 0 && start + moved_width < self.column;
            if moves {
                self.out.push_str(&format!("\u{1b}[{moved_width}D\u{1b}[K"));
            }
            self.break_row();
            if character == ' ' {
                return;
            }
            self.begin_row(indent, margin.sign);
            if moves {
                self.out.push_str(&moved);
                self.column += moved_width;
                self.word = moved;
            }
        }
        if self.column == 0 {
            self.begin_row(indent, margin.sign);
        }
        self.out.push(character);
        self.column += width;
        if character == ' ' {
            self.word.clear();
        } else {
            self.word.push(character);
        }
    }

    fn begin_row(&mut self, indent: usize, sign: &str) {
        self.erase_status();
        self.pad(indent);
        self.out.push_str(sign);
        self.column = indent + cells(sign);
        self.word.clear();
    }

    fn break_row(&mut self) {
        self.erase_status();
        self.out.push_str("\r\n");
        self.column = 0;
        self.word.clear();
    }

    fn pad(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    /// An indentation that leaves room for something.
    fn indent(&self, wanted: usize) -> usize {
        wanted.min(self.width / 2)
    }

    fn toned(&mut self, tone: Tone, text: &str) {
        self.tone_on(tone);
        self.out.push_str(text);
        self.tone_off(tone);
    }

    fn tone_on(&mut self, tone: Tone) {
        if self.colour {
            self.out.push_str(tone.code());
        }
    }

    fn tone_off(&mut self, tone: Tone) {
        if self.colour && tone != Tone::Plain {
            self.out.push_str(RESET);
        }
    }
}

/// The last cell of a row stays free: what a terminal does after filling it
/// differs from one to the next. A width of 0 is one that is not known.
fn usable(width: u16) -> usize {
    let width = if width == 0 { 80 } else { usize::from(width) };
    width.saturating_sub(1).max(2)
}
