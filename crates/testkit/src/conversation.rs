//! One fixed, rich conversation: everything that an adapter has to translate.

use cofferdam_model::Request;
use cofferdam_types::{Arguments, Block, Content, Message, Seal, ToolCall, ToolResult, ToolSpec};
use serde_json::{Value, json};

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The fixture. Its requests grow as a real conversation does: the first holds
/// the task alone, each later one an answer more and what came back for it.
#[derive(Clone, Copy, Debug)]
pub struct Conversation;

impl Conversation {
    /// How many requests the conversation has.
    pub const REQUESTS: usize = 4;

    /// The last request: the whole conversation.
    #[must_use]
    pub fn whole() -> Request {
        Self::request(Self::REQUESTS - 1)
    }

    /// The request with this number, from 0.
    #[must_use]
    pub fn request(number: usize) -> Request {
        let mut messages = vec![Message::User {
            content: vec![Content::text("Make the button look like this:"), picture()],
        }];
        let turns = [two_calls(), malformed_call(), a_question()];
        messages.extend(turns.into_iter().take(number).flatten());
        Request {
            system: "You are a careful engineer.".to_owned(),
            messages,
            tools: tools().into_iter().collect(),
            max_output: 4096,
            cache_key: "job-1/0".to_owned(),
            which: cofferdam_model::Which::FIRST,
        }
    }
}

/// Sealed thinking of both kinds, two calls at once, and their results: one
/// with a picture, one failed.
fn two_calls() -> Vec<Message> {
    let sealed = |text: &str, data: Value| Block::Thinking {
        text: text.to_owned(),
        seal: Some(Seal { wire: "messages".to_owned(), data: data.to_string() }),
    };
    let reasoning = json!({"id": "rs_1", "type": "reasoning", "summary": [],
        "encrypted_content": "c2VhbGVk"});
    vec![
        Message::Model {
            blocks: vec![
                sealed("The page first.", json!({"type": "thinking", "signature": "sig=="})),
                sealed("", json!({"type": "redacted_thinking", "data": "hidden=="})),
                Block::Thinking {
                    text: String::new(),
                    seal: Some(Seal { wire: "responses".to_owned(), data: reasoning.to_string() }),
                },
                Block::Thinking { text: "Seen by nobody's seal.".to_owned(), seal: None },
                Block::Text { text: "I look at the page and run its tests.".to_owned() },
                call("call_1", "read_file", "{\"path\": \"seite.png\"}"),
                // As the model wrote it: its order, its spaces, its number.
                call("call_2", "bash", "{ \"timeout\":1e1,\"command\":\"npm test\" }"),
            ],
        },
        Message::Tools {
            results: vec![
                result("call_1", vec![Content::text("seite.png, 1×1"), picture()], false),
                result("call_2", vec![Content::text("exit code 1: 1 test failed")], true),
            ],
        },
    ]
}

/// A call that was cut and another without arguments, and a remark of ours.
fn malformed_call() -> Vec<Message> {
    vec![
        Message::Model {
            blocks: vec![
                call("call_3", "write_file", "{\"path\": \"button.css\", \"cont"),
                call("call_4", "list_files", ""),
            ],
        },
        Message::Tools {
            results: vec![
                result("call_3", vec![Content::text("the arguments are not valid JSON")], true),
                result("call_4", vec![], false),
            ],
        },
        Message::user("Two attempts are left."),
    ]
}

/// An answer of text alone, and what the user says to it.
fn a_question() -> Vec<Message> {
    vec![
        Message::Model {
            blocks: vec![Block::Text { text: "Which blue: navy or sky?".to_owned() }],
        },
        Message::user("Navy."),
    ]
}

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, description: &str, properties: Value, required: Value| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: json!({"type": "object", "properties": properties, "required": required}),
    };
    let text = json!({"type": "string"});
    vec![
        tool(
            "bash",
            "Runs a command.",
            json!({"command": text, "timeout": {"type": "number"}}),
            json!(["command"]),
        ),
        tool("read_file", "Reads a file.", json!({"path": text}), json!(["path"])),
    ]
}

fn call(id: &str, name: &str, arguments: &str) -> Block {
    Block::ToolCall(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: Arguments(arguments.to_owned()),
    })
}

fn result(id: &str, content: Vec<Content>, failed: bool) -> ToolResult {
    ToolResult { id: id.to_owned(), content, failed }
}

fn picture() -> Content {
    Content::Image { media_type: "image/png".to_owned(), data: PIXEL.to_owned() }
}
