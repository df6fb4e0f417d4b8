//! A conversation as providers want it: strictly in turns, without what cannot
//! be sent.
//!
//! What is left out depends on one message alone, never on later ones. So the
//! turns of a conversation stay the same while it grows, and a provider finds
//! them in its cache.

use cofferdam_types::{Block, Content, Message, Seal, ToolResult};

use cofferdam_model::Wire;

/// What one side says before the other does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn<'a> {
    /// The user's side: results first, as providers demand.
    User { results: Vec<&'a ToolResult>, content: Vec<&'a Content> },
    /// The model's.
    Model { parts: Vec<Part<'a>> },
}

/// What a model said, as far as it can be sent back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    /// Thinking with the wire's own seal.
    Thinking(&'a str, &'a Seal),
    Call(&'a cofferdam_types::ToolCall),
}

/// The turns of a conversation on a wire.
pub(crate) fn turns(messages: &[Message], wire: Wire) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages {
        match message {
            Message::User { content } => hear(&mut turns, &[], content),
            Message::Tools { results } => hear(&mut turns, results, &[]),
            Message::Model { blocks } => {
                let parts = sendable(blocks, wire);
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
fn hear<'a>(turns: &mut Vec<Turn<'a>>, new_results: &'a [ToolResult], new: &'a [Content]) {
    let new = new.iter().filter(|content| !is_blank(content));
    if let Some(Turn::User { results, content }) = turns.last_mut() {
        results.extend(new_results);
        content.extend(new);
        return;
    }
    let (results, content) = (new_results.iter().collect(), new.collect());
    let turn = Turn::User { results, content };
    if turn != (Turn::User { results: Vec::new(), content: Vec::new() }) {
        turns.push(turn);
    }
}

/// The blocks that the wire takes back: no blank text, no thinking but its own,
/// and none at the end, where nothing follows from it.
fn sendable(blocks: &[Block], wire: Wire) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> =
        blocks.iter().filter_map(|block| sendable_part(block, wire)).collect();
    let kept = parts.iter().rposition(|part| !matches!(part, Part::Thinking(..)));
    parts.truncate(kept.map_or(0, |last| last + 1));
    parts
}

fn sendable_part(block: &Block, wire: Wire) -> Option<Part<'_>> {
    match block {
        Block::Text { text } => (!text.trim().is_empty()).then_some(Part::Text(text)),
        Block::Thinking { text, seal: Some(seal) } if seal.wire == wire.name() => {
            Some(Part::Thinking(text, seal))
        }
        Block::Thinking { .. } => None,
        Block::ToolCall(call) => Some(Part::Call(call)),
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
        assert_eq!(sendable(&blocks, Wire::Messages), expected);
        assert_eq!(sendable(&blocks, Wire::Chat), [Part::Text("a")]);
    }
}
