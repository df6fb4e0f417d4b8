//! Events of OpenAI Responses.
//!
//! An item comes in pieces and again as a whole when it is done. The pieces are
//! used as they come, and of the whole only what no piece had brought.

use std::collections::BTreeMap;

use cofferdam_model::{Delta, ModelError};
use cofferdam_types::{Arguments, Seal, StopReason, Tokens};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::{Said, garbled, interrupted};
use crate::sse::Event;
use crate::wire::{Decode, Flow, push_text, read, settle};
use cofferdam_model::Wire;

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Message {
    #[serde(rename = "response.output_item.added")]
    ItemAdded { output_index: u64, item: Value },
    #[serde(rename = "response.output_item.done")]
    ItemDone { output_index: u64, item: Value },
    #[serde(rename = "response.output_text.delta")]
    Text { output_index: u64, delta: String },
    #[serde(rename = "response.refusal.delta")]
    Refusal { output_index: u64, delta: String },
    #[serde(rename = "response.reasoning_summary_part.added")]
    SummaryPart { summary_index: u64 },
    #[serde(
        rename = "response.reasoning_summary_text.delta",
        alias = "response.reasoning_text.delta"
    )]
    Reasoning { delta: String },
    #[serde(rename = "response.function_call_arguments.delta")]
    Arguments { output_index: u64, delta: String },
    #[serde(rename = "response.completed")]
    Completed { response: Response },
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Response },
    #[serde(rename = "response.failed")]
    Failed { response: Response },
    #[serde(rename = "error")]
    Error {
        #[serde(flatten)]
        fields: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Response {
    error: Option<Value>,
    incomplete_details: Option<Details>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Details {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens: u64,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: u64,
}

/// The items that this wire brings.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    FunctionCall {
        call_id: String,
        name: String,
        #[serde(default)]
        arguments: String,
    },
    Message {
        #[serde(default)]
        content: Vec<Content>,
    },
    Reasoning {
        encrypted_content: Option<String>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content {
    OutputText {
        text: String,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Other,
}

/// An event whose item is kept as it came.
#[derive(Deserialize)]
struct RawItem<'a> {
    #[serde(borrow)]
    item: &'a RawValue,
}

struct Call {
    index: u32,
    /// Its arguments so far.
    written: String,
}

/// Decodes one answer.
#[derive(Default)]
pub(crate) struct Decoder {
    /// The calls by the place of their item.
    calls: BTreeMap<u64, Call>,
    /// The places of items of which text has come.
    spoken: Vec<u64>,
    refused: bool,
    stop: Option<StopReason>,
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event, deltas: &mut Vec<Delta>) -> Result<Flow, ModelError> {
        match read(event)? {
            Message::ItemAdded { output_index, item } => {
                if let Item::FunctionCall { call_id, name, arguments } = item_of(item)? {
                    self.call(output_index, call_id, name, deltas);
                    self.arguments(output_index, &arguments, deltas)?;
                }
            }
            Message::ItemDone { output_index, item } => {
                self.item_done(output_index, item_of(item)?, event, deltas)?;
            }
            Message::Text { output_index, delta } => self.text(output_index, delta, deltas),
            Message::Refusal { output_index, delta } => {
                self.refused = true;
                self.text(output_index, delta, deltas);
            }
            Message::SummaryPart { summary_index: 0 } => {}
            Message::SummaryPart { .. } => deltas.push(Delta::Thinking("\n\n".to_owned())),
            Message::Reasoning { delta } => push_text(deltas, Delta::Thinking, delta),
            Message::Arguments { output_index, delta } => {
                self.arguments(output_index, &delta, deltas)?;
            }
            Message::Completed { response } => {
                self.end(&response, StopReason::Done, deltas);
                return Ok(Flow::Ended);
            }
            Message::Incomplete { response } => {
                let reason =
                    response.incomplete_details.as_ref().and_then(|why| why.reason.as_deref());
                let stop = match reason {
                    Some("content_filter") => StopReason::Refused,
                    _ => StopReason::OutputLimit,
                };
                self.end(&response, stop, deltas);
                return Ok(Flow::Ended);
            }
            Message::Failed { response } => {
                let error = response.error.unwrap_or_default();
                return Err(Said::of(&error).mid_stream());
            }
            Message::Error { fields } => {
                return Err(Said::in_event(&fields).unwrap_or_default().mid_stream());
            }
            Message::Other => {}
        }
        Ok(Flow::On)
    }

    fn finish(&mut self) -> Result<StopReason, ModelError> {
        match self.stop {
            Some(StopReason::Done) if self.refused => Ok(StopReason::Refused),
            Some(stop) => Ok(settle(stop, self.calls.len())),
            None => Err(interrupted("ended the stream before the answer was over")),
        }
    }
}

impl Decoder {
    fn call(&mut self, place: u64, id: String, name: String, deltas: &mut Vec<Delta>) {
        let index = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        self.calls.insert(place, Call { index, written: String::new() });
        deltas.push(Delta::CallBegun { index, id, name });
    }

    fn arguments(
        &mut self,
        place: u64,
        more: &str,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelError> {
        let Some(call) = self.calls.get_mut(&place) else {
            return Err(garbled("wrote arguments for a call that it had not begun"));
        };
        if !more.is_empty() {
            call.written.push_str(more);
            deltas.push(Delta::Arguments { index: call.index, text: more.to_owned() });
        }
        Ok(())
    }

    fn text(&mut self, place: u64, text: String, deltas: &mut Vec<Delta>) {
        self.spoken.push(place);
        self.spoken.dedup();
        push_text(deltas, Delta::Text, text);
    }

    fn item_done(
        &mut self,
        place: u64,
        item: Item,
        event: &Event,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelError> {
        match item {
            Item::FunctionCall { call_id, name, arguments } => {
                if !self.calls.contains_key(&place) {
                    self.call(place, call_id, name, deltas);
                }
                let written = self.calls.get(&place).map_or("", |call| call.written.as_str());
                match arguments.strip_prefix(written) {
                    Some(rest) => {
                        let rest = rest.to_owned();
                        self.arguments(place, &rest, deltas)?;
                    }
                    None if mean_the_same(written, &arguments) => {}
                    None => {
                        return Err(garbled("wrote a call's arguments twice, and not the same"));
                    }
                }
            }
            Item::Message { content } if !self.spoken.contains(&place) => {
                for content in content {
                    match content {
                        Content::OutputText { text } => self.text(place, text, deltas),
                        Content::Refusal { refusal } => {
                            self.refused = true;
                            self.text(place, refusal, deltas);
                        }
                        Content::Other => {}
                    }
                }
            }
            // Without its content an item cannot be sent back: the provider has not
            // stored what its id stands for.
            Item::Reasoning { encrypted_content: Some(_) } => {
                let raw: RawItem<'_> = serde_json::from_str(&event.data)
                    .map_err(|error| garbled(format!("sent reasoning without sense: {error}")))?;
                let wire = Wire::Responses.name().to_owned();
                deltas.push(Delta::Sealed(Seal { wire, data: raw.item.get().to_owned() }));
            }
            Item::Message { .. } | Item::Reasoning { .. } | Item::Other => {}
        }
        Ok(())
    }

    fn end(&mut self, response: &Response, stop: StopReason, deltas: &mut Vec<Delta>) {
        self.stop = Some(stop);
        if let Some(usage) = &response.usage {
            let cached = usage.input_tokens_details.as_ref().map_or(0, |found| found.cached_tokens);
            deltas.push(Delta::Used(Tokens {
                input: usage.input_tokens.saturating_sub(cached),
                cache_read: cached,
                cache_write: 0,
                output: usage.output_tokens,
            }));
        }
    }
}

/// Whether two texts are the same object: some servers write it anew at the end.
fn mean_the_same(one: &str, other: &str) -> bool {
    let object = |text: &str| Arguments(text.to_owned()).object();
    matches!((object(one), object(other)), (Ok(one), Ok(other)) if one == other)
}

fn item_of(item: Value) -> Result<Item, ModelError> {
    serde_json::from_value(item)
        .map_err(|error| garbled(format!("sent an item that makes no sense: {error}")))
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
