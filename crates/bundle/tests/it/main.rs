//! Archives of real workspaces, read by somebody else's program.
#![expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod cancelled;
mod contents;
mod hostile;
mod lab;
mod memory;
mod target;
