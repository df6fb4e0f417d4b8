//! What the three wires have in common: a body out, events in.

use cofferdam_model::{Delta, ModelError, Request};
use cofferdam_types::StopReason;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Said, garbled};
use crate::sse::Event;
use crate::{chat, messages, responses};
use cofferdam_model::Wire;

/// What a body depends on besides the request.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The provider's own name of the model.
    pub(crate) model: String,
    /// The provider's host.
    pub(crate) host: String,
    /// See [`crate::Endpoint::thinking`].
    pub(crate) thinking: Option<u32>,
}

/// What an event means for the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More may come.
    On,
    /// The answer is over.
    Ended,
}

/// Turns the events of one answer into deltas.
pub(crate) trait Decode: Send {
    /// Takes an event. [`Delta::Stop`] is not among its deltas: that is for
    /// [`Decode::finish`].
    fn event(&mut self, event: &Event, deltas: &mut Vec<Delta>) -> Result<Flow, ModelError>;

    /// Why the answer has ended, now that its last event has come or its body
    /// ended well.
    fn finish(&mut self) -> Result<StopReason, ModelError>;
}

/// The body of a request.
pub(crate) fn body(
    wire: Wire,
    request: &Request,
    options: &Options,
) -> Result<Vec<u8>, serde_json::Error> {
    match wire {
        Wire::Messages => serde_json::to_vec(&messages::body(request, options)),
        Wire::Responses => serde_json::to_vec(&responses::body(request, options)),
        Wire::Chat => serde_json::to_vec(&chat::body(request, options)),
    }
}

/// The decoder for the answer to a request.
pub(crate) fn decoder(wire: Wire, request: &Request) -> Box<dyn Decode> {
    match wire {
        Wire::Messages => Box::new(messages::Decoder::default()),
        Wire::Responses => Box::new(responses::Decoder::default()),
        Wire::Chat => Box::new(chat::Decoder::new(request.messages.len())),
    }
}

/// Reads an event's data. What is no event of the wire may still be an error in
/// the shape that most servers use.
pub(crate) fn read<T: DeserializeOwned>(event: &Event) -> Result<T, ModelError> {
    serde_json::from_str(&event.data).map_err(|error| {
        let said = serde_json::from_str::<Value>(&event.data).ok();
        match said.as_ref().and_then(Said::in_event) {
            Some(said) => said.mid_stream(),
            None => garbled(format!("sent an event that makes no sense: {error}")),
        }
    })
}

/// The reason with which an answer ends: some servers say "stop" although
/// they wait for tools, others say "tools" and call none.
pub(crate) fn settle(said: StopReason, calls: usize) -> StopReason {
    match (said, calls) {
        (StopReason::Done, 1..) => StopReason::Tools,
        (StopReason::Tools, 0) => StopReason::Done,
        (said, _) => said,
    }
}

/// Adds a piece of text; nothing is no piece.
pub(crate) fn push_text(deltas: &mut Vec<Delta>, kind: fn(String) -> Delta, text: String) {
    if !text.is_empty() {
        deltas.push(kind(text));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a decoder makes of a stream of data: its deltas and its end.
    pub(crate) fn decode(
        mut decoder: impl Decode,
        stream: &[&str],
    ) -> Result<(Vec<Delta>, StopReason), ModelError> {
        let mut deltas = Vec::new();
        for data in stream {
            let event = Event { data: (*data).to_owned(), lossy: false };
            if decoder.event(&event, &mut deltas)? == Flow::Ended {
                break;
            }
        }
        Ok((deltas, decoder.finish()?))
    }
}
