//! The store over a real file: the suite of the seam, crashes, disks that are full
//! or fail.
#![expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod conformance;
mod crash;
mod disk;
mod keys;
mod opening;
mod queue;
mod together;
mod world;
