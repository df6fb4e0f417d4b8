//! Tests of the client against a guest that is played by the test.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests may panic")]

mod choice;
mod fake_guest;
mod files;
mod flow;
mod handshake;
mod lost;
mod outcome;
mod process;
mod silence;
mod tunnel;
