//! Jobs, events, leases, orders and users in one SQLite file: the store of a
//! server that has a disk and no database server.
//!
//! All writes go through one thread, which commits many calls at once: one
//! `fsync` for all that wait. Reads have connections of their own and never wait
//! for a write.

mod append;
mod clock;
mod error;
mod keeping;
mod lease;
mod open;
mod orders;
mod queries;
mod readers;
mod rows;
mod schema;
mod store;
mod submit;
mod users;
mod writer;

pub use store::SqliteStore;
