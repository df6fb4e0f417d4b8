//! Events of Chat Completions.

use cofferdam_model::{Delta, ModelError};
use cofferdam_types::{FailureKind, StopReason, Tokens};
use serde::Deserialize;
use serde_json::Value;

use super::tool_calls::{Calls, Piece};
use crate::failure::{Said, garbled, interrupted};
use crate::sse::Event;
use crate::wire::{Decode, Flow, push_text, read, settle};

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Spoken,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Spoken {
    /// Text, or with some servers a list of parts.
    content: Option<Value>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Piece>>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

/// Decodes one answer.
pub(crate) struct Decoder {
    calls: Calls,
    refused: bool,
    stop: Option<StopReason>,
}

impl Decoder {
    /// `salt` is another number for every request of a conversation.
    pub(crate) fn new(salt: usize) -> Self {
        Self { calls: Calls::new(salt), refused: false, stop: None }
    }

    fn choice(&mut self, choice: Choice, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let Spoken { content, reasoning_content, reasoning, refusal, tool_calls } = choice.delta;
        let thought = reasoning_content.or(reasoning).unwrap_or_default();
        push_text(deltas, Delta::Thinking, thought);
        push_text(deltas, Delta::Text, text_of(content));
        if let Some(refusal) = refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            deltas.push(Delta::Text(refusal));
        }
        for piece in tool_calls.unwrap_or_default() {
            self.calls.push(piece, deltas);
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => {}
            Some("error") => {
                let message = "failed while it answered, without a word";
                return Err(ModelError::new(FailureKind::Unavailable, message));
            }
            Some(reason) => self.stop = Some(meaning(reason)),
        }
        Ok(())
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event, deltas: &mut Vec<Delta>) -> Result<Flow, ModelError> {
        if event.data.trim() == "[DONE]" {
            return Ok(Flow::Ended);
        }
        let chunk: Chunk = read(event)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(Said::of(&error).mid_stream());
        }
        if let Some(usage) = chunk.usage {
            let cached = usage.prompt_tokens_details.and_then(|found| found.cached_tokens);
            let cached = cached.unwrap_or(0);
            deltas.push(Delta::Used(Tokens {
                input: usage.prompt_tokens.saturating_sub(cached),
                cache_read: cached,
                cache_write: 0,
                output: usage.completion_tokens,
            }));
        }
        // We ask for one choice; a server that gives more has its first taken.
        if let Some(choice) = chunk.choices.into_iter().next() {
            self.choice(choice, deltas)?;
        }
        Ok(Flow::On)
    }

    fn finish(&mut self) -> Result<StopReason, ModelError> {
        if !self.calls.all_named() {
            return Err(garbled("called a tool without naming it"));
        }
        match self.stop {
            Some(StopReason::Done) if self.refused => Ok(StopReason::Refused),
            Some(stop) => Ok(settle(stop, self.calls.len())),
            None => Err(interrupted("ended the stream before the answer was over")),
        }
    }
}

fn text_of(content: Option<Value>) -> String {
    match content {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

fn meaning(reason: &str) -> StopReason {
    match reason {
        "tool_calls" | "function_call" => StopReason::Tools,
        "length" | "max_tokens" => StopReason::OutputLimit,
        "content_filter" => StopReason::Refused,
        // "stop", and what each server calls it.
        _ => StopReason::Done,
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
