//! What goes into a job, what comes out of it, and what was done in between.

use cofferdam_types::AuditRecord;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An archive that was taken in, for a job to begin with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Upload {
    /// What to name it by in `upload` of a new job.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its length, as it is kept.
    pub bytes: u64,
    /// SHA-256 of what is kept, in hexadecimal.
    pub sha256: String,
    /// When it came.
    #[schema(format = DateTime)]
    pub created: String,
}

/// A file that a job has made, kept under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created: String,
    /// Where it can be had, if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The files that a job has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactList {
    /// By name.
    pub artifacts: Vec<Artifact>,
}

/// What was done in a job's sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditTrail {
    /// One for each act, in order.
    #[schema(value_type = Vec<Object>)]
    pub records: Vec<AuditRecord>,
    /// Whether there is more than one answer holds: ask for what is `after` the
    /// ones before and these.
    pub more: bool,
}
