//! What people want of a job that is there.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that a job is to hear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The words.
    #[schema(min_length = 1, max_length = 100_000, pattern = r"^[^\u0000]*$")]
    pub text: String,
}

/// How a job is to go on, after a pause or although it had ended. Limits that are
/// not named stay as they were; each is for the job in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// What the orchestrator is to hear first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100_000, pattern = r"^[^\u0000]*$")]
    pub message: Option<String>,
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
}
