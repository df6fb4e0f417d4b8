//! The trait.

use std::time::Duration;

use cofferdam_types::JobId;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::error::StoreError;
use crate::ids::{NodeId, OrderId, TokenId, UploadId, UserId};
use crate::job::{Artifact, JobRow, Line, NewJob, Submitted, Upload};
use crate::lease::{Append, Lease, LeaseAsk};
use crate::order::{Order, Ordered};
use crate::query::{Counts, JobQuery};
use crate::user::{Principal, TokenHash, TokenRow, UserRow};

/// What a store answers.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Something that keeps jobs.
pub trait Store: Send + Sync {
    /// What it is: its engine, its version, and the settings that durability
    /// hangs on, each as a name and a value.
    fn about(&self) -> Answer<'_, About>;

    /// Whether servers with data directories of their own may share it, so that a job can
    /// move from one to another.
    fn is_shared(&self) -> bool {
        true
    }

    /// Keeps a new job: its row, its first event and its key, all or none.
    ///
    /// A key that is known is answered first, however much waits; it outlives its
    /// job. [`StoreError::Missing`] if the upload is not there or another's,
    /// [`StoreError::Taken`] if the job is.
    fn submit(&self, job: NewJob) -> Answer<'_, Submitted>;

    /// A job's row.
    fn job(&self, job: JobId) -> Answer<'_, Option<JobRow>>;

    /// Some jobs, the newest first: by their ids, which are made of the time.
    fn jobs(&self, query: JobQuery) -> Answer<'_, Vec<JobRow>>;

    /// How many jobs there are, of one user or of all.
    fn counts(&self, user: Option<UserId>) -> Answer<'_, Counts>;

    /// A job's events after this one, in order, at most so many. Where they are
    /// big, fewer, but at least one: only an empty answer means that there is none.
    fn events(&self, job: JobId, after: u64, limit: u32) -> Answer<'_, Vec<Line>>;

    /// Forgets a job that is over, with its events, orders and artifacts; returns
    /// the artifacts, whose bytes are the caller's to remove.
    ///
    /// [`StoreError::NotOver`] if it is not over.
    fn forget(&self, job: JobId) -> Answer<'_, Vec<Artifact>>;

    /// Leases jobs that nobody works on. Those somebody wants to stop go first, then
    /// those that were begun (a sandbox may wait for them), then greater priorities;
    /// users take turns, the one with the fewest running jobs first (those leased before
    /// in the same call are such), then the one who has waited longest for a turn; of one
    /// user the oldest goes first. The event that a job is taken up is appended by
    /// whoever got the lease.
    ///
    /// A job can be leased when no lease on it is in force, by the store's own
    /// clock, and: it is not over and does not rest; or it rests, and an order to
    /// cancel it is kept; or it is over, and an order to resume it is kept. Jobs
    /// under a lease in force count as the user's running ones.
    ///
    /// A job that was leased before is left to the node that had it last, whose files
    /// it needs, as long as that one is there: another gets it only when that node has
    /// not leased, renewed or reclaimed anything for the span of the ask, whatever else
    /// holds. A lease that has run out is void only once the job is leased again.
    fn lease(&self, ask: LeaseAsk) -> Answer<'_, Vec<Lease>>;

    /// Makes these leases last this long from now; returns those that are no
    /// longer the node's. One that has run out is still the node's until it is
    /// given back, reclaimed, or the job is leased again. Without any, it only says
    /// that the node is there.
    fn renew(
        &self,
        node: NodeId,
        held: Vec<(JobId, u64)>,
        span: Duration,
    ) -> Answer<'_, Vec<JobId>>;

    /// Gives a lease back. Nothing if it is another's by now.
    fn release(&self, job: JobId, epoch: u64) -> Answer<'_, ()>;

    /// Ends all leases of a node: its earlier life is over. Returns how many.
    fn reclaim(&self, node: NodeId) -> Answer<'_, u64>;

    /// Appends events under a lease, with what they do to the row.
    ///
    /// Fails with [`StoreError::Fenced`] if the lease is another's by now, was given
    /// back or reclaimed, or the records are not the next; with
    /// [`StoreError::Missing`] if the order that they answer is kept no more (a
    /// pause that was taken back, say): look at the orders again.
    fn append(&self, append: Append) -> Answer<'_, ()>;

    /// Gives a job an order (see [`crate::plan_order`]). [`StoreError::Missing`] if
    /// there is no such job.
    fn order(&self, job: JobId, order: Order) -> Answer<'_, Ordered>;

    /// The orders of a job that were not heard yet, in order.
    fn orders(&self, job: JobId) -> Answer<'_, Vec<(OrderId, Order)>>;

    /// Keeps an artifact's row, as made under the job's last lease.
    /// [`StoreError::Missing`] if there is no such job, [`StoreError::Fenced`] if there was
    /// a later lease.
    fn keep_artifact(&self, artifact: Artifact, epoch: u64) -> Answer<'_, ()>;

    /// A job's artifacts, by name.
    fn artifacts(&self, job: JobId) -> Answer<'_, Vec<Artifact>>;

    /// Keeps an upload's row.
    fn keep_upload(&self, upload: Upload) -> Answer<'_, ()>;

    /// An upload's row.
    fn upload(&self, upload: UploadId) -> Answer<'_, Option<Upload>>;

    /// Forgets uploads older than this that no job begins with, and keys past
    /// their lifetime; returns the uploads.
    fn expire(&self, older_than: Duration) -> Answer<'_, Vec<Upload>>;

    /// Makes a user. [`StoreError::Taken`] if the name is.
    fn add_user(&self, user: UserRow) -> Answer<'_, ()>;

    /// All users, by name.
    fn users(&self) -> Answer<'_, Vec<UserRow>>;

    /// Removes a user and its tokens. Its jobs stay, for admins.
    fn remove_user(&self, user: UserId) -> Answer<'_, ()>;

    /// Makes a token. [`StoreError::Missing`] if there is no such user.
    fn add_token(&self, token: TokenRow, hash: TokenHash) -> Answer<'_, ()>;

    /// A user's tokens, the oldest first.
    fn tokens(&self, user: UserId) -> Answer<'_, Vec<TokenRow>>;

    /// Removes a token.
    fn remove_token(&self, token: TokenId) -> Answer<'_, ()>;

    /// Who a token belongs to, unless it has expired.
    fn principal(&self, hash: TokenHash) -> Answer<'_, Option<Principal>>;

    /// Tells what changes from now on. A receiver that lags has missed something
    /// and looks at everything again.
    fn watch(&self) -> broadcast::Receiver<Change>;
}

/// What a store is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// `sqlite` or `postgres`.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// Settings that durability hangs on.
    pub settings: Vec<(String, String)>,
}

/// Something durable that may concern others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A job has new events.
    Events {
        /// The job.
        job: JobId,
        /// The number of the last.
        last: u64,
    },
    /// A job was given an order.
    Ordered {
        /// The job.
        job: JobId,
    },
    /// There may be something to lease.
    Queue,
    /// Something may have been missed: look at everything.
    Everything,
}
