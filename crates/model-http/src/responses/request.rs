//! A conversation as a body for OpenAI Responses: a flat list of items.

use cofferdam_model::Request;
use cofferdam_types::Content;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::calls::{arguments, identifier};
use crate::turns::{self, Answered, Turn, turns};
use crate::wire::Options;
use cofferdam_model::Wire;

#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    max_output_tokens: u32,
    prompt_cache_key: &'a str,
    instructions: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    input: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool<'a> {
    Function { name: &'a str, description: &'a str, parameters: &'a Value, strict: bool },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Own(Own<'a>),
    /// An item of the provider's, as it came.
    Sealed(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Own<'a> {
    Message { role: &'static str, content: Vec<Part<'a>> },
    FunctionCall { call_id: String, name: String, arguments: String },
    FunctionCallOutput { call_id: String, output: Output<'a> },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: &'a str },
    InputImage { image_url: String, detail: &'static str },
    OutputText { text: &'a str },
}

/// The body of a request.
pub(crate) fn body<'a>(request: &'a Request, options: &'a Options) -> Body<'a> {
    let reasons = reasons(&options.model);
    let tool = |tool: &'a cofferdam_types::ToolSpec| Tool::Function {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.schema,
        // Strict schemas have no optional fields, and ours do.
        strict: false,
    };
    let turns = turns(&request.messages, Wire::Responses);
    Body {
        model: &options.model,
        stream: true,
        store: false,
        include: if reasons { vec!["reasoning.encrypted_content"] } else { Vec::new() },
        reasoning: options
            .thinking
            .filter(|_| reasons)
            .map(|budget| Reasoning { effort: effort(budget) }),
        max_output_tokens: request.max_output,
        prompt_cache_key: &request.cache_key,
        instructions: &request.system,
        tools: request.tools.iter().map(tool).collect(),
        input: turns.into_iter().flat_map(items).collect(),
    }
}

/// Whether a model thinks before it speaks. Those that do not refuse every
/// request that mentions it.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let older = ["gpt-3", "gpt-4", "chatgpt-"].iter().any(|start| name.starts_with(start));
    !older && !name.contains("-chat")
}

fn effort(budget: u32) -> &'static str {
    match budget {
        0..4_096 => "low",
        4_096..16_384 => "medium",
        _ => "high",
    }
}

fn items(turn: Turn<'_>) -> Vec<Item<'_>> {
    match turn {
        Turn::User { results, content } => {
            let mut items: Vec<Item<'_>> = results.into_iter().map(result).collect();
            if !content.is_empty() {
                let content = content.into_iter().map(shown).collect();
                items.push(Item::Own(Own::Message { role: "user", content }));
            }
            items
        }
        Turn::Model { parts } => parts.into_iter().filter_map(spoken).collect(),
    }
}

fn spoken(part: turns::Part<'_>) -> Option<Item<'_>> {
    Some(match part {
        turns::Part::Text(text) => {
            let content = vec![Part::OutputText { text }];
            Item::Own(Own::Message { role: "assistant", content })
        }
        turns::Part::Thinking(_, seal) => Item::Sealed(serde_json::from_str(&seal.data).ok()?),
        turns::Part::Call { id: call_id, call } => Item::Own(Own::FunctionCall {
            call_id,
            name: identifier(&call.name),
            arguments: arguments(&call.arguments),
        }),
    })
}

fn result(Answered { id: call_id, result }: Answered<'_>) -> Item<'_> {
    let text = |content: &Content| match content {
        Content::Text { text } => Some(text.clone()),
        Content::Image { .. } => None,
    };
    let texts: Option<Vec<String>> = result.content.iter().map(text).collect();
    let output = match texts {
        Some(texts) => Output::Text(texts.join("\n")),
        None => Output::Parts(result.content.iter().map(shown).collect()),
    };
    Item::Own(Own::FunctionCallOutput { call_id, output })
}

fn shown(content: &Content) -> Part<'_> {
    match content {
        Content::Text { text } => Part::InputText { text },
        Content::Image { media_type, data } => Part::InputImage {
            image_url: format!("data:{media_type};base64,{data}"),
            detail: "auto",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_models_that_reason_are_asked_for_their_reasoning() {
        for (model, expected) in [
            ("gpt-5.5", true),
            ("o4-mini", true),
            ("codex-mini-latest", true),
            ("openai/gpt-oss-120b", true),
            ("gpt-4.1", false),
            ("gpt-4o-mini", false),
            ("gpt-5-chat-latest", false),
        ] {
            assert_eq!(reasons(model), expected, "{model}");
        }
    }
}
