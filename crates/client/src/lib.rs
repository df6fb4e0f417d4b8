//! The typed client of the server's REST API.
//!
//! Everything is bounded: connecting, waiting for an answer, its length, silence in
//! the middle of a stream, and how often anything is tried again. A request is only
//! sent twice where that cannot do anything twice: it reads, or it carries a key
//! that makes both the same.
//!
//! The token goes to the server that was named and to nobody else: redirects are
//! not followed, and without TLS it stays on this machine unless that is asked for.

mod address;
mod client;
mod connect;
mod download;
mod error;
mod follow;
mod patience;
mod query;
mod sse;
mod tls;
mod transport;
mod upload;

pub use address::{Address, AddressError};
pub use client::{Client, JobQuery, OutputFormat};
pub use download::Download;
pub use error::ClientError;
pub use follow::{Follower, Stored};
pub use patience::Patience;
pub use upload::UploadFile;
