//! A conversation as providers want it: strictly in turns, without what cannot
//! be sent, every call and its result under a name of their own.
//!
//! What is left out depends on one message alone, never on later ones. So the
//! turns of a conversation stay the same while it grows, and a provider finds
//! them in its cache.

use cofferdam_model::Wire;
use cofferdam_types::{Block, Content, Message, Seal, ToolCall, ToolResult};

use crate::ids::Ids;

/// What one side says before the other does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn<'a> {
    /// The user's side: results first, as providers demand.
    User { results: Vec<Answered<'a>>, content: Vec<&'a Content> },
    /// The model's.
    Model { parts: Vec<Part<'a>> },
}

/// A result, and the name under which it is sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answered<'a> {
    pub(crate) id: String,
    pub(crate) result: &'a ToolResult,
}

/// What a model said, as far as it can be sent back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    /// Thinking with the wire's own seal.
    Thinking(&'a str, &'a Seal),
    /// A call, and the name under which it is sent.
    Call {
        id: String,
        call: &'a ToolCall,
    },
}

/// The turns of a conversation on a wire.
pub(crate) fn turns(messages: &[Message], wire: Wire) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut ids = Ids::new(wire);
    for message in messages {
        match message {
            Message::User { content } => hear(&mut turns, Vec::new(), content),
            Message::Tools { results } => {
                let answered = |result| Answered { id: ids.of_result(result), result };
                let results = results.iter().map(answered).collect();
                hear(&mut turns, results, &[]);
            }
            Message::Model { blocks } => {
                if !matches!(turns.last(), Some(Turn::Model { .. })) {
                    ids.begin_turn();
                }
                let parts = sendable(blocks, wire, &mut ids);
                match turns.last_mut() {
                    _ if parts.is_empty() => {}
                    Some(Turn::Model { parts: open }) => open.extend(parts),
                    _ => turns.push(Turn::Model { parts }),
                }
            }
        }
    }
    turns
}

/// Adds to the user's open turn, or begins one.
fn hear<'a>(turns: &mut Vec<Turn<'a>>, new_results: Vec<Answered<'a>>, new: &'a [Content]) {
    let new = new.iter().filter(|content| !is_blank(content));
    if let Some(Turn::User { results, content }) = turns.last_mut() {
        results.extend(new_results);
        content.extend(new);
        return;
    }
    let turn = Turn::User { results: new_results, content: new.collect() };
    if turn != (Turn::User { results: Vec::new(), content: Vec::new() }) {
        turns.push(turn);
    }
}

/// The blocks that the wire takes back: no blank text, no thinking but its own,
/// and none at the end, where nothing follows from it.
fn sendable<'a>(blocks: &'a [Block], wire: Wire, ids: &mut Ids<'a>) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'_>> =
        blocks.iter().filter_map(|block| sendable_part(block, wire, ids)).collect();
    let kept = parts.iter().rposition(|part| !matches!(part, Part::Thinking(..)));
    parts.truncate(kept.map_or(0, |last| last + 1));
    parts
}

fn sendable_part<'a>(block: &'a Block, wire: Wire, ids: &mut Ids<'a>) -> Option<Part<'a>> {
    match block {
        Block::Text { text } => (!text.trim().is_empty()).then_some(Part::Text(text)),
        Block::Thinking { text, seal: Some(seal) } if seal.wire == wire.name() => {
            Some(Part::Thinking(text, seal))
        }
        Block::Thinking { .. } => None,
        Block::ToolCall(call) => Some(Part::Call { id: ids.of_call(call), call }),
    }
}

/// Whether there is nothing to see: providers refuse empty text.
pub(crate) fn is_blank(content: &Content) -> bool {
    matches!(content, Content::Text { text } if text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinking(wire: &str) -> Block {
        let seal = Seal { wire: wire.to_owned(), data: "{}".to_owned() };
        Block::Thinking { text: wire.to_owned(), seal: Some(seal) }
    }

    fn text(text: &str) -> Block {
        Block::Text { text: text.to_owned() }
    }

    #[test]
    fn both_sides_speak_in_turns() {
        let messages = [
            Message::user("a"),
            Message::user(" "),
            Message::user("b"),
            Message::Model { blocks: vec![text("c")] },
            Message::Model { blocks: vec![text("d")] },
            // An answer of nothing: what stands before and after it are one turn.
            Message::user("e"),
            Message::Model { blocks: vec![text("\n"), thinking("messages")] },
            Message::user("f"),
        ];
        let turns = turns(&messages, Wire::Messages);
        let shape: Vec<_> = turns
            .iter()
            .map(|turn| match turn {
                Turn::User { content, .. } => ("user", content.len()),
                Turn::Model { parts } => ("model", parts.len()),
            })
            .collect();
        assert_eq!(shape, [("user", 2), ("model", 2), ("user", 2)]);
    }

    #[test]
    fn only_the_wires_own_thinking_is_sent_back_and_never_as_the_last() {
        let blocks = [thinking("responses"), thinking("messages"), text("a"), thinking("messages")];
        let [Block::Thinking { seal: Some(seal), .. }] = &blocks[1..2] else { panic!() };
        let expected = vec![Part::Thinking("messages", seal), Part::Text("a")];
        let sendable = |wire| sendable(&blocks, wire, &mut Ids::new(wire));
        assert_eq!(sendable(Wire::Messages), expected);
        assert_eq!(sendable(Wire::Chat), [Part::Text("a")]);
    }
}
