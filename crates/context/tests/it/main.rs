//! What goes before a model, as a caller sees it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod hostile;
mod job;
mod properties;
mod repairs;
mod snapshots;
