//! What a model is asked, and how it answers.

use cofferdam_types::{Message, ModelName, Role, Seal, StopReason, ThreadId, Tokens, Toolbox};
use futures_util::stream::BoxStream;

use crate::error::ModelError;

/// A language model.
///
/// A fake of it is a list of deltas.
pub trait Model: Send + Sync {
    /// Its name as people write it.
    fn name(&self) -> &ModelName;

    /// Asks it. The stream ends after its first error. A stream that ends well
    /// has had a [`Delta::Stop`]; one without is an answer that was cut off,
    /// whatever came before, and [`crate::Assembler`] says so. Dropping the stream
    /// ends the request.
    fn ask(&self, request: Request) -> DeltaStream;
}

/// An answer as it comes.
pub type DeltaStream = BoxStream<'static, Result<Delta, ModelError>>;

/// A question, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who the model is and what it is to do.
    pub system: String,
    /// The conversation so far. It begins with the user.
    pub messages: Vec<Message>,
    /// What it can call.
    pub tools: Toolbox,
    /// How many tokens it may write.
    pub max_output: u32,
    /// The same for all requests of one conversation: a provider may use it to
    /// find its cache again.
    pub cache_key: String,
    /// Which question of its job this is. No provider is told; a recording is followed by it.
    pub which: Which,
}

/// A question of a job. The job's log tells it, so that it is the same in every process
/// that puts the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    /// Its conversation.
    pub thread: ThreadId,
    /// In which role the model is asked there.
    pub role: Role,
    /// How many questions of that role came to an end there before: they were answered, or
    /// could not be.
    pub earlier: u32,
}

impl Which {
    /// The first question of a job.
    pub const FIRST: Self = Self { thread: ThreadId(0), role: Role::Orchestrator, earlier: 0 };
}

/// A piece of an answer. Pieces of one block come one after another; a piece of
/// another kind or with another index begins a new block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More thinking, as far as the provider shows it.
    Thinking(String),
    /// The thinking so far is a whole block, with this to be sent back. Without
    /// any text before, the block is one that nobody may read.
    Sealed(Seal),
    /// A call begins.
    CallBegun {
        /// Its place among the calls of this answer.
        index: u32,
        /// The provider's name for it.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    Arguments {
        /// Which call.
        index: u32,
        /// The next part of the text.
        text: String,
    },
    /// What was used so far. Each one replaces the one before it.
    Used(Tokens),
    /// The model has stopped, for this reason. Only [`Delta::Used`] may follow.
    Stop(StopReason),
}
