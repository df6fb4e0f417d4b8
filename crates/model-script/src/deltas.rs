//! An answer that is known beforehand, taken apart into the pieces of a stream.
//!
//! [`cofferdam_model::Assembler`] makes the same answer of them again.

use cofferdam_model::Delta;
use cofferdam_types::{Answer, Block};

/// Characters of a call's arguments that come in one piece.
const ARGUMENTS_PIECE: usize = 256;

/// The pieces of an answer: its text word by word, then what it used, then why
/// it stopped.
pub(crate) fn deltas(answer: &Answer) -> Vec<Delta> {
    let mut pieces = Vec::new();
    let mut calls = 0;
    for block in &answer.blocks {
        match block {
            Block::Text { text } => {
                pieces.extend(text.split_inclusive(' ').map(|word| Delta::Text(word.to_owned())));
            }
            Block::Thinking { text, seal } => {
                // A sealed block without text begins with its seal.
                if !text.is_empty() || seal.is_none() {
                    pieces.push(Delta::Thinking(text.clone()));
                }
                pieces.extend(seal.clone().map(Delta::Sealed));
            }
            Block::ToolCall(call) => {
                let index = calls;
                calls += 1;
                let (id, name) = (call.id.clone(), call.name.clone());
                pieces.push(Delta::CallBegun { index, id, name });
                let texts = chunks(&call.arguments.0);
                pieces.extend(texts.map(|text| Delta::Arguments { index, text }));
            }
        }
    }
    pieces.push(Delta::Used(answer.tokens));
    pieces.push(Delta::Stop(answer.stop));
    pieces
}

fn chunks(text: &str) -> impl Iterator<Item = String> {
    let mut characters = text.chars().peekable();
    std::iter::from_fn(move || {
        characters.peek()?;
        Some(characters.by_ref().take(ARGUMENTS_PIECE).collect())
    })
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Assembler;
    use cofferdam_types::{Arguments, Seal, StopReason, Tokens, ToolCall};

    use super::*;

    fn call(id: &str, arguments: String) -> Block {
        let (id, name) = (id.to_owned(), "bash".to_owned());
        Block::ToolCall(ToolCall { id, name, arguments: Arguments(arguments) })
    }

    fn thinking(text: &str, seal: Option<&str>) -> Block {
        let seal = seal.map(|data| Seal { wire: "messages".to_owned(), data: data.to_owned() });
        Block::Thinking { text: text.to_owned(), seal }
    }

    #[test]
    fn an_answer_survives_being_taken_apart() {
        let text = Block::Text { text: "two  words\nand ünïcode ".to_owned() };
        let answer = Answer {
            blocks: vec![
                thinking("first", Some("1")),
                thinking("", Some("2")),
                thinking("", None),
                text,
                call("a", "ü".repeat(ARGUMENTS_PIECE * 2 + 1)),
                call("b", String::new()),
            ],
            stop: StopReason::Tools,
            tokens: Tokens { input: 1, cache_read: 2, cache_write: 3, output: 4 },
        };
        let pieces = deltas(&answer);
        assert!(pieces.len() > 12, "{pieces:?}");
        let mut assembler = Assembler::default();
        for piece in pieces {
            assembler.push(piece).unwrap();
        }
        assert_eq!(assembler.finish().unwrap(), answer);
    }
}
