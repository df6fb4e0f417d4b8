//! A terminal in a job's sandbox, over a WebSocket.
//!
//! Binary messages are the terminal's bytes, both ways. Text messages are JSON:
//! [`TerminalControl`] from the client, [`TerminalReport`] from the server.

use cofferdam_types::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The subprotocol that a client asks for, and the only one that is answered.
pub const TERMINAL_PROTOCOL: &str = "cofferdam.terminal.v1";

/// What comes before the token in the subprotocol of clients that cannot set a
/// header.
pub const BEARER_PROTOCOL: &str = "bearer.";

/// How big a terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// Characters a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

/// What a client says besides bytes: `{"resize": {"cols": 80, "rows": 24}}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TerminalControl {
    /// The terminal has a new size.
    Resize(TerminalSize),
}

/// What the server says besides bytes, as its last message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TerminalReport {
    /// The shell has ended.
    #[schema(value_type = Object)]
    Ended(Outcome),
    /// The sandbox is wanted back, or the connection was too slow or too quiet.
    Closed(String),
}
