//! Foreign text made harmless: whatever a model, a tool, a file name or a server
//! says goes through here before it is shown.
//!
//! What comes out holds no control character but `\n`, and nothing that is
//! invisible or turns the order of characters around. So nobody but the view can
//! move the cursor, set a title, ring or recolour, wherever the text was split.
//!
//! Nothing that carries text is ever swallowed: somebody could hide a command in
//! it. Only whole CSI sequences go without a trace: they are in the output of most
//! programs (colours) and say nothing themselves. Every other control character is
//! shown as its picture (`␛`, `␇`), with what follows as text, and every invisible
//! or reordering character by its number (`⟨U+202E⟩`). A carriage return is the end
//! of a line, so that nothing can be overwritten.

use unicode_width::UnicodeWidthChar;

/// Parameters of a CSI sequence that are taken for one.
const LONGEST_SEQUENCE: usize = 64;

/// Columns from one tab stop to the next.
const TAB: usize = 8;

/// Characters without a width that may follow one another: accents, not towers.
const MARKS: usize = 4;

/// Where in a control sequence the text is.
#[derive(Clone, Debug, Default)]
enum Place {
    #[default]
    Text,
    /// After an ESC.
    Escape,
    /// After `ESC [`, with what came since.
    Sequence(String),
}

/// Tames a text that comes in pieces: what a piece means may depend on those
/// before it.
#[derive(Clone, Debug, Default)]
pub struct Tamer {
    place: Place,
    /// The beginning of a character that is not whole yet.
    bytes: Vec<u8>,
    previous: Option<char>,
    column: usize,
    marks: usize,
}

/// Tames a whole text.
#[must_use]
pub fn tame(text: &str) -> String {
    let mut tamer = Tamer::default();
    let mut tamed = tamer.text(text);
    tamed.push_str(&tamer.finish());
    tamed
}

/// Tames a whole text of several lines into one.
#[must_use]
pub fn tame_line(text: &str) -> String {
    let tamed = tame(text);
    if !tamed.contains('\n') {
        return tamed;
    }
    tamed.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ⏎ ")
}

impl Tamer {
    /// Tames the next piece.
    #[must_use]
    pub fn text(&mut self, text: &str) -> String {
        let mut tamed = String::with_capacity(text.len());
        for character in text.chars() {
            self.take(character, &mut tamed);
        }
        tamed
    }

    /// Tames the next piece of what should be UTF-8. A character may be split over
    /// pieces; what is not UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn bytes(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.extend_from_slice(piece);
        let mut rest = bytes.as_slice();
        let mut tamed = String::with_capacity(rest.len());
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => {
                    tamed.push_str(&self.text(text));
                    return tamed;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            tamed.push_str(&self.text(&String::from_utf8_lossy(valid)));
            let Some(length) = error.error_len() else {
                self.bytes = after.to_vec();
                return tamed;
            };
            self.take(char::REPLACEMENT_CHARACTER, &mut tamed);
            rest = after.get(length..).unwrap_or_default();
        }
    }

    /// What was held back because more might have come.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let mut tamed = String::new();
        if !std::mem::take(&mut self.bytes).is_empty() {
            self.take(char::REPLACEMENT_CHARACTER, &mut tamed);
        }
        self.give_up_sequence(&mut tamed);
        tamed
    }

    fn take(&mut self, character: char, tamed: &mut String) {
        match &mut self.place {
            Place::Text => {}
            Place::Escape if character == '[' => {
                self.place = Place::Sequence(String::new());
                return;
            }
            Place::Sequence(parameters) => match character {
                ' '..='?' if parameters.len() < LONGEST_SEQUENCE => {
                    parameters.push(character);
                    return;
                }
                '@'..='~' => {
                    self.place = Place::Text;
                    return;
                }
                _ => self.give_up_sequence(tamed),
            },
            Place::Escape => self.give_up_sequence(tamed),
        }
        self.take_text(character, tamed);
    }

    /// What looked like a control sequence is none that is known: it is shown.
    fn give_up_sequence(&mut self, tamed: &mut String) {
        match std::mem::take(&mut self.place) {
            Place::Text => {}
            Place::Escape => self.show("␛", tamed),
            Place::Sequence(parameters) => self.show(&format!("␛[{parameters}"), tamed),
        }
    }

    fn take_text(&mut self, character: char, tamed: &mut String) {
        let previous = self.previous.replace(character);
        match character {
            '\u{1b}' => self.place = Place::Escape,
            '\n' | '\r' if previous == Some('\r') => {
                // The end of the line has been written already. A line break after
                // any number of returns belongs to them.
                self.previous = (character == '\r').then_some('\r');
            }
            '\n' | '\r' => {
                tamed.push('\n');
                self.column = 0;
            }
            '\t' => {
                let spaces = TAB - self.column % TAB;
                tamed.extend(std::iter::repeat_n(' ', spaces));
                self.column += spaces;
            }
            '\0'..='\u{1f}' => self.show(picture(u32::from(character)).as_str(), tamed),
            '\u{7f}' => self.show("␡", tamed),
            _ => match look(character, previous) {
                Look::Itself => self.keep(character, tamed),
                Look::Number => {
                    self.show(&format!("⟨U+{:04X}⟩", u32::from(character)), tamed);
                }
                Look::Nothing => {}
            },
        }
    }

    fn keep(&mut self, character: char, tamed: &mut String) {
        let width = character.width().unwrap_or_default();
        self.marks = if width == 0 { self.marks + 1 } else { 0 };
        if self.marks <= MARKS {
            tamed.push(character);
            self.column += width;
        }
    }

    fn show(&mut self, text: &str, tamed: &mut String) {
        tamed.push_str(text);
        self.marks = 0;
        self.column += text.chars().count();
    }
}

/// The picture of a control character.
fn picture(code: u32) -> String {
    char::from_u32(0x2400 + code).map_or_else(String::new, String::from)
}

/// How a character is shown.
enum Look {
    Itself,
    /// By its number, because it would not be seen or would change what is seen.
    Number,
    /// Not at all: it only chooses between pictures of what is shown anyway.
    Nothing,
}

fn look(character: char, previous: Option<char>) -> Look {
    match character {
        // C1 controls; U+009B is another way to write `ESC [`.
        '\u{80}'..='\u{9f}'
        // Direction of writing, line and paragraph ends, invisible operators.
        | '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        // Letters and fillers that are blank.
        | '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
        // Tags and further variation selectors: whole texts have been hidden in them.
        | '\u{e0000}'..='\u{e0fff}' => Look::Number,
        // A mark at the very beginning says how the text is encoded.
        '\u{feff}' if previous.is_none() => Look::Nothing,
        '\u{feff}' => Look::Number,
        // Joiners belong into some scripts and emoji; elsewhere they hide.
        '\u{200c}' | '\u{200d}' if previous.is_some_and(|before| !before.is_ascii()) => {
            Look::Nothing
        }
        '\u{200c}' | '\u{200d}' => Look::Number,
        '\u{fe00}'..='\u{fe0f}' => Look::Nothing,
        _ => Look::Itself,
    }
}

#[cfg(test)]
#[path = "tame_tests.rs"]
mod tests;
