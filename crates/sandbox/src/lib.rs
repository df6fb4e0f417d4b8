//! The seam to an isolated place, the client of the guest inside it, and the
//! suite every back end must pass.

mod backend;
mod choice;
mod client;
mod collector;
mod command;
pub mod conformance;
mod error;
mod files;
mod listening;
mod process;
mod result;
mod sandbox;
mod tunnel;

pub use backend::{
    Audit, Backend, Capabilities, Changes, Fact, Grade, GuestStream, Isolation, Lifetime,
    OpenError, Outlets, Reconciled, Room, RoomError, Root, Snapshot, Spec, Stream, TrailMark,
    WORKSPACE, Workspace,
};
pub use choice::{AUTO, NoSuchBackend, choose};
pub use client::GuestClient;
pub use collector::Gap;
pub use command::{Command, HOME};
pub use error::{CallError, ConnectError, FilesError, SandboxError};
pub use files::{
    Archived, FileContent, FileStream, Files, Ignored, Listing, Range, Replacement, Search, Written,
};
pub use listening::{Listener, listeners, listening};
pub use process::{Offsets, OutputChunk, Process, StdinWriter};
pub use result::{ExecResult, usage};
pub use sandbox::Sandbox;
pub use tunnel::Tunnel;
