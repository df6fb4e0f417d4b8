//! What the Sentry logs: bytes in, messages out.
//!
//! Each message is the first text of an object of JSON. Between a quote that begins such a
//! text and the one that ends it no quote stands without a backslash before it, and no line
//! ends: so nobody who names a file can end a message, or begin one. Objects are one a line
//! as a rule; the end of a line is written apart, so two may share one.
//!
//! Of a message that is longer than any that matters only the beginning is kept.

/// How a message begins.
const OPENING: &[u8] = b"{\"msg\":\"";

/// So much of a message is kept, and at most so many bytes more: three names and what is
/// around them, all of it bytes that had to be replaced.
const KEPT: usize = 48 << 10;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) text: String,
    /// There was more of it.
    pub(super) cut: bool,
}

/// Takes bytes apart.
#[derive(Debug, Default)]
pub(super) struct Messages {
    state: State,
    text: Vec<u8>,
    cut: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes of an opening were seen.
    Between(usize),
    Text,
    /// After a backslash.
    Escape,
    /// So many digits of a character's number are still to come.
    Number(u32, u32),
}

impl Default for State {
    fn default() -> Self {
        Self::Between(0)
    }
}

impl Messages {
    /// Takes the next byte; returns the message that it ends.
    pub(super) fn take(&mut self, byte: u8) -> Option<Message> {
        match self.state {
            State::Between(seen) => {
                let seen = match (OPENING.get(seen), OPENING.first()) {
                    (Some(next), _) if *next == byte => seen + 1,
                    (_, Some(first)) if *first == byte => 1,
                    _ => 0,
                };
                self.state = if seen == OPENING.len() { State::Text } else { State::Between(seen) };
            }
            State::Text => match byte {
                b'"' => {
                    self.state = State::default();
                    let text = std::mem::take(&mut self.text);
                    let text = String::from_utf8(text)
                        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into());
                    return Some(Message { text, cut: std::mem::take(&mut self.cut) });
                }
                b'\\' => self.state = State::Escape,
                other => self.keep(&[other]),
            },
            State::Escape => self.unescape(byte),
            State::Number(left, number) => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                let number = number << 4 | digit;
                self.state = State::Text;
                if left > 1 {
                    self.state = State::Number(left - 1, number);
                } else {
                    self.keep_character(
                        char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER),
                    );
                }
            }
        }
        None
    }

    fn unescape(&mut self, byte: u8) {
        self.state = State::Text;
        match byte {
            b'u' => self.state = State::Number(4, 0),
            b'n' => self.keep(b"\n"),
            b'r' => self.keep(b"\r"),
            b't' => self.keep(b"\t"),
            b'b' => self.keep(b"\x08"),
            b'f' => self.keep(b"\x0c"),
            itself => self.keep(&[itself]),
        }
    }

    fn keep_character(&mut self, character: char) {
        self.keep(character.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn keep(&mut self, bytes: &[u8]) {
        // Once something is missing nothing may follow it as if nothing were.
        self.cut |= self.text.len() >= KEPT;
        if !self.cut {
            self.text.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages(bytes: &[u8]) -> Vec<Message> {
        let mut messages = Messages::default();
        bytes.iter().filter_map(|byte| messages.take(*byte)).collect()
    }

    fn texts(bytes: &[u8]) -> Vec<String> {
        messages(bytes).into_iter().map(|message| message.text).collect()
    }

    /// As Go writes it: what is no UTF-8 was replaced before.
    fn object(text: &str) -> String {
        let mut escaped = String::new();
        for character in text.chars() {
            match character {
                '"' => escaped.push_str("\\\""),
                '\\' => escaped.push_str("\\\\"),
                '\n' => escaped.push_str("\\n"),
                '\u{0}'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' => {
                    escaped.push_str(&format!("\\u{:04x}", character as u32));
                }
                other => escaped.push(other),
            }
        }
        format!("{{\"msg\":\"{escaped}\",\"level\":\"info\",\"time\":\"2026-01-01T00:00:00Z\"}}")
    }

    #[test]
    fn objects_are_found_wherever_lines_end() {
        let two = format!("{}{}\n\n{}\n", object("a"), object("b"), object("c"));
        assert_eq!(texts(two.as_bytes()), ["a", "b", "c"]);
        let among =
            format!("unable to {{ read\n{}\n*** Dropped 3 ***\n{}", object("a"), object("b"));
        assert_eq!(texts(among.as_bytes()), ["a", "b"]);
        assert_eq!(texts(b"{{\"msg\":\"x\\ud800\\u003c\\/\\t\"}"), ["x\u{fffd}</\t"]);
    }

    #[test]
    fn of_a_long_message_the_beginning_is_kept() {
        let long = object(&"x".repeat(5 << 20)) + &object("next");
        let found = messages(long.as_bytes());
        assert_eq!((found[0].text.len(), found[0].cut), (KEPT, true));
        assert_eq!((found[1].text.as_str(), found[1].cut), ("next", false));
    }

    proptest! {
        #[test]
        fn no_text_ends_its_message_or_begins_another(
            texts in prop::collection::vec("(\\PC|[\"{}\\\\\n\u{0}-\u{1f}]|\\{\"msg\":\"){0,40}", 0..5)
        ) {
            let all: String = texts.iter().map(|text| object(text) + "\n").collect();
            prop_assert_eq!(super::tests::texts(all.as_bytes()), texts);
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            messages(&bytes);
            messages(&[OPENING, &bytes].concat());
        }
    }
}
