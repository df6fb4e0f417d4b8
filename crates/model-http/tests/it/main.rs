//! The adapters against the scripted model server, on real sockets.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod harness;
mod readable;

mod connections;
mod embeddings;
mod faults;
mod requests;
mod streams;
