//! Anthropic Messages.

use cofferdam_types::StopReason;
use serde_json::{Value, json};

use super::{Event, Part, Script, pieces};

pub(super) fn events(script: &Script<'_>) -> Vec<Event> {
    let usage = script.answer.usage;
    let mut stream = Stream { events: Vec::new(), index: 0 };
    stream.push(
        Part::Frame,
        json!({"type": "message_start", "message": {
            "id": format!("msg_{}", script.number), "type": "message", "role": "assistant",
            "model": script.model, "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {
                "input_tokens": usage.input,
                "cache_creation_input_tokens": usage.cache_write,
                "cache_read_input_tokens": usage.cache_read,
                "output_tokens": 1,
            },
        }}),
    );
    stream.events.push(ping());
    let answer = script.answer;
    if !answer.thinking.is_empty() {
        let signature = json!({"type": "signature_delta",
            "signature": format!("signature-{}", script.number)});
        let thought = |piece| json!({"type": "thinking_delta", "thinking": piece});
        let deltas = pieces(&answer.thinking).into_iter().map(thought).chain([signature]);
        let deltas = deltas.map(|delta| (Part::Frame, delta)).collect();
        stream.block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    }
    if !answer.text.is_empty() {
        let delta = |piece| (Part::Text, json!({"type": "text_delta", "text": piece}));
        let deltas = pieces(&answer.text).into_iter().map(delta).collect();
        stream.block(json!({"type": "text", "text": ""}), deltas);
    }
    for (id, name, arguments) in script.calls() {
        let delta =
            |piece| (Part::Arguments, json!({"type": "input_json_delta", "partial_json": piece}));
        let deltas = pieces(arguments).into_iter().map(delta).collect();
        stream.block(json!({"type": "tool_use", "id": id, "name": name, "input": {}}), deltas);
    }
    stream.push(
        Part::Reason,
        json!({"type": "message_delta",
            "delta": {"stop_reason": reason(answer.stop()), "stop_sequence": null},
            "usage": {"output_tokens": usage.output}}),
    );
    stream.push(Part::Last, json!({"type": "message_stop"}));
    stream.events
}

pub(super) fn overloaded() -> Event {
    let error = json!({"type": "overloaded_error", "message": "Overloaded"});
    Event::typed(Part::Frame, &json!({"type": "error", "error": error}))
}

pub(super) fn ping() -> Event {
    Event::typed(Part::Frame, &json!({"type": "ping"}))
}

fn reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Done => "end_turn",
        StopReason::Tools => "tool_use",
        StopReason::OutputLimit => "max_tokens",
        StopReason::Refused => "refusal",
    }
}

struct Stream {
    events: Vec<Event>,
    /// The next block's place.
    index: usize,
}

impl Stream {
    fn push(&mut self, part: Part, data: Value) {
        self.events.push(Event::typed(part, &data));
    }

    fn block(&mut self, start: Value, deltas: Vec<(Part, Value)>) {
        let index = self.index;
        self.index += 1;
        let begun = json!({"type": "content_block_start", "index": index, "content_block": start});
        self.push(Part::Frame, begun);
        for (part, delta) in deltas {
            self.push(part, json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        self.push(Part::Frame, json!({"type": "content_block_stop", "index": index}));
    }
}
