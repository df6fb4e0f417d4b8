//! What is said between us and a language model, whatever its wire protocol.
//!
//! A conversation is a list of [`Message`]s. What a model said is kept exactly
//! as it came, its [`Seal`]s and the text of its [`Arguments`] included: the next
//! request sends it back unchanged.

use std::fmt;
use std::ops::{Add, AddAssign, Deref};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Message {
    /// From the user, or from us in the user's place.
    User {
        /// What is said.
        content: Vec<Content>,
    },
    /// From the model.
    Model {
        /// What it said, in its order.
        blocks: Vec<Block>,
    },
    /// What became of the calls in the model's last message: one result for each
    /// of them, in their order.
    Tools {
        /// The results.
        results: Vec<ToolResult>,
    },
}

impl Message {
    /// A message of text from the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { content: vec![Content::text(text)] }
    }
}

/// Something a model can be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// `image/png`, say.
        media_type: String,
        /// Its bytes in base64.
        data: String,
    },
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A part of what a model said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought before it spoke.
    Thinking {
        /// As far as the provider shows it; may be empty.
        text: String,
        /// What the provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seal: Option<Seal>,
    },
    /// A tool to be called.
    ToolCall(ToolCall),
}

/// A provider's own data about a block. It is sent back to the same wire
/// protocol as it came, and shown to nobody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The wire protocol that understands it: `messages`, `responses`.
    pub wire: String,
    /// The data, as JSON text.
    pub data: String,
}

/// A model's wish to have a tool called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's name for the call; its result carries the same.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// With what.
    pub arguments: Arguments,
}

/// The arguments of a call, as the model wrote them: JSON, or what it took for
/// JSON. Nobody ever repairs them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arguments(pub String);

impl Arguments {
    /// What the text means.
    ///
    /// # Errors
    /// When it is not one whole JSON object. Nothing at all is an empty object:
    /// that is how some providers write a call without arguments.
    pub fn object(&self) -> Result<serde_json::Map<String, serde_json::Value>, ArgumentsError> {
        if self.0.trim().is_empty() {
            return Ok(serde_json::Map::new());
        }
        match serde_json::from_str(&self.0)? {
            serde_json::Value::Object(object) => Ok(object),
            _ => Err(ArgumentsError::NoObject),
        }
    }
}

/// Why arguments mean nothing.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentsError {
    /// They are not JSON.
    #[error("the arguments are not valid JSON: {0}")]
    Malformed(#[from] serde_json::Error),
    /// They are JSON of another kind.
    #[error("the arguments are not a JSON object")]
    NoObject,
}

/// What became of a tool call, as the model is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's [`ToolCall::id`].
    pub id: String,
    /// What the model sees.
    pub content: Vec<Content>,
    /// Whether the call did not do what it was meant to.
    pub failed: bool,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: serde_json::Value,
}

/// The tools of a role. Clones share them: every question of every job has some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolbox(Arc<Tools>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Tools {
    specs: Vec<ToolSpec>,
    bytes: usize,
}

impl Toolbox {
    /// Bytes of their names, descriptions and schemas.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }
}

impl FromIterator<ToolSpec> for Toolbox {
    fn from_iter<Specs: IntoIterator<Item = ToolSpec>>(specs: Specs) -> Self {
        let specs: Vec<ToolSpec> = specs.into_iter().collect();
        let bytes = |tool: &ToolSpec| {
            tool.name.len() + tool.description.len() + tool.schema.to_string().len()
        };
        Self(Arc::new(Tools { bytes: specs.iter().map(bytes).sum(), specs }))
    }
}

impl Deref for Toolbox {
    type Target = [ToolSpec];

    fn deref(&self) -> &[ToolSpec] {
        &self.0.specs
    }
}

/// Everything a model said in one answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What it said.
    pub blocks: Vec<Block>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it used.
    pub tokens: Tokens,
}

impl Answer {
    /// The calls in it, in their order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Its text for the user, without thinking and calls.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// Why a model stopped. A stream that ends without one of these was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had no more to say.
    Done,
    /// It waits for its tools.
    Tools,
    /// Its answer reached the output limit and is cut.
    OutputLimit,
    /// It declined, or a filter of its provider stopped it.
    Refused,
}

/// What an answer used. The parts of the input are counted apart: `input` holds
/// only what was neither read from nor written to the provider's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read at the full price.
    pub input: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Read and put into the provider's cache.
    pub cache_write: u64,
    /// Written, thinking included.
    pub output: u64,
}

impl Tokens {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read().saturating_add(self.output)
    }

    /// All that were read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

impl Add for Tokens {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
        }
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A model's name as people write it: `provider/model`, or a bare word for a
/// model that is built in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelName(pub String);

impl ModelName {
    /// What stands before the first slash; the whole name if there is none.
    #[must_use]
    pub fn provider(&self) -> &str {
        self.0.split_once('/').map_or(self.0.as_str(), |(provider, _)| provider)
    }

    /// What stands after the first slash; nothing if there is none.
    #[must_use]
    pub fn model(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, model)| model)
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_or_nothing() {
        let object = |text: &str| Arguments(text.to_owned()).object();
        assert_eq!(object(r#"{"a":1}"#).unwrap().len(), 1);
        assert!(object("").unwrap().is_empty());
        for text in [r#"{"a":"#, r#"{"a":1}}"#, "[1]", "null", "text", r#"{"a":1} {"b":2}"#] {
            assert!(object(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_model_name_has_a_provider_and_may_hold_more_slashes() {
        let name = ModelName("openrouter/meta/llama".to_owned());
        assert_eq!((name.provider(), name.model()), ("openrouter", "meta/llama"));
        let name = ModelName("demo".to_owned());
        assert_eq!((name.provider(), name.model()), ("demo", ""));
    }
}
