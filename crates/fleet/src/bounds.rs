//! How much a fleet takes on.

use std::time::Duration;

use cofferdam_store::QueueBounds;

/// How much a fleet takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Jobs that run here at once.
    pub running: u32,
    /// Jobs of one user that run at once, on all servers.
    pub running_per_user: u32,
    /// Jobs that may be there and not be over.
    pub queue: QueueBounds,
    /// How long a lease lasts unless it is renewed: how soon another server takes
    /// over what a dead one had.
    pub lease: Duration,
    /// How long a sandbox waits for its server to come back.
    pub linger: Duration,
    /// How long an upload is kept that no job begins with.
    pub uploads: Duration,
}
