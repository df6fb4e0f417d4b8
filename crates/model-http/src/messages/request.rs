//! A conversation as a body for Anthropic Messages.
//!
//! Four cache marks, which is what the provider allows: the last tool, the
//! system prompt, and the last two turns of the user. The one before the last
//! finds what the request before has stored, the last stores for the next one.
//! Marks aside, a longer conversation begins with the bytes of the shorter.

use cofferdam_model::Request;
use cofferdam_types::{Content, Message};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Sealed;
use crate::calls::{identifier, raw_arguments};
use crate::turns::{self, Answered, Turn, is_blank, turns};
use crate::wire::Options;
use cofferdam_model::Wire;

/// The least that the provider takes for a budget of thinking.
const LEAST_THINKING: u32 = 1024;
/// How many turns of the user carry a cache mark.
const MARKED_TURNS: usize = 2;

#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Said<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Enabled { budget_tokens: u32 },
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
struct Said<'a> {
    role: Role,
    content: Vec<Part<'a>>,
}

#[derive(PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Mark {
    Ephemeral,
}

#[derive(Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    kind: Kind<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Kind<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Thinking {
        thinking: &'a str,
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Part<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
}

impl<'a> From<Kind<'a>> for Part<'a> {
    fn from(kind: Kind<'a>) -> Self {
        Self { kind, cache_control: None }
    }
}

/// The body of a request.
pub(crate) fn body<'a>(request: &'a Request, options: &'a Options) -> Body<'a> {
    let mut messages: Vec<Said<'a>> =
        turns(&request.messages, Wire::Messages).into_iter().map(said).collect();
    let users = messages.iter_mut().rev().filter(|said| said.role == Role::User);
    for said in users.take(MARKED_TURNS) {
        if let Some(last) = said.content.last_mut() {
            last.cache_control = Some(Mark::Ephemeral);
        }
    }
    let mut system: Vec<Part<'a>> = Vec::new();
    if !request.system.trim().is_empty() {
        let kind = Kind::Text { text: &request.system };
        system.push(Part { kind, cache_control: Some(Mark::Ephemeral) });
    }
    let mut tools: Vec<Tool<'a>> = request
        .tools
        .iter()
        .map(|tool| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.schema,
            cache_control: None,
        })
        .collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(Mark::Ephemeral);
    }
    Body {
        model: &options.model,
        max_tokens: request.max_output,
        stream: true,
        thinking: thinking(request, options),
        system,
        tools,
        messages,
    }
}

/// Asks for thinking where the provider allows it: within half of the output,
/// and not in the middle of a turn of tools that began without.
fn thinking(request: &Request, options: &Options) -> Option<Thinking> {
    let budget_tokens = options.thinking?.min(request.max_output / 2);
    let asked =
        request.messages.iter().rposition(|message| matches!(message, Message::User { .. }));
    let since = request.messages.get(asked.map_or(0, |asked| asked + 1)..).unwrap_or_default();
    let open = turns(since, Wire::Messages);
    let fits = match open.first() {
        Some(Turn::Model { parts }) => matches!(parts.first(), Some(turns::Part::Thinking(..))),
        _ => true,
    };
    (fits && budget_tokens >= LEAST_THINKING).then_some(Thinking::Enabled { budget_tokens })
}

fn said(turn: Turn<'_>) -> Said<'_> {
    match turn {
        Turn::User { results, content: spoken } => {
            let mut content: Vec<Part<'_>> = results.into_iter().map(result).collect();
            content.extend(spoken.into_iter().map(shown));
            Said { role: Role::User, content }
        }
        Turn::Model { parts } => {
            let content = parts.into_iter().filter_map(spoken).map(Part::from).collect();
            Said { role: Role::Assistant, content }
        }
    }
}

fn spoken(part: turns::Part<'_>) -> Option<Kind<'_>> {
    Some(match part {
        turns::Part::Text(text) => Kind::Text { text },
        turns::Part::Thinking(thinking, seal) => match serde_json::from_str(&seal.data).ok()? {
            Sealed::Thinking { signature } => Kind::Thinking { thinking, signature },
            Sealed::RedactedThinking { data } => Kind::RedactedThinking { data },
        },
        turns::Part::Call { id, call } => Kind::ToolUse {
            id,
            name: identifier(&call.name),
            input: raw_arguments(&call.arguments),
        },
    })
}

fn result(Answered { id: tool_use_id, result }: Answered<'_>) -> Part<'_> {
    let content = result.content.iter().filter(|content| !is_blank(content)).map(shown).collect();
    Kind::ToolResult { tool_use_id, content, is_error: result.failed }.into()
}

fn shown(content: &Content) -> Part<'_> {
    match content {
        Content::Text { text } => Kind::Text { text }.into(),
        Content::Image { media_type, data } => {
            Kind::Image { source: Source::Base64 { media_type, data } }.into()
        }
    }
}
