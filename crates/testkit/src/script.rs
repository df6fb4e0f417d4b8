//! What a scripted model says, and what goes wrong while it says it.

use std::time::Duration;

use cofferdam_types::{StopReason, Tokens};
use serde_json::Value;

/// A wire format. The server knows it by the path of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic Messages, `/v1/messages`.
    Messages,
    /// OpenAI Responses, `/v1/responses`.
    Responses,
    /// OpenAI Chat Completions, `/v1/chat/completions`.
    Chat,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Messages, Self::Responses, Self::Chat];

    /// The dialect spoken at a path.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| path == dialect.path())
    }

    /// The path where it is spoken.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
            Self::Responses => "/v1/responses",
            Self::Chat => "/v1/chat/completions",
        }
    }
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub enum Turn {
    /// As it should be.
    Answer(ScriptedAnswer),
    /// An answer that something happens to.
    Faulty(Fault, ScriptedAnswer),
}

impl Turn {
    /// Says something.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Answer(ScriptedAnswer { text: text.into(), ..ScriptedAnswer::default() })
    }

    /// Calls one tool.
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        Self::calls([(name.into(), arguments)])
    }

    /// Calls several tools at once.
    pub fn calls<Name: Into<String>>(calls: impl IntoIterator<Item = (Name, Value)>) -> Self {
        let calls = calls.into_iter().map(|(name, arguments)| (name.into(), arguments)).collect();
        Self::Answer(ScriptedAnswer { calls, ..ScriptedAnswer::default() })
    }

    /// Answers with a status that is not 200.
    pub fn status(status: u16, headers: &[(&str, &str)], body: impl Into<String>) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let fault = Fault::Status(status, headers.collect(), body.into());
        Self::Faulty(fault, ScriptedAnswer::default())
    }

    /// The same answer, with a fault in the place of the one it had.
    #[must_use]
    pub fn but(self, fault: Fault) -> Self {
        let (Self::Answer(answer) | Self::Faulty(_, answer)) = self;
        Self::Faulty(fault, answer)
    }
}

/// An answer: thinking, then text, then calls, each if there is any.
#[derive(Clone, Debug)]
pub struct ScriptedAnswer {
    /// What it says.
    pub text: String,
    /// What it thinks before.
    pub thinking: String,
    /// The tools it calls, with their arguments.
    pub calls: Vec<(String, Value)>,
    /// Why it stops; without it, as its calls suggest.
    pub stop: Option<StopReason>,
    /// What it used.
    pub usage: Tokens,
}

impl Default for ScriptedAnswer {
    fn default() -> Self {
        Self {
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            stop: None,
            usage: Tokens { input: 100, cache_read: 20, cache_write: 0, output: 10 },
        }
    }
}

impl ScriptedAnswer {
    /// Why it stops.
    pub(crate) fn stop(&self) -> StopReason {
        let natural = if self.calls.is_empty() { StopReason::Done } else { StopReason::Tools };
        self.stop.unwrap_or(natural)
    }
}

/// What happens to an answer. "In the middle of a call" is in the middle of the
/// first call's arguments; an answer without a call is hit in its text instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another status, with headers and a body.
    Status(u16, Vec<(String, String)>, String),
    /// An error event ("overloaded") after the first piece of the answer.
    ErrorEvent,
    /// The connection is reset in the middle of a call.
    ResetMidCall,
    /// The connection is reset after the text.
    ResetAfterText,
    /// The body ends, as far as HTTP goes well, in the middle of a call.
    EndMidCall,
    /// The body ends well after the text.
    EndAfterText,
    /// The body ends well in the middle of an event.
    EndMidEvent,
    /// The last event comes and says no reason for the end. There is no such
    /// stream in [`Dialect::Responses`], whose last event is its reason.
    NoStopReason,
    /// Nothing is answered, not even a status.
    StallHeaders,
    /// Nothing comes any more in the middle of a call.
    StallStream,
    /// The same, with a sign of life (a ping or a comment) at this interval.
    StallPinging(Duration),
    /// A whole stream in which the arguments of the last call are cut.
    CutArguments,
    /// The first call is to a tool that nobody offered.
    UnknownTool,
    /// Every character of several bytes comes in two pieces.
    SplitUtf8,
    /// The text has bytes in it that are not UTF-8.
    InvalidUtf8,
    /// The arguments of the first call have.
    InvalidUtf8InCall,
    /// The text is so many bytes long.
    HugeText(usize),
    /// Nothing is said, and no tool called.
    Empty,
    /// The answer reaches the output limit; its last call, if any, is cut.
    OutputLimit,
}

impl Fault {
    /// The wire formats in which it exists.
    #[must_use]
    pub fn dialects(&self) -> &'static [Dialect] {
        match self {
            Self::NoStopReason => &[Dialect::Messages, Dialect::Chat],
            _ => &Dialect::ALL,
        }
    }
}
