//! A conversation as a body for Chat Completions.
//!
//! Only what every compatible server takes: text as plain strings where there is
//! nothing but text, and pictures from tools as a message of the user's, because
//! the results of tools are text here.

use cofferdam_model::Request;
use cofferdam_types::Content;
use serde::Serialize;
use serde_json::Value;

use crate::calls::{arguments, identifier};
use crate::turns::{Answered, Part, Turn, turns};
use crate::wire::Options;
use cofferdam_model::Wire;

#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", content = "function", rename_all = "snake_case")]
enum Tool<'a> {
    Function { name: &'a str, description: &'a str, parameters: &'a Value },
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Spoken<'a>,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Spoken<'a> {
    Text(String),
    Parts(Vec<Shown<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Shown<'a> {
    Text { text: std::borrow::Cow<'a, str> },
    ImageUrl { image_url: Picture },
}

#[derive(Serialize)]
struct Picture {
    url: String,
}

#[derive(Serialize)]
struct Call {
    id: String,
    #[serde(flatten)]
    function: Function,
}

#[derive(Serialize)]
#[serde(tag = "type", content = "function", rename_all = "snake_case")]
enum Function {
    Function { name: String, arguments: String },
}

/// The body of a request.
pub(crate) fn body<'a>(request: &'a Request, options: &'a Options) -> Body<'a> {
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(Message::System { content: &request.system });
    }
    for turn in turns(&request.messages, Wire::Chat) {
        match turn {
            Turn::User { results, content } => {
                hear(&mut messages, results, content.into_iter().map(shown).collect());
            }
            Turn::Model { parts } => messages.push(said(parts)),
        }
    }
    let tool = |tool: &'a cofferdam_types::ToolSpec| Tool::Function {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.schema,
    };
    // The provider itself wants the newer name; most others know only the older.
    let newer = options.host.ends_with(".openai.com") || options.host.ends_with(".azure.com");
    Body {
        model: &options.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens: (!newer).then_some(request.max_output),
        max_completion_tokens: newer.then_some(request.max_output),
        tools: request.tools.iter().map(tool).collect(),
        messages,
    }
}

/// Results, then their pictures with what the user says in one message.
fn hear<'a>(messages: &mut Vec<Message<'a>>, results: Vec<Answered<'a>>, spoken: Vec<Shown<'a>>) {
    let mut parts = Vec::new();
    for Answered { id, result } in results {
        let pictures = result.content.iter().filter(|content| is_picture(content));
        let pictures: Vec<_> = pictures.map(shown).collect();
        let mut content = text_of(&result.content);
        if !pictures.is_empty() {
            let text = format!("The picture in the result of {id}:");
            parts.push(Shown::Text { text: text.into() });
            parts.extend(pictures);
            if content.is_empty() {
                "A picture follows.".clone_into(&mut content);
            }
        }
        messages.push(Message::Tool { tool_call_id: id, content });
    }
    parts.extend(spoken);
    if !parts.is_empty() {
        messages.push(Message::User { content: plain(parts) });
    }
}

/// Parts as one text, if there is nothing but text.
fn plain(parts: Vec<Shown<'_>>) -> Spoken<'_> {
    let text = |part: &Shown<'_>| match part {
        Shown::Text { text } => Some(text.to_string()),
        Shown::ImageUrl { .. } => None,
    };
    match parts.iter().map(text).collect::<Option<Vec<_>>>() {
        Some(texts) => Spoken::Text(texts.join("\n\n")),
        None => Spoken::Parts(parts),
    }
}

fn said(parts: Vec<Part<'_>>) -> Message<'_> {
    let mut texts = Vec::new();
    let mut tool_calls = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => texts.push(text),
            // This wire has no seals.
            Part::Thinking(..) => {}
            Part::Call { id, call } => tool_calls.push(Call {
                id,
                function: Function::Function {
                    name: identifier(&call.name),
                    arguments: arguments(&call.arguments),
                },
            }),
        }
    }
    let content = (!texts.is_empty()).then(|| texts.join("\n\n"));
    Message::Assistant { content, tool_calls }
}

fn is_picture(content: &Content) -> bool {
    matches!(content, Content::Image { .. })
}

fn text_of(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|content| match content {
        Content::Text { text } => Some(text.as_str()),
        Content::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn shown(content: &Content) -> Shown<'_> {
    match content {
        Content::Text { text } => Shown::Text { text: text.into() },
        Content::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{data}");
            Shown::ImageUrl { image_url: Picture { url } }
        }
    }
}
