//! A job as it was asked for: frozen before anything begins, and the only source
//! of policy. Nothing in the workspace can change it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{JobId, Limits, ModelName, Network, Usd};

/// A job, complete: there is no "default elsewhere".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Its name.
    pub job: JobId,
    /// What is to be done, in the user's words.
    pub task: String,
    /// The model that plans, directs and judges.
    pub orchestrator: ModelName,
    /// The model that writes code when it is delegated to.
    pub coder: ModelName,
    /// The model that writes summaries; the one that plans, if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summariser: Option<ModelName>,
    /// What it may use up.
    pub budget: Budget,
    /// Commands that prove the work done, for a shell in the workspace.
    pub checks: Vec<String>,
    /// How often the work may be handed in and fail a check.
    pub attempts: u32,
    /// Where the work happens.
    pub place: Place,
    /// The ZIP file that the result goes into as well.
    pub out: Option<PathBuf>,
}

/// What a job may use up, all roles together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Answers of models.
    pub turns: u32,
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// Money. Needs models whose prices are known.
    pub cost: Option<Usd>,
    /// Time in which a process works on the job.
    #[serde(rename = "time_ms", with = "crate::millis::option")]
    pub time: Option<Duration>,
}

/// The sandbox of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The directory of the host that the work begins from and returns to.
    pub workspace: PathBuf,
    /// The back end's name, or `auto`.
    pub sandbox: String,
    /// The least isolation that will do, by its name.
    pub require: Option<String>,
    /// What may be reached from inside.
    pub network: Network,
    /// What may be used inside.
    pub limits: Limits,
    /// Directories of the host that can be read inside, besides its programs.
    pub readable: Vec<PathBuf>,
    /// The image whose programs are used in place of the host's: its name or its key, or the
    /// directory of an unpacked root file system. See [`Place::TASK_IMAGE`].
    pub image: Option<PathBuf>,
    /// Variables set for every command.
    pub variables: Vec<(String, String)>,
}

impl Place {
    /// What stands in an image's place for the one that the job's own files ask for. Where those
    /// are there before the job is, its record has the image's key instead.
    pub const TASK_IMAGE: &'static str = "task";

    /// Whether the image is the one that the job's own files ask for.
    #[must_use]
    pub fn wants_task_image(&self) -> bool {
        self.image.as_deref() == Some(Path::new(Self::TASK_IMAGE))
    }
}

/// Who speaks with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Talks with the user, plans, directs and judges.
    Orchestrator,
    /// Writes code for one instruction.
    Coder,
    /// Writes summaries of what no longer fits before a model.
    Summariser,
}
