//! Anthropic Messages.

mod request;
mod stream;

pub(crate) use request::body;
pub(crate) use stream::Decoder;

use serde::{Deserialize, Serialize};

/// What a seal of this wire holds: the part of a block that nobody reads.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Sealed {
    Thinking { signature: String },
    RedactedThinking { data: String },
}
