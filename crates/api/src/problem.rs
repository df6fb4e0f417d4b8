//! Failures, told: RFC 9457 with a code and a remedy.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A failure: what failed, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Names the kind of failure.
    #[serde(rename = "type")]
    #[schema(example = "urn:cofferdam:error:API-004")]
    pub kind: String,
    /// What failed.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// The code of the kind; each has a page in `docs/errors/`.
    #[schema(example = "API-004")]
    pub code: String,
    /// Why.
    pub detail: String,
    /// What to do.
    pub remedy: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.title, self.detail)
    }
}
