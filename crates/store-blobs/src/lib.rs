//! Two places for blobs: a directory of this machine, and an object store that
//! speaks S3.
//!
//! In both a blob is there whole or not at all, what is given up leaves nothing
//! under its key, and whoever reads to the end has the bytes that were written.

mod checked;
mod connection;
mod disk;
mod half;
mod object;
mod parts;
mod shelf;
mod tls;
mod transport;

pub use disk::DiskBlobs;
pub use object::{ObjectBlobs, ObjectBlobsError};
