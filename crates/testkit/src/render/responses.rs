//! OpenAI Responses.

use cofferdam_types::StopReason;
use serde_json::{Value, json};

use super::{Event, Part, Script, pieces};

pub(super) fn events(script: &Script<'_>) -> Vec<Event> {
    let answer = script.answer;
    let mut stream = Stream { events: Vec::new(), output: Vec::new() };
    stream.push(
        Part::Frame,
        json!({"type": "response.created", "response": response(script, "in_progress", &[])}),
    );
    if !answer.thinking.is_empty() {
        stream.reasoning(script, &answer.thinking);
    }
    if !answer.text.is_empty() {
        stream.message(script, &answer.text);
    }
    for (id, name, arguments) in script.calls() {
        stream.call(&id, name, arguments);
    }
    let (status, details) = match answer.stop() {
        StopReason::Done | StopReason::Tools => ("completed", Value::Null),
        StopReason::OutputLimit => ("incomplete", json!({"reason": "max_output_tokens"})),
        StopReason::Refused => ("incomplete", json!({"reason": "content_filter"})),
    };
    let mut last = response(script, status, &stream.output);
    if let Some(fields) = last.as_object_mut() {
        fields.insert("incomplete_details".to_owned(), details);
        fields.insert("usage".to_owned(), usage(script));
    }
    stream.push(Part::Last, json!({"type": format!("response.{status}"), "response": last}));
    stream.events
}

pub(super) fn overloaded() -> Event {
    Event::typed(
        Part::Frame,
        &json!({"type": "error", "sequence_number": 0, "code": "server_is_overloaded",
            "message": "Our servers are currently overloaded", "param": null}),
    )
}

fn response(script: &Script<'_>, status: &str, output: &[Value]) -> Value {
    json!({
        "id": format!("resp_{}", script.number), "object": "response",
        "created_at": 1_700_000_000, "status": status, "model": script.model,
        "output": output, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
        "error": null, "incomplete_details": null, "usage": null,
    })
}

fn usage(script: &Script<'_>) -> Value {
    let usage = script.answer.usage;
    json!({
        "input_tokens": script.total_input(),
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total(),
    })
}

struct Stream {
    events: Vec<Event>,
    /// The items that are done.
    output: Vec<Value>,
}

impl Stream {
    fn push(&mut self, part: Part, mut data: Value) {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("sequence_number".to_owned(), self.events.len().into());
        }
        self.events.push(Event::typed(part, &data));
    }

    fn item(&mut self, act: &str, item: Value) {
        let index = self.output.len();
        let kind = format!("response.output_item.{act}");
        self.push(Part::Frame, json!({"type": kind, "output_index": index, "item": item}));
        if act == "done" {
            self.output.push(item);
        }
    }

    fn reasoning(&mut self, script: &Script<'_>, thinking: &str) {
        let id = format!("rs_{}", script.number);
        let place = self.output.len();
        self.item("added", json!({"id": id, "type": "reasoning", "summary": []}));
        let part = |act: &str, text: &str| {
            json!({"type": format!("response.reasoning_summary_part.{act}"), "item_id": id,
                "output_index": place, "summary_index": 0,
                "part": {"type": "summary_text", "text": text}})
        };
        self.push(Part::Frame, part("added", ""));
        for piece in pieces(thinking) {
            self.push(
                Part::Frame,
                json!({"type": "response.reasoning_summary_text.delta", "item_id": id,
                    "output_index": place, "summary_index": 0, "delta": piece}),
            );
        }
        self.push(
            Part::Frame,
            json!({"type": "response.reasoning_summary_text.done", "item_id": id,
                "output_index": place, "summary_index": 0, "text": thinking}),
        );
        self.push(Part::Frame, part("done", thinking));
        let sealed = format!("sealed-{}", script.number);
        let summary = json!([{"type": "summary_text", "text": thinking}]);
        self.item(
            "done",
            json!({"id": id, "type": "reasoning", "summary": summary, "encrypted_content": sealed}),
        );
    }

    fn message(&mut self, script: &Script<'_>, text: &str) {
        let id = format!("msg_{}", script.number);
        let place = self.output.len();
        let message = |status: &str, content: Value| {
            json!({"id": id, "type": "message", "role": "assistant", "status": status,
                "content": content})
        };
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        let part_event = |act: &str, text: &str| {
            json!({"type": format!("response.content_part.{act}"), "item_id": id,
                "output_index": place, "content_index": 0, "part": part(text)})
        };
        self.item("added", message("in_progress", json!([])));
        self.push(Part::Frame, part_event("added", ""));
        for piece in pieces(text) {
            self.push(
                Part::Text,
                json!({"type": "response.output_text.delta", "item_id": id, "output_index": place,
                    "content_index": 0, "delta": piece, "logprobs": []}),
            );
        }
        self.push(
            Part::Frame,
            json!({"type": "response.output_text.done", "item_id": id, "output_index": place,
                "content_index": 0, "text": text, "logprobs": []}),
        );
        self.push(Part::Frame, part_event("done", text));
        self.item("done", message("completed", json!([part(text)])));
    }

    fn call(&mut self, call_id: &str, name: &str, arguments: &str) {
        let id = format!("fc_{call_id}");
        let place = self.output.len();
        let call = |status: &str, arguments: &str| {
            json!({"id": id, "type": "function_call", "status": status, "call_id": call_id,
                "name": name, "arguments": arguments})
        };
        self.item("added", call("in_progress", ""));
        for piece in pieces(arguments) {
            self.push(
                Part::Arguments,
                json!({"type": "response.function_call_arguments.delta", "item_id": id,
                    "output_index": place, "delta": piece}),
            );
        }
        self.push(
            Part::Frame,
            json!({"type": "response.function_call_arguments.done", "item_id": id,
                "output_index": place, "name": name, "arguments": arguments}),
        );
        self.item("done", call("completed", arguments));
    }
}
