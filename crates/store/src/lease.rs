//! Who works on a job: one process at a time, for a while, under a number that
//! only grows.

use std::time::Duration;

use cofferdam_types::{JobId, Record};

use crate::ids::{NodeId, OrderId};
use crate::job::JobRow;

/// A wish for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseAsk {
    /// Who asks.
    pub node: NodeId,
    /// How long the leases last unless they are renewed.
    pub span: Duration,
    /// How many at most.
    pub most: u32,
    /// How many of one user's jobs may be worked on at once, on all servers.
    pub per_user: u32,
}

/// The right to work on a job, and to append its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The job, as it is now: `epoch` and `node` are those of this lease.
    pub job: JobRow,
    /// The server that held it before, if one did.
    pub before: Option<NodeId>,
}

/// Events to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The job.
    pub job: JobId,
    /// The lease under which.
    pub epoch: u64,
    /// What follows the last event, in order. Not empty.
    pub records: Vec<Record>,
    /// The order that these events answer, which then is heard for good.
    pub heard: Option<OrderId>,
}
