//! Events of Anthropic Messages.

use std::collections::BTreeMap;

use cofferdam_model::{Delta, ModelError};
use cofferdam_types::{Seal, StopReason, Tokens};
use serde::Deserialize;
use serde_json::Value;

use super::Sealed;
use crate::failure::{Said, garbled, interrupted};
use crate::sse::Event;
use crate::wire::{Decode, Flow, push_text, read, settle};
use cofferdam_model::Wire;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Frame {
    MessageStart {
        message: Begun,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Piece,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Ending,
        #[serde(default)]
        usage: Usage,
    },
    MessageStop,
    Ping,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Begun {
    #[serde(default)]
    usage: Usage,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Ending {
    stop_reason: Option<String>,
}

/// Each figure that is there replaces the one before it.
#[derive(Default, Deserialize)]
struct Usage {
    input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// A block that has begun and not ended.
enum Open {
    Thinking { signature: String },
    Call { index: u32, input: Value, written: bool },
    Other,
}

/// Decodes one answer.
#[derive(Default)]
pub(crate) struct Decoder {
    open: BTreeMap<u64, Open>,
    calls: u32,
    tokens: Tokens,
    stop: Option<StopReason>,
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event, deltas: &mut Vec<Delta>) -> Result<Flow, ModelError> {
        match read(event)? {
            Frame::MessageStart { message } => self.used(&message.usage, deltas),
            Frame::ContentBlockStart { index, content_block } => {
                let open = self.begin(content_block, deltas);
                self.open.insert(index, open);
            }
            Frame::ContentBlockDelta { index, delta } => self.piece(index, delta, deltas)?,
            Frame::ContentBlockStop { index } => {
                if let Some(open) = self.open.remove(&index) {
                    end(open, deltas);
                }
            }
            Frame::MessageDelta { delta, usage } => {
                self.used(&usage, deltas);
                if let Some(reason) = delta.stop_reason {
                    self.stop = Some(meaning(&reason));
                }
            }
            Frame::MessageStop => return Ok(Flow::Ended),
            Frame::Error { error } => return Err(Said::of(&error).mid_stream()),
            // Signs of life, and what is yet to come.
            Frame::Ping | Frame::Other => {}
        }
        Ok(Flow::On)
    }

    fn finish(&mut self) -> Result<StopReason, ModelError> {
        let Some(stop) = self.stop else {
            return Err(interrupted("ended the stream before the answer was over"));
        };
        Ok(settle(stop, self.calls as usize))
    }
}

impl Decoder {
    fn begin(&mut self, block: Block, deltas: &mut Vec<Delta>) -> Open {
        match block {
            Block::Text { text } => {
                push_text(deltas, Delta::Text, text);
                Open::Other
            }
            Block::Thinking { thinking, signature } => {
                push_text(deltas, Delta::Thinking, thinking);
                Open::Thinking { signature }
            }
            Block::RedactedThinking { data } => {
                deltas.push(seal(&Sealed::RedactedThinking { data }));
                Open::Other
            }
            Block::ToolUse { id, name, input } => {
                let index = self.calls;
                self.calls += 1;
                deltas.push(Delta::CallBegun { index, id, name });
                Open::Call { index, input, written: false }
            }
            Block::Other => Open::Other,
        }
    }

    fn piece(
        &mut self,
        place: u64,
        piece: Piece,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelError> {
        match (piece, self.open.get_mut(&place)) {
            (Piece::TextDelta { text }, _) => push_text(deltas, Delta::Text, text),
            (Piece::ThinkingDelta { thinking }, _) => push_text(deltas, Delta::Thinking, thinking),
            (Piece::SignatureDelta { signature: more }, Some(Open::Thinking { signature })) => {
                signature.push_str(&more);
            }
            (Piece::InputJsonDelta { partial_json: text }, Some(open)) => {
                if let Open::Call { index, written, .. } = open
                    && !text.is_empty()
                {
                    *written = true;
                    deltas.push(Delta::Arguments { index: *index, text });
                }
            }
            (Piece::SignatureDelta { .. } | Piece::InputJsonDelta { .. }, None) => {
                return Err(garbled("went on with a block that it had not begun"));
            }
            (Piece::SignatureDelta { .. } | Piece::Other, _) => {}
        }
        Ok(())
    }

    fn used(&mut self, usage: &Usage, deltas: &mut Vec<Delta>) {
        let tokens = &mut self.tokens;
        tokens.input = usage.input_tokens.unwrap_or(tokens.input);
        tokens.cache_read = usage.cache_read_input_tokens.unwrap_or(tokens.cache_read);
        tokens.cache_write = usage.cache_creation_input_tokens.unwrap_or(tokens.cache_write);
        tokens.output = usage.output_tokens.unwrap_or(tokens.output);
        deltas.push(Delta::Used(*tokens));
    }
}

fn end(open: Open, deltas: &mut Vec<Delta>) {
    match open {
        Open::Thinking { signature } if !signature.is_empty() => {
            deltas.push(seal(&Sealed::Thinking { signature }));
        }
        // Some servers give the whole input with the beginning.
        Open::Call { index, input: Value::Object(input), written: false } if !input.is_empty() => {
            let text = Value::Object(input).to_string();
            deltas.push(Delta::Arguments { index, text });
        }
        _ => {}
    }
}

fn seal(sealed: &Sealed) -> Delta {
    let wire = Wire::Messages.name().to_owned();
    // A struct of strings always becomes JSON; without it there is nothing to keep.
    let data = serde_json::to_string(sealed).unwrap_or_default();
    Delta::Sealed(Seal { wire, data })
}

fn meaning(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::Tools,
        // The last two: paused by the provider, and no room left. Either way
        // the answer is not whole.
        "max_tokens" | "pause_turn" | "model_context_window_exceeded" => StopReason::OutputLimit,
        "refusal" => StopReason::Refused,
        // "end_turn", "stop_sequence", and what is yet to come.
        _ => StopReason::Done,
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
