//! The contract of the server: what is sent, what is answered, and the OpenAPI
//! document that says so.
//!
//! Requests refuse fields that they do not know, so that a misspelt one is told.
//! Answers may grow: whoever reads them ignores what is new. Amounts are written
//! as on the command line (`512M`, `2`, `10m`), money as a decimal number in a
//! string, moments by RFC 3339.

mod artifact;
mod document;
mod endpoints;
mod event;
mod exec;
mod file;
mod job;
mod order;
mod preview;
mod problem;
mod screen;
mod server;
mod simple;
mod terminal;
mod user;
mod whole;

pub use artifact::{Artifact, ArtifactList, AuditTrail, Upload};
pub use document::document;
pub use event::EventPage;
pub use exec::{Exec, ExecResult};
pub use file::{FileDeleted, FileEntry, FileKind, FileList, FileWritten, MoveFile, Unreadable};
pub use job::{CreateJob, Ending, Job, JobLinks, JobPage, JobStatus};
pub use order::{Message, Resume};
pub use preview::{PortList, PreviewLink, SandboxPort};
pub use problem::{PROBLEM_JSON, Problem};
pub use screen::{
    DesktopState, Hands, PLAIN_SCREEN_PROTOCOL, Recording, SCREEN_PROTOCOL, ScreenControl,
    ScreenReport,
};
pub use server::{Health, ModelList, Ready, Version};
pub use simple::{Scheduled, StatusReport};
pub use terminal::{
    BEARER_PROTOCOL, TERMINAL_PROTOCOL, TerminalControl, TerminalReport, TerminalSize,
};
pub use user::{CreateToken, CreateUser, Me, NewToken, Token, TokenList, User, UserList};

/// Where the API of this version is.
pub const PREFIX: &str = "/api/v1";

/// The header that makes a repeated submission the same one.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
