//! Tests of the client against a server that does what servers should not.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod server;

mod answers;
mod download;
mod follow;
mod submit;
mod token;
