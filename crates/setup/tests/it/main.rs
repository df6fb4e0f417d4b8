//! Set-ups with programs that do as they are told here, and with the real ones.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod finding;
mod killed;
mod real;
mod setups;
mod trouble;
mod world;
