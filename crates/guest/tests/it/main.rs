//! The guest as a host meets it: the real program, over a real socket.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod client;
mod guest;

mod archive;
mod escape;
mod exec;
mod files;
mod kill;
mod listing;
mod load;
mod output;
mod peers;
mod resume;
mod spare;
mod speed;
mod terminal;
mod tunnel;
mod watches;
