//! Archives of real workspaces, read by somebody else's program.
#![expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod cancelled;
mod contents;
mod hostile;
mod ignored;
mod intake;
mod lab;
mod memory;
mod patch;
mod tar_zst;
mod target;
