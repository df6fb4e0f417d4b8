//! Web servers in a job's sandbox.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What listens in a job's sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortList {
    /// By their numbers.
    pub ports: Vec<SandboxPort>,
}

/// A TCP port that something listens on, where a preview reaches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SandboxPort {
    /// Its number.
    pub port: u16,
    /// The address inside.
    #[schema(example = "127.0.0.1")]
    pub address: String,
    /// Whether that is loopback alone.
    pub loopback_only: bool,
}

/// Where something of a sandbox can be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewLink {
    /// An address for a browser. It works once, for a minute; the browser is let in by a
    /// cookie from then on.
    pub url: String,
}
