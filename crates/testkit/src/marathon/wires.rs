//! Questions of every wire format as one: that of Anthropic's Messages, which the model
//! of long jobs reads.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::script::Dialect;
use crate::server::Recorded;

/// A question as it would have been put to Anthropic.
pub(super) fn as_messages(question: &Recorded) -> Cow<'_, Value> {
    let body = &question.body;
    match question.dialect {
        Dialect::Messages => Cow::Borrowed(body),
        Dialect::Chat => Cow::Owned(chat(body)),
        Dialect::Responses => Cow::Owned(responses(body)),
    }
}

/// Messages of which no two in a row are by the same.
#[derive(Default)]
struct Messages(Vec<(&'static str, Vec<Value>)>);

impl Messages {
    fn push(&mut self, role: &'static str, part: Value) {
        match self.0.last_mut() {
            Some((last, parts)) if *last == role => parts.push(part),
            _ => self.0.push((role, vec![part])),
        }
    }

    fn say(&mut self, role: &'static str, content: &Value) {
        match content {
            Value::String(text) => self.push(role, json!({"type": "text", "text": text})),
            Value::Array(parts) => {
                for part in parts.iter().filter(|part| part["text"].is_string()) {
                    self.push(role, json!({"type": "text", "text": part["text"]}));
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, id: &Value, name: &Value, arguments: &Value) {
        let input = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let call = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        self.push("assistant", call);
    }

    fn result(&mut self, id: &Value, content: &Value) {
        let content = match content {
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                Value::String(texts.collect())
            }
            text => text.clone(),
        };
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
        self.push("user", result);
    }

    fn body(self, system: String, tools: Vec<Value>, max_tokens: &Value) -> Value {
        let messages = self.0.into_iter();
        let messages: Vec<Value> =
            messages.map(|(role, content)| json!({"role": role, "content": content})).collect();
        json!({"system": system, "messages": messages, "tools": tools, "max_tokens": max_tokens})
    }
}

fn chat(body: &Value) -> Value {
    let (mut messages, mut system) = (Messages::default(), String::new());
    for message in items(&body["messages"]) {
        match message["role"].as_str() {
            Some("system") => system.push_str(message["content"].as_str().unwrap_or_default()),
            Some("user") => messages.say("user", &message["content"]),
            Some("assistant") => {
                messages.say("assistant", &message["content"]);
                for call in items(&message["tool_calls"]) {
                    let function = &call["function"];
                    messages.call(&call["id"], &function["name"], &function["arguments"]);
                }
            }
            Some("tool") => messages.result(&message["tool_call_id"], &message["content"]),
            _ => {}
        }
    }
    let tools = items(&body["tools"]).map(|tool| tool["function"].clone()).collect();
    let limits = ["max_tokens", "max_completion_tokens"].map(|name| &body[name]);
    let limit = limits.into_iter().find(|limit| limit.is_u64()).unwrap_or(&Value::Null);
    messages.body(system, tools, limit)
}

fn responses(body: &Value) -> Value {
    let mut messages = Messages::default();
    for item in items(&body["input"]) {
        match item["type"].as_str() {
            Some("message") if item["role"] == "assistant" => {
                messages.say("assistant", &item["content"]);
            }
            Some("message") => messages.say("user", &item["content"]),
            Some("function_call") => {
                messages.call(&item["call_id"], &item["name"], &item["arguments"]);
            }
            Some("function_call_output") => messages.result(&item["call_id"], &item["output"]),
            _ => {}
        }
    }
    let system = body["instructions"].as_str().unwrap_or_default().to_owned();
    let tools = items(&body["tools"]).cloned().collect();
    messages.body(system, tools, &body["max_output_tokens"])
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Value {
        json!({
            "system": "You are",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "do it"}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": "b", "name": "bash", "input": {"command": "id"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "x"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "y"},
                ]},
            ],
            "tools": [{"name": "bash"}],
            "max_tokens": 9,
        })
    }

    #[test]
    fn a_question_is_the_same_in_every_wire_format() {
        let call = |id: &str, command: &str| {
            let arguments = json!({"command": command}).to_string();
            json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}})
        };
        let asked = chat(&json!({
            "max_completion_tokens": 9,
            "tools": [{"type": "function", "function": {"name": "bash"}}],
            "messages": [
                {"role": "system", "content": "You are"},
                {"role": "user", "content": "do it"},
                {"role": "assistant", "content": "I look.", "tool_calls": [call("a", "ls"), call("b", "id")]},
                {"role": "tool", "tool_call_id": "a", "content": "x"},
                {"role": "tool", "tool_call_id": "b", "content": "y"},
            ],
        }));
        assert_eq!(asked, wanted());
        let call = |id: &str, command: &str| {
            let arguments = json!({"command": command}).to_string();
            json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": arguments})
        };
        let asked = responses(&json!({
            "max_output_tokens": 9,
            "instructions": "You are",
            "tools": [{"name": "bash"}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                call("a", "ls"),
                call("b", "id"),
                {"type": "function_call_output", "call_id": "a", "output": "x"},
                {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "y"}]},
            ],
        }));
        assert_eq!(asked, wanted());
    }
}
