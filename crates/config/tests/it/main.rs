//! The whole of the configuration, through what the crate exports.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]
#![expect(clippy::expect_used, reason = "a helper that fails is a test that fails")]

mod documented;
mod errors;
mod files;
mod harness;
mod models;
mod precedence;
mod property;
mod trust;
mod workspace;
