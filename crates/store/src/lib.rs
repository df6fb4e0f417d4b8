//! The seam to what lasts: jobs and their events, leases, orders, users and
//! their tokens, and where big things are kept.
//!
//! What every store promises, and the conformance suite proves:
//! - What a call has acknowledged survives `kill -9` and the loss of power.
//! - A job's events are gapless, and appended only by whoever holds its lease.
//! - Each call happens whole or not at all.
//! - What has happened is told to whoever watches only after it is durable.

pub mod blob_conformance;
mod blobs;
pub mod conformance;
mod error;
mod ids;
mod job;
mod lease;
mod order;
mod project;
mod query;
mod store;
mod user;

pub use blobs::{Blob, BlobError, BlobKey, BlobReader, BlobWriter, Blobs};
pub use error::StoreError;
pub use ids::{NodeId, OrderId, TokenId, UploadId, UserId};
pub use job::{
    Artifact, Idempotency, JobRow, KEY_LIFETIME, Line, NewJob, QueueBounds, Status, Submitted,
    Upload,
};
pub use lease::{Append, Lease, LeaseAsk};
pub use order::{Order, OrderPlan, Ordered, Refusal, forgotten_by_waking, plan_order, wake};
pub use project::project;
pub use query::{Counts, JobQuery};
pub use store::{About, Answer, Change, Store};
pub use user::{Principal, TokenHash, TokenRow, UserRow};
