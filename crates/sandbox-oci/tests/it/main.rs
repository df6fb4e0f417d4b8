//! Containers keep the promises of every sandbox, tried with the real engines.

#![expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
#![expect(clippy::unwrap_used, reason = "tests may panic")]
#![expect(clippy::print_stderr, reason = "tests say what they skip")]

mod conformance;
mod engines;
mod life;
mod ordinary_user;
mod probes;
