//! Native sandboxes, made for real: as whoever runs the tests, and, when that is
//! root, as an ordinary user too.
#![expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
#![expect(clippy::unwrap_used, reason = "tests may panic")]
#![expect(clippy::print_stderr, reason = "tests say what they skip")]

mod attributes;
mod claim;
mod conformance;
mod egress;
mod fork;
mod home;
mod image;
mod life;
mod links;
mod network;
mod ordinary_user;
mod probes;
mod quota;
mod trail;
