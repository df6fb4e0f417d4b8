//! Jobs, as they are asked for and as they are.

use std::collections::BTreeMap;

use cofferdam_types::{JobId, Usd};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A task to be done. What is not said is the server's to decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateJob {
    /// What is to be done, in plain words.
    #[schema(
        min_length = 1,
        max_length = 100_000,
        pattern = r"^[^\u0000]*$",
        example = "Write a CSV filter in Python"
    )]
    pub task: String,
    /// The model that plans, directs and judges: `provider/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$",
        example = "demo"
    )]
    pub model: Option<String>,
    /// The model that writes code. Without it the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    pub coder: Option<String>,
    /// The model that writes summaries when the conversation gets too long. Without it
    /// the server's, or the one that plans where that is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    pub summariser: Option<String>,
    /// Commands for a shell in the workspace that prove the work done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 32)]
    pub checks: Vec<String>,
    /// How often the work may be handed in and fail a check.
    #[serde(
        default,
        deserialize_with = "crate::whole::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 1_000)]
    pub attempts: Option<u32>,
    /// Answers of models.
    #[serde(
        default,
        deserialize_with = "crate::whole::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_turns: Option<u32>,
    /// Tokens, read and written.
    #[serde(
        default,
        deserialize_with = "crate::whole::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 1_000_000_000_000_i64)]
    pub max_tokens: Option<u64>,
    /// Money, in US dollars: `0.50`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        max_length = 32,
        pattern = r"^\$?([0-9]+(\.[0-9]{0,9})?|\.[0-9]{1,9})$",
        example = "0.50"
    )]
    pub max_cost: Option<String>,
    /// Time in which it is worked on: `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        max_length = 32,
        pattern = r"^([0-9]+\.?[0-9]*|\.[0-9]+)(ms|s|m|h|d)?$",
        example = "10m"
    )]
    pub timeout: Option<String>,
    /// What may be reached from inside: `none`, `open`, or `allow:HOST[:PORT],...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 10_000, pattern = "^(none|open|allow:.*)$", example = "none")]
    pub network: Option<String>,
    /// Memory of its sandbox: `512M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        max_length = 32,
        pattern = r"^([0-9]+\.?[0-9]*|\.[0-9]+)[KkMmGgTt]?(iB|B|b)?$",
        example = "512M"
    )]
    pub memory: Option<String>,
    /// CPUs of its sandbox: `2`, `0.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 32, pattern = r"^([0-9]+\.?[0-9]*|\.[0-9]+)$", example = "2")]
    pub cpus: Option<String>,
    /// Processes of its sandbox.
    #[serde(
        default,
        deserialize_with = "crate::whole::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub pids: Option<u32>,
    /// How much the workspace may grow by: `2G`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        max_length = 32,
        pattern = r"^([0-9]+\.?[0-9]*|\.[0-9]+)[KkMmGgTt]?(iB|B|b)?$",
        example = "2G"
    )]
    pub disk: Option<String>,
    /// The back end that makes the sandbox: `auto`, `native`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 64,
        pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$",
        example = "auto"
    )]
    pub sandbox: Option<String>,
    /// The least isolation that will do: `contained`, `bounded`, `virtual`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, example = "contained")]
    pub require: Option<String>,
    /// Variables set for every command in the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Greater goes first; only admins may ask for more than 0.
    #[serde(
        default,
        deserialize_with = "crate::whole::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = -100, maximum = 100)]
    pub priority: Option<i16>,
    /// The archive that the workspace begins with: the id of an upload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub upload: Option<String>,
}

impl CreateJob {
    /// This task, and everything else as the server decides.
    pub fn task(task: impl Into<String>) -> Self {
        Self { task: task.into(), ..Self::default() }
    }
}

/// What a job is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It waits for its turn.
    Pending,
    /// It is worked on.
    Running,
    /// The work is done.
    Complete,
    /// It ended without that.
    Error,
    /// Somebody stopped it.
    Cancelled,
}

impl JobStatus {
    /// Whether nothing follows, unless somebody wants it.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Complete | Self::Error | Self::Cancelled => true,
        }
    }

    /// Its name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The work is done.
    Complete,
    /// The model says it is done, and the checks say it is not.
    Unverified,
    /// The task could not be done.
    Failed,
    /// A limit was reached first.
    LimitReached,
    /// No model could be reached, or it refused.
    ModelUnavailable,
    /// There was no sandbox to work in, or it was lost.
    SandboxUnavailable,
    /// Somebody stopped it.
    Cancelled,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its name.
    #[schema(value_type = String, format = "uuid")]
    pub id: JobId,
    /// Whose it is.
    #[schema(format = "uuid")]
    pub user: String,
    /// The first line of its task, cut.
    pub title: String,
    /// What is to be done. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What it is at.
    pub status: JobStatus,
    /// Whether it rests until somebody resumes it.
    pub paused: bool,
    /// How it ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Whether checks have proved the work done; only when it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// What the model says of its work, at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why it ended in an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it was asked for.
    #[schema(format = DateTime)]
    pub created: String,
    /// When it was first taken up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub started: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub ended: Option<String>,
    /// Greater goes first.
    pub priority: i16,
    /// The model that plans, directs and judges. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that writes code. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coder: Option<String>,
    /// The model that writes summaries, where it is not the one that plans. Not in
    /// lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summariser: Option<String>,
    /// Commands that prove the work done. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<String>>,
    /// What may be reached from inside. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The archive that its workspace began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub upload: Option<String>,
    /// Answers of models, as of its last ending.
    pub turns: u32,
    /// Tokens, read and written, as of its last ending.
    pub tokens: u64,
    /// Those of them that were read, as of its last ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_read: Option<u64>,
    /// Those of the read ones that a provider still had in its cache, which costs less;
    /// none where no provider has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_cached: Option<u64>,
    /// Money in US dollars, as far as prices are known, as of its last ending.
    #[schema(value_type = String, example = "0.0123")]
    pub cost: Usd,
    /// Milliseconds in which it was worked on, as of its last ending.
    pub time_ms: u64,
    /// The number of its last event.
    pub last_event: u64,
    /// Where the project is, once it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Where to go from here.
    pub links: JobLinks,
}

/// Where to go from a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobLinks {
    /// The job.
    #[serde(rename = "self")]
    pub this: String,
    /// Its events.
    pub events: String,
    /// The project, also while it is worked on.
    pub output: String,
    /// Its files.
    pub files: String,
}

/// Some jobs, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// What to ask for the next page with; none at the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
