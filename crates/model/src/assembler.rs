//! Deltas, put together to an answer.
//!
//! An answer without a [`Delta::Stop`] does not exist: what was cut off is an
//! error, also when whole sentences or whole calls had come before.

use cofferdam_types::{Answer, Arguments, Block, FailureKind, Seal, StopReason, Tokens, ToolCall};

use crate::error::ModelError;
use crate::request::Delta;

/// Bytes that one answer may have; a model that writes more is broken.
const LONGEST: usize = 64 << 20;

/// Puts an answer together.
#[derive(Debug, Default)]
pub struct Assembler {
    blocks: Vec<Block>,
    /// The indices of the calls begun, with their places among the blocks.
    calls: Vec<(u32, usize)>,
    tokens: Tokens,
    stop: Option<StopReason>,
    length: usize,
}

impl Assembler {
    /// Takes the next piece.
    ///
    /// # Errors
    /// When it cannot follow the pieces before it, or is too much.
    pub fn push(&mut self, delta: Delta) -> Result<(), ModelError> {
        if self.stop.is_some() && !matches!(delta, Delta::Used(_)) {
            return Err(garbled("the model went on after it had stopped"));
        }
        match delta {
            Delta::Text(text) => self.text(text)?,
            Delta::Thinking(text) => self.thinking(text)?,
            Delta::Sealed(seal) => self.seal(seal),
            Delta::CallBegun { index, id, name } => {
                if self.calls.iter().any(|(known, _)| *known == index) {
                    return Err(garbled("the model began a call twice"));
                }
                self.grow(id.len() + name.len())?;
                self.calls.push((index, self.blocks.len()));
                let arguments = Arguments(String::new());
                self.blocks.push(Block::ToolCall(ToolCall { id, name, arguments }));
            }
            Delta::Arguments { index, text } => self.arguments(index, &text)?,
            Delta::Used(tokens) => self.tokens = tokens,
            Delta::Stop(reason) => self.stop = Some(reason),
        }
        Ok(())
    }

    /// What was used so far, for an answer that has failed.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// The answer, now that the stream has ended.
    ///
    /// # Errors
    /// [`FailureKind::Interrupted`] when the model never said that it stopped.
    pub fn finish(self) -> Result<Answer, ModelError> {
        let Some(stop) = self.stop else {
            let message = "the stream ended before the answer did";
            return Err(ModelError::new(FailureKind::Interrupted, message));
        };
        Ok(Answer { blocks: self.blocks, stop, tokens: self.tokens })
    }

    fn text(&mut self, more: String) -> Result<(), ModelError> {
        self.grow(more.len())?;
        match self.blocks.last_mut() {
            Some(Block::Text { text }) => text.push_str(&more),
            _ if more.is_empty() => {}
            _ => self.blocks.push(Block::Text { text: more }),
        }
        Ok(())
    }

    fn thinking(&mut self, more: String) -> Result<(), ModelError> {
        self.grow(more.len())?;
        match self.blocks.last_mut() {
            Some(Block::Thinking { text, seal: None }) => text.push_str(&more),
            _ => self.blocks.push(Block::Thinking { text: more, seal: None }),
        }
        Ok(())
    }

    fn seal(&mut self, new: Seal) {
        match self.blocks.last_mut() {
            Some(Block::Thinking { seal: seal @ None, .. }) => *seal = Some(new),
            _ => self.blocks.push(Block::Thinking { text: String::new(), seal: Some(new) }),
        }
    }

    fn arguments(&mut self, index: u32, more: &str) -> Result<(), ModelError> {
        self.grow(more.len())?;
        let place = self.calls.iter().find(|(known, _)| *known == index).map(|(_, place)| *place);
        match place.and_then(|place| self.blocks.get_mut(place)) {
            Some(Block::ToolCall(call)) => call.arguments.0.push_str(more),
            _ => return Err(garbled("the model wrote arguments for a call it had not begun")),
        }
        Ok(())
    }

    fn grow(&mut self, by: usize) -> Result<(), ModelError> {
        self.length = self.length.saturating_add(by);
        if self.length > LONGEST {
            return Err(garbled("the answer is longer than 64 MiB"));
        }
        Ok(())
    }
}

fn garbled(message: &str) -> ModelError {
    ModelError::new(FailureKind::Garbled, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(deltas: impl IntoIterator<Item = Delta>) -> Result<Answer, ModelError> {
        let mut assembler = Assembler::default();
        for delta in deltas {
            assembler.push(delta)?;
        }
        assembler.finish()
    }

    fn text(text: &str) -> Delta {
        Delta::Text(text.to_owned())
    }

    fn begun(index: u32) -> Delta {
        Delta::CallBegun { index, id: format!("c{index}"), name: "bash".to_owned() }
    }

    fn arguments(index: u32, text: &str) -> Delta {
        Delta::Arguments { index, text: text.to_owned() }
    }

    #[test]
    fn pieces_of_interleaved_calls_come_together() {
        let answer = assemble([
            text("a"),
            text("b"),
            begun(0),
            begun(1),
            arguments(1, "{\"x\""),
            arguments(0, "{}"),
            arguments(1, ":1}"),
            Delta::Stop(StopReason::Tools),
            Delta::Used(Tokens { output: 3, ..Tokens::default() }),
        ])
        .unwrap();
        assert_eq!(answer.text(), "ab");
        let calls: Vec<_> = answer.calls().map(|call| call.arguments.0.as_str()).collect();
        assert_eq!(calls, ["{}", "{\"x\":1}"]);
        assert_eq!(answer.tokens.output, 3);
    }

    #[test]
    fn an_answer_without_a_stop_is_interrupted_whatever_came_before() {
        for deltas in [vec![], vec![text("done")], vec![begun(0), arguments(0, "{}")]] {
            assert_eq!(assemble(deltas).unwrap_err().kind, FailureKind::Interrupted);
        }
    }

    #[test]
    fn each_seal_closes_its_thinking() {
        let seal =
            |data: &str| Delta::Sealed(Seal { wire: "messages".to_owned(), data: data.to_owned() });
        let thinking = |text: &str| Delta::Thinking(text.to_owned());
        let stop = Delta::Stop(StopReason::Done);
        let answer = assemble([thinking("a"), seal("1"), seal("2"), thinking("b"), stop]).unwrap();
        let blocks: Vec<_> = answer
            .blocks
            .iter()
            .map(|block| match block {
                Block::Thinking { text, seal } => (text.as_str(), seal.is_some()),
                _ => panic!("{block:?}"),
            })
            .collect();
        assert_eq!(blocks, [("a", true), ("", true), ("b", false)]);
    }

    #[test]
    fn pieces_that_make_no_sense_are_garbled() {
        for deltas in [
            vec![arguments(0, "{}")],
            vec![begun(0), begun(0)],
            vec![Delta::Stop(StopReason::Done), text("more")],
        ] {
            assert_eq!(assemble(deltas).unwrap_err().kind, FailureKind::Garbled);
        }
    }
}
