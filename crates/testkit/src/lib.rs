//! For tests and measurements only: a scripted model server, and fixtures.
//!
//! [`ScriptedServer`] stands in for every provider. It speaks the three wire
//! formats with plain sockets and an HTTP of its own, so that each [`Fault`] is
//! made byte by byte: nothing between the script and the socket tidies it up.

mod script;

mod render;

mod performance;

mod http;
mod server;

mod conversation;

pub use conversation::Conversation;
pub use script::{Dialect, Fault, ScriptedAnswer, Turn};
pub use server::{Recorded, ScriptedServer};
