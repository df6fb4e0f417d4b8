//! What a manifest says of a job, besides its files.

use std::time::Duration;

use cofferdam_types::{Ending, JobId, ModelName, Outcome, Role, Spent, Timestamp, ToolStatus};
use serde::{Deserialize, Serialize};

/// A job, as far as it has come. [`About::from_records`] computes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its name.
    pub job: JobId,
    /// What was to be done, in the user's words.
    pub task: Option<String>,
    /// How far it is.
    pub status: Status,
    /// Whether checks have proved the work.
    pub verified: bool,
    /// How it ended, where it has.
    pub ending: Option<Ending>,
    /// The moment all this was true.
    pub at: Option<Timestamp>,
    /// Where the work happened.
    pub isolation: Option<IsolationUsed>,
    /// The models that were asked.
    pub models: Vec<ModelUsed>,
    /// What it used.
    pub spent: Spent,
    /// The checks that were run, in their order.
    pub checks: Vec<CheckRun>,
    /// The commands that were run, in their order.
    pub commands: Vec<CommandRun>,
}

/// How far a job is, in the words of the programming interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not begun.
    Pending,
    /// Under way.
    Running,
    /// Done.
    Complete,
    /// Over, and not done or not proved.
    Error,
    /// Stopped by somebody.
    Cancelled,
}

/// The isolation that the last sandbox really had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationUsed {
    /// The back end.
    pub backend: String,
    /// The grade.
    pub grade: String,
    /// What was weaker than it could be.
    pub weaknesses: Vec<String>,
}

/// A model in a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsed {
    /// The role.
    pub role: Role,
    /// The model.
    pub model: ModelName,
}

/// A check that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// Which hand-in, from 1.
    pub attempt: u32,
    /// The command.
    pub command: String,
    /// Whether it passed.
    pub passed: bool,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took, in milliseconds.
    #[serde(rename = "took_ms", with = "millis")]
    pub took: Duration,
}

/// A command that a model had run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// The command, cut where it is very long.
    pub command: String,
    /// Whether it was left running in the background.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// What became of it; nothing while it runs.
    pub status: Option<ToolStatus>,
    /// Its exit code, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(rename = "took_ms", with = "millis")]
    pub took: Duration,
}

/// Durations as milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
