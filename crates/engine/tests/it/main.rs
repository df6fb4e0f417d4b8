//! The loop, driven through its only door: inputs in, events and effects out.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod budget;
mod calls;
mod checks;
mod cuts;
mod digest;
mod faults;
mod models;
mod properties;
mod recovery;
mod world;
