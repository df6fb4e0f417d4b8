//! Whole jobs, seen: as lines, and on a terminal that is really drawn.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod endings;
mod hostile;
mod resize;
mod sessions;
mod terminal;
mod world;
