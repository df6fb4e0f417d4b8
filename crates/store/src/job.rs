//! A job as a store keeps it.

use std::time::Duration;

use cofferdam_types::{Ending, JobId, JobSpec, Record, Spent, Timestamp};
use serde::{Deserialize, Serialize};

use crate::blobs::Blob;
use crate::ids::{NodeId, UploadId, UserId};

/// What a job is at, as people ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It waits for its turn.
    Pending,
    /// It is worked on, or was when its server died.
    Running,
    /// The work is done.
    Complete,
    /// It ended without that.
    Error,
    /// Somebody stopped it.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Running, Self::Complete, Self::Error, Self::Cancelled];

    /// Whether nothing follows, unless somebody wants it.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Complete | Self::Error | Self::Cancelled => true,
        }
    }

    /// Its name, as stored and shown.
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

    /// The status of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// A job's row: what the log says of it, kept where it can be searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its name.
    pub id: JobId,
    /// Whose it is.
    pub user: UserId,
    /// The first line of its task, cut.
    pub title: String,
    /// What it is at.
    pub status: Status,
    /// Whether it rests until somebody resumes it. Not leased while it does.
    pub paused: bool,
    /// Greater goes first.
    pub priority: i16,
    /// When it was asked for.
    pub created: Timestamp,
    /// When a process first took it up.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub ending: Option<Ending>,
    /// What it has used, as of its last ending.
    pub spent: Spent,
    /// The number of its last event.
    pub last_seq: u64,
    /// The archive that its workspace begins with.
    pub upload: Option<UploadId>,
    /// The server that holds its lease, or held it last: its workspace is there.
    pub node: Option<NodeId>,
    /// Counts the leases; the fence of the present one.
    pub epoch: u64,
}

/// Characters of a title.
const TITLE: usize = 120;

impl JobRow {
    /// The row of a job that was just asked for.
    #[must_use]
    pub fn new(job: &NewJob) -> Self {
        let first_line = job.spec.task.trim().lines().next().unwrap_or_default();
        Self {
            id: job.spec.job,
            user: job.user,
            title: first_line.chars().take(TITLE).collect(),
            status: Status::Pending,
            paused: false,
            priority: job.priority,
            created: job.created,
            started: None,
            ended: None,
            ending: None,
            spent: Spent::default(),
            last_seq: 1,
            upload: job.upload,
            node: None,
            epoch: 0,
        }
    }
}

/// A job to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// What is asked for.
    pub spec: JobSpec,
    /// By whom.
    pub user: UserId,
    /// Greater goes first.
    pub priority: i16,
    /// When.
    pub created: Timestamp,
    /// What makes a repeated submission the same one.
    pub idempotency: Option<Idempotency>,
    /// The archive that its workspace begins with. It must be the user's.
    pub upload: Option<UploadId>,
    /// How much may wait.
    pub bounds: QueueBounds,
}

impl NewJob {
    /// Its first event.
    #[must_use]
    pub fn first_record(&self) -> Record {
        Record {
            v: cofferdam_types::LOG_VERSION,
            seq: 1,
            at: self.created,
            event: cofferdam_types::Event::Created { spec: Box::new(self.spec.clone()) },
        }
    }
}

/// What makes a repeated submission the same one. Scoped by user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The client's key.
    pub key: String,
    /// A hash of what was submitted under it.
    pub fingerprint: [u8; 32],
}

/// How many jobs may be there that are not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Of all users.
    pub all: u32,
    /// Of one user.
    pub per_user: u32,
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The job is kept.
    New,
    /// It was kept before, under this name.
    Before(JobId),
    /// The key was used for something else.
    KeyReused,
    /// Too much waits already.
    TooMany {
        /// Whether it is this user's own that are too many.
        own: bool,
    },
}

/// How long a key is remembered at least.
pub const KEY_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// An event as it is stored: the record's JSON, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// The record.
    pub text: String,
}

impl Line {
    /// The line of a record.
    ///
    /// # Errors
    /// When the record has no JSON, which none of ours lacks.
    pub fn of(record: &Record) -> Result<Self, serde_json::Error> {
        Ok(Self { seq: record.seq, text: serde_json::to_string(record)? })
    }

    /// The record of the line.
    ///
    /// # Errors
    /// When a later release wrote it, or nobody.
    pub fn record(&self) -> Result<Record, serde_json::Error> {
        serde_json::from_str(&self.text)
    }
}

/// A file that a job has made, kept under a name. Its row is written after its
/// bytes are safe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Whose.
    pub job: JobId,
    /// Its name: `output.zip`, say. A later one of the same name takes its place.
    pub name: String,
    /// The bytes.
    pub blob: Blob,
    /// When it was made.
    pub at: Timestamp,
}

/// An archive that a user has sent, as a tar of safe entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// Its name.
    pub id: UploadId,
    /// Whose.
    pub user: UserId,
    /// The bytes.
    pub blob: Blob,
    /// When it came.
    pub at: Timestamp,
}
