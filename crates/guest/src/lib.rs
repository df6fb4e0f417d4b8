//! The program inside every sandbox: first process, runs commands, serves files
//! and tunnels.
//!
//! One thread, one loop, no privileges. It holds bounded buffers between the
//! host's connection and the processes it starts; whatever may take long or go
//! wrong (a command, a file request) is a process of its own. It never trusts
//! what runs beside it, and never ends because of it.

mod sys;

mod blocks;
mod output;

mod monitor;
mod report;
mod spare;
mod tree;

mod channel;
mod command;
mod files;
mod tunnel;
mod worker;

mod call;
mod calls;
mod connection;
mod request;
mod server;
mod start;

pub use server::LACK_OF_MEMORY;
pub use start::{Serve, run};
pub use sys::heed_children;
