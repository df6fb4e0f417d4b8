//! Containers keep the promises of every sandbox, tried with the real engines.

#![expect(clippy::unwrap_used, reason = "tests may panic")]
#![expect(clippy::print_stderr, reason = "tests say what they skip")]

mod broken;
mod conformance;
mod engines;
mod gvisor;
mod gvisor_trail;
mod life;
mod probes;
