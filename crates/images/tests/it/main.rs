//! Images, made and taken in for real.
#![expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
#![expect(clippy::unwrap_used, reason = "tests may panic")]
#![expect(clippy::print_stderr, reason = "tests say what they skip")]

mod archives;
mod bootstrap;
mod bootstrap_ends;
mod engine_ends;
mod engines;
mod hostile;
mod importing;
