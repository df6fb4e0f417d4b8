//! OpenAI Chat Completions, with the field for thinking that open models' servers
//! have added to it.

use cofferdam_types::StopReason;
use serde_json::{Value, json};

use super::{Event, Part, Script, pieces};

pub(super) fn events(script: &Script<'_>) -> Vec<Event> {
    let answer = script.answer;
    let mut events = Vec::new();
    let mut push = |part, delta: Value, reason: Option<&str>| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        events.push(chunk(script, part, choices, Value::Null));
    };
    push(Part::Frame, json!({"role": "assistant", "content": ""}), None);
    for piece in pieces(&answer.thinking) {
        push(Part::Frame, json!({"reasoning_content": piece}), None);
    }
    for piece in pieces(&answer.text) {
        push(Part::Text, json!({"content": piece}), None);
    }
    for (index, (id, name, arguments)) in script.calls().enumerate() {
        let function = json!({"name": name, "arguments": ""});
        let begun = json!({"index": index, "id": id, "type": "function", "function": function});
        push(Part::Frame, json!({"tool_calls": [begun]}), None);
        for piece in pieces(arguments) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            push(Part::Arguments, json!({"tool_calls": [more]}), None);
        }
    }
    push(Part::Reason, json!({}), Some(reason(answer.stop())));
    let usage = json!({
        "prompt_tokens": script.total_input(),
        "completion_tokens": answer.usage.output,
        "total_tokens": answer.usage.total(),
        "prompt_tokens_details": {"cached_tokens": answer.usage.cache_read},
    });
    events.push(chunk(script, Part::Frame, json!([]), usage));
    events.push(Event::bare(Part::Last, "[DONE]"));
    events
}

pub(super) fn overloaded() -> Event {
    let error = json!({"message": "The server is overloaded", "type": "server_error",
        "param": null, "code": "overloaded"});
    Event::bare(Part::Frame, json!({"error": error}).to_string())
}

fn chunk(script: &Script<'_>, part: Part, choices: Value, usage: Value) -> Event {
    let chunk = json!({
        "id": format!("chatcmpl-{}", script.number), "object": "chat.completion.chunk",
        "created": 1_700_000_000, "model": script.model, "choices": choices, "usage": usage,
    });
    Event::bare(part, chunk.to_string())
}

fn reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Done => "stop",
        StopReason::Tools => "tool_calls",
        StopReason::OutputLimit => "length",
        StopReason::Refused => "content_filter",
    }
}
