//! The three endpoints that most people need: schedule, status, download.

use cofferdam_types::JobId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::JobStatus;

/// A task was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scheduled {
    /// What to ask for its status with.
    #[schema(value_type = String, format = "uuid")]
    pub job_id: JobId,
}

/// What a job is at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusReport {
    /// Which job.
    #[schema(value_type = String, format = "uuid")]
    pub job_id: JobId,
    /// What it is at.
    pub status: JobStatus,
    /// Whether it rests until somebody resumes it.
    pub paused: bool,
    /// Whether checks have proved the work done; only when it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Where the project is; only when it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "/jobs/019a0000-0000-7000-8000-000000000000/output.zip")]
    pub result: Option<String>,
    /// Why it ended; only when that is an error.
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
}
