//! From a job's events to the words of its next question, within what the model can
//! read.
//!
//! A [`Conversation`] holds what goes before the model: first the task with what must
//! never be forgotten, then what was said lately. Between two cuts it only grows at its
//! end, so that a provider finds it again in its cache. What has to be done before the
//! next question is a [`Need`]; doing it is a [`Cut`](cofferdam_types::Cut) in the job's
//! log, and the same log leads to the same words again.
//!
//! What is cut is not lost: it stays in the log, and what takes its place says by which
//! number it can be recalled.

mod conversation;
mod counting;
mod cut;
mod describe;
mod done;
mod facts;
mod head;
mod judge;
mod need;
mod prune;
mod room;
mod rule;
mod scale;
mod shorten;
mod transcript;
mod unnamed;

pub use conversation::{Call, Conversation, Part};
pub use counting::Counting;
pub use describe::{CutMade, describe};
pub use facts::Fact;
pub use judge::{Fault, judge};
pub use room::{Need, Room};
pub use rule::rule_summary;
