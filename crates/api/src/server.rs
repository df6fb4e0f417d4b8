//! The server itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

/// Whether the server can take jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ready {
    /// Whether it can.
    pub ready: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Jobs that run here.
    pub running: u32,
    /// Jobs that may run here at once.
    pub capacity: u32,
}

/// What the server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// `cofferdam`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of this API.
    pub api: String,
    /// The version of the events' format.
    pub log: u32,
    /// The database and its version; for admins only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The settings that durability hangs on; for admins only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_settings: Option<std::collections::BTreeMap<String, String>>,
}

/// The models that can be named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelList {
    /// Their names: `provider/name`.
    pub models: Vec<String>,
}
