//! What becomes of a conversation that is longer than a model can read.

use serde::{Deserialize, Serialize};

/// A part of a conversation that is replaced by a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Span {
    /// The oldest messages: those of events up to this one.
    Messages {
        /// The number of the last event.
        through: u64,
    },
    /// The oldest summaries.
    Summaries {
        /// How many.
        count: u32,
    },
}

/// How a conversation was shortened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Cut {
    /// Texts longer than this, of events up to this one, were cut to their beginning and
    /// end, and reads that later ones have made useless were left out.
    Pruned {
        /// The number of the last event.
        through: u64,
        /// Bytes that stay of a text.
        keep: u64,
    },
    /// A part was replaced by a summary.
    Summarised {
        /// Which part.
        span: Span,
        /// The summary.
        summary: String,
        /// Who wrote it.
        by: Summariser,
    },
}

/// Who wrote a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Summariser {
    /// The model of that role.
    Model,
    /// We, by rule: no model would do it well.
    Rule,
}

/// Something too long to be read at once, kept apart in pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// What to read it by.
    pub handle: String,
    /// How many pieces it has.
    pub pieces: u32,
}
