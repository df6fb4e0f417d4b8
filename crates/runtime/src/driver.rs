//! What a job is driven with, and the words between the drive and those around it.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use cofferdam_engine::{Run, Settings};
use cofferdam_model::{Delta, Model};
use cofferdam_recall::Embed;
use cofferdam_sandbox::{Backend, Files, Lifetime, Sandbox};
use cofferdam_store::OrderId;
use cofferdam_tools::Aide;
use cofferdam_types::{CallId, Cancel, Ending, Place, Record, Role, ThreadId};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::door::Door;
use crate::log::{LogError, TakenOver};
use crate::memory::Indexes;
use crate::past::{Past, Traces};

/// Everything a job is driven with.
pub struct Driver {
    /// Its state.
    pub run: Run,
    /// What its log tells besides.
    pub traces: Traces,
    /// Its log, to be read.
    pub past: Arc<dyn Past>,
    /// What the engine needs to know besides.
    pub settings: Settings,
    /// The models to ask.
    pub models: Models,
    /// What makes its sandbox.
    pub backend: Arc<dyn Backend>,
    /// Its sandbox: what the job says, in a directory of this machine.
    pub place: Place,
    /// Who makes the image that the job's own files ask for, where it can ask for one.
    pub images: Option<Arc<dyn Images>>,
    /// What runs code cells there, if anything does.
    pub aide: Option<Aide>,
    /// What ends the sandbox. One that lingers is taken up again by whoever
    /// drives the job next, with what it has kept of calls.
    pub lifetime: Lifetime,
    /// What its workspace began with.
    pub origin: Origin,
    /// Whether the workspace was lost, so that what it began with has to be put
    /// there again.
    pub replant: bool,
    /// Where its own files are kept: long outputs, and what it can look things up in.
    /// It is made when it is needed.
    pub directory: PathBuf,
    /// What opens the index of what it has let go.
    pub indexes: Arc<dyn Indexes>,
    /// Who says what texts mean, if anybody does, for what the job looks up.
    pub embedder: Option<Arc<dyn Embed>>,
    /// Who else gets the result, before the sandbox closes.
    pub delivery: Option<Box<dyn Delivery>>,
    /// How it is taken up.
    pub opening: Opening,
    /// The way into its sandbox for others.
    pub door: Door,
    /// What people want of it.
    pub orders: mpsc::Receiver<Order>,
    /// Who watches. The job waits for a slow watcher.
    pub notices: mpsc::Sender<Notice>,
}

/// The models of the roles.
#[derive(Clone)]
pub struct Models {
    /// Plans, directs and judges.
    pub orchestrator: Arc<dyn Model>,
    /// Writes code.
    pub coder: Arc<dyn Model>,
    /// Writes summaries.
    pub summariser: Arc<dyn Model>,
}

impl Models {
    pub(crate) fn of(&self, role: Role) -> Arc<dyn Model> {
        match role {
            Role::Orchestrator => Arc::clone(&self.orchestrator),
            Role::Coder => Arc::clone(&self.coder),
            Role::Summariser => Arc::clone(&self.summariser),
        }
    }
}

/// What a job's workspace began with.
#[derive(Clone)]
pub enum Origin {
    /// What is in its directory. Changes count from when the job was last taken
    /// up, for that is all the directory tells.
    Directory,
    /// Nothing.
    Empty,
    /// This.
    Seed(Arc<dyn Seed>),
}

/// What is put into a workspace before the job begins.
pub trait Seed: Send + Sync {
    /// Puts it there. Doing it again changes nothing.
    fn plant(&self, files: Files) -> BoxFuture<'_, Result<(), String>>;
}

/// Makes the image that a job's own files ask for.
pub trait Images: Send + Sync {
    /// The key of the image, which is made if it is not there: the one that is known, if one is.
    /// Tells what it does, in words, while that takes its time; whoever does not listen misses
    /// it. What is dropped stops.
    ///
    /// # Errors
    /// Why there is no image, and what would mend that.
    fn make(
        &self,
        known: Option<String>,
        tell: mpsc::Sender<String>,
    ) -> BoxFuture<'_, Result<String, String>>;
}

/// Something that takes the result while the sandbox is still there.
pub trait Delivery: Send + Sync {
    /// Takes it; `past` is the job's log. An error is told to the user, and the work does not count as
    /// handed over.
    fn deliver<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        past: &'a dyn Past,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// The job rests, and its sandbox is about to close: takes what would be lost with
    /// it.
    fn rest<'a>(&'a self, _sandbox: &'a Sandbox) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// How a job is taken up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// What the user says to it.
    pub say: Option<String>,
    /// Whether a job that was about to end is only to end.
    pub finish: bool,
    /// The stored order that this answers.
    pub heard: Option<OrderId>,
}

/// What people want of a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What.
    pub wish: OrderKind,
    /// The stored order that it is, which is heard once its events are durable.
    pub stored: Option<OrderId>,
}

impl From<OrderKind> for Order {
    fn from(wish: OrderKind) -> Self {
        Self { wish, stored: None }
    }
}

/// What people can want of a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// It is to stop.
    Cancel(Cancel),
    /// The orchestrator is to hear this.
    Say(String),
    /// It is to rest as soon as nothing is under way.
    Pause,
    /// It is not to rest after all, and the orchestrator is to hear this.
    Resume(Option<String>),
    /// This process is about to stop: nothing new is begun, and once no answer is
    /// being paid for, or at this moment, the job is left to the next process.
    Leave(Instant),
    /// Another process has the job: it is left at once, and its sandbox here is ended.
    Lost,
}

/// How driving a job came to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driven {
    /// The job has ended.
    Ended(Ending),
    /// The job rests; its sandbox is closed.
    Resting,
    /// The job goes on with whoever takes it up next, in the sandbox it has.
    Left,
}

/// What happens in a job, for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An event, now durable.
    Record(Box<Record>),
    /// A piece of an answer that is still coming; it may yet come to nothing.
    Delta {
        /// The conversation.
        thread: ThreadId,
        /// The piece.
        delta: Delta,
    },
    /// Output of a tool that still runs. Pieces are left out when nobody keeps
    /// up; the event at its end has what counts.
    Output {
        /// The call.
        call: CallId,
        /// The bytes.
        bytes: Bytes,
    },
}

/// Why a job could not be driven to its end. What was durable before is still so.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Its log cannot be written.
    #[error("the job's log cannot be written")]
    Log(#[source] LogError),
    /// A task of ours broke.
    #[error("a part of the job broke: {0}")]
    Broken(String),
}

impl DriveError {
    /// Whether another process has the job by now.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Log(error) => error.is::<TakenOver>(),
            Self::Broken(_) => false,
        }
    }
}
