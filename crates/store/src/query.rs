//! Questions about many jobs.

use cofferdam_types::JobId;

use crate::ids::UserId;
use crate::job::Status;

/// Which jobs, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobQuery {
    /// Whose; `None`: everybody's.
    pub user: Option<UserId>,
    /// Only those at one of these; empty: all.
    pub statuses: Vec<Status>,
    /// Only those older than this one.
    pub before: Option<JobId>,
    /// How many at most.
    pub limit: u32,
}

/// How many jobs there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Wait for their turn.
    pub pending: u64,
    /// Are worked on.
    pub running: u64,
    /// Rest; counted here only.
    pub paused: u64,
    /// Ended well.
    pub complete: u64,
    /// Ended otherwise.
    pub error: u64,
    /// Were stopped.
    pub cancelled: u64,
}
