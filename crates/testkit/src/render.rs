//! Answers as events of a wire format.
//!
//! Each event knows which part of the answer it carries, so that a fault can be
//! put in the same place whatever the format.

mod chat;
mod messages;
mod responses;

use serde_json::Value;

use crate::script::{Dialect, ScriptedAnswer};

/// The size of a piece of a long text.
const PIECE: usize = 16 << 10;

/// What an event carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What frames the answer or one of its blocks.
    Frame,
    /// A piece of text.
    Text,
    /// A piece of a call's arguments.
    Arguments,
    /// Why the answer ends.
    Reason,
    /// That the answer has ended.
    Last,
}

/// One server-sent event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) part: Part,
    name: Option<String>,
    data: String,
}

impl Event {
    /// An event whose name is also the `type` in its data.
    fn typed(part: Part, data: &Value) -> Self {
        let name = data.get("type").and_then(Value::as_str).map(str::to_owned);
        Self { part, name, data: data.to_string() }
    }

    /// An event without a name.
    fn bare(part: Part, data: impl Into<String>) -> Self {
        Self { part, name: None, data: data.into() }
    }

    /// The event's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let name = self.name.as_ref().map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.data).into_bytes()
    }
}

/// An answer and what its format has to know of its request.
#[derive(Clone, Debug)]
pub(crate) struct Script<'a> {
    /// The number of the answer, from which its ids are made.
    pub(crate) number: usize,
    /// The model that was asked for.
    pub(crate) model: &'a str,
    pub(crate) answer: &'a ScriptedAnswer,
    /// The texts of the calls' arguments.
    pub(crate) arguments: Vec<String>,
}

impl Script<'_> {
    fn call_id(&self, place: usize) -> String {
        format!("call_{}_{place}", self.number)
    }

    /// The calls: id, tool and the text of the arguments.
    fn calls(&self) -> impl Iterator<Item = (String, &str, &str)> {
        let named = self.answer.calls.iter().zip(&self.arguments).enumerate();
        named.map(|(place, ((name, _), arguments))| {
            (self.call_id(place), name.as_str(), arguments.as_str())
        })
    }

    fn total_input(&self) -> u64 {
        self.answer.usage.read()
    }
}

/// The events of an answer.
pub(crate) fn events(dialect: Dialect, script: &Script<'_>) -> Vec<Event> {
    match dialect {
        Dialect::Messages => messages::events(script),
        Dialect::Responses => responses::events(script),
        Dialect::Chat => chat::events(script),
    }
}

/// The event that says that the provider is overloaded.
pub(crate) fn overloaded(dialect: Dialect) -> Event {
    match dialect {
        Dialect::Messages => messages::overloaded(),
        Dialect::Responses => responses::overloaded(),
        Dialect::Chat => chat::overloaded(),
    }
}

/// A sign of life that says nothing.
pub(crate) fn ping(dialect: Dialect) -> Vec<u8> {
    match dialect {
        Dialect::Messages => messages::ping().bytes(),
        Dialect::Responses | Dialect::Chat => b": keep-alive\n\n".to_vec(),
    }
}

/// A text in at least two pieces, if it has two characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let wanted = if pieces.is_empty() { PIECE.min(rest.len() / 2) } else { PIECE };
        let long_enough = |end: &usize| *end >= wanted;
        let ends = rest.char_indices().map(|(start, character)| start + character.len_utf8());
        let end = ends.into_iter().find(long_enough).unwrap_or(rest.len());
        let (piece, more) = rest.split_at(end);
        pieces.push(piece);
        rest = more;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_text_and_are_at_least_two() {
        for text in ["ab", "äöü", "{\"command\":\"echo\"}", &"é".repeat(40_000)] {
            let pieces = pieces(text);
            assert!(pieces.len() >= 2, "{text}");
            assert_eq!(pieces.concat(), text);
        }
        assert_eq!(pieces(""), [""; 0]);
    }
}
