//! What a job is done with. The binary, which alone knows configuration and
//! adapters, provides it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_runtime::{Aide, Embed, Indexes, Models};
use cofferdam_sandbox::{Backend, Grade, NoSuchBackend};
use cofferdam_store::UploadId;
use cofferdam_types::{JobId, JobSpec, Network, Usd};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

/// What somebody asks for. What is not said is the server's to decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// What is to be done.
    pub task: String,
    /// The model that plans and directs: `provider/name`.
    pub model: Option<String>,
    /// The model that writes code.
    pub coder: Option<String>,
    /// The model that writes summaries.
    pub summariser: Option<String>,
    /// Commands that prove the work done.
    pub checks: Vec<String>,
    /// How often the work may be handed in and fail a check.
    pub attempts: Option<u32>,
    /// Answers of models.
    pub turns: Option<u32>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Money.
    pub cost: Option<Usd>,
    /// Time.
    pub time: Option<Duration>,
    /// What may be reached from inside.
    pub network: Option<Network>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// CPUs, in thousandths.
    pub milli_cpus: Option<u32>,
    /// Processes.
    pub pids: Option<u32>,
    /// Bytes of the workspace.
    pub disk: Option<u64>,
    /// The back end's name.
    pub sandbox: Option<String>,
    /// The least isolation that will do.
    pub require: Option<String>,
    /// Variables set for every command.
    pub variables: Vec<(String, String)>,
    /// Greater goes first.
    pub priority: i16,
    /// The archive that the workspace begins with.
    pub upload: Option<UploadId>,
}

/// Why a wish cannot be fulfilled by anybody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct WishError {
    /// Why.
    pub cause: String,
    /// What would do.
    pub remedy: String,
}

/// What a job's workspace begins with, before it is anywhere.
pub trait Beginning: Send + Sync {
    /// The files with these names that it has at its top, none of them larger than this.
    fn read(
        &self,
        names: &'static [&'static str],
        largest: u64,
    ) -> BoxFuture<'_, Result<BTreeMap<String, Vec<u8>>, String>>;
}

/// Makes of wishes what a job is driven with.
pub trait Outfit: Send + Sync {
    /// The job, complete, that works in this directory. Fails where the wish makes
    /// no sense, asks for a model or back end that is not there, or for a limit on
    /// money without a price.
    ///
    /// # Errors
    /// As said.
    fn spec(&self, wish: &Wish, job: JobId, workspace: PathBuf) -> Result<JobSpec, WishError>;

    /// What the engine needs to know besides.
    fn engine(&self, spec: &JobSpec) -> cofferdam_engine::Settings;

    /// The models of a job.
    ///
    /// # Errors
    /// Why they cannot be had.
    fn models(&self, spec: &JobSpec) -> Result<Models, String>;

    /// What opens the indexes of what jobs have let go.
    fn indexes(&self) -> Arc<dyn Indexes>;

    /// Who says what texts mean, if anybody does, for what jobs look up.
    fn embedder(&self) -> Option<Arc<dyn Embed>>;

    /// What runs code cells in sandboxes, if anything does.
    fn aide(&self) -> Option<Aide>;

    /// The back end of this name; `auto` is one that can be as strong as required.
    ///
    /// # Errors
    /// Why there is none.
    fn backend(&self, name: &str, required: Grade) -> Result<Arc<dyn Backend>, NoSuchBackend>;

    /// All back ends.
    fn backends(&self) -> Vec<Arc<dyn Backend>>;

    /// The key of the image that these files ask for, which is made if it is not there: the one
    /// that is known, if one is. As [`Images::make`](cofferdam_runtime::Images::make).
    ///
    /// # Errors
    /// Why there is no image, and what would mend that.
    fn make_image<'a>(
        &'a self,
        files: &'a dyn Beginning,
        known: Option<String>,
        tell: mpsc::Sender<String>,
    ) -> BoxFuture<'a, Result<String, String>>;

    /// The models that can be named, as far as they are known without asking
    /// anybody.
    fn model_names(&self) -> Vec<String>;
}
