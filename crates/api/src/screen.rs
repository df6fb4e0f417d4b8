//! The screen of a job's desktop, over a WebSocket.
//!
//! Binary messages are RFB 3.8, both ways, without a password. Text messages are JSON:
//! [`ScreenControl`] from the client, [`ScreenReport`] from the server.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The subprotocol with text messages beside the binary ones.
pub const SCREEN_PROTOCOL: &str = "cofferdam.screen.v1";

/// The subprotocol of viewers that know nothing else: no text messages, so that they
/// can only watch.
pub const PLAIN_SCREEN_PROTOCOL: &str = "binary";

/// A desktop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DesktopState {
    /// Whether it runs. All else is said of one that does.
    pub running: bool,
    /// Pixels from left to right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Pixels from top to bottom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// `job`, or `other` while a person has taken over.
    pub hands: Hands,
}

/// A recording of a desktop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recording {
    /// Whether it goes on.
    pub recording: bool,
    /// How long one is that has ended, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    /// How large its file is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What a client says besides bytes: `{"take_over": {}}`, `{"give_back": {}}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScreenControl {
    /// The person at this client wants the mouse and the keys.
    TakeOver {},
    /// The job may have them again.
    GiveBack {},
}

/// What the server says besides bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScreenReport {
    /// Whose hands are on the desktop from now on.
    Hands(Hands),
    /// Why they are not yours although you asked, or no more.
    Told(String),
    /// Why the connection ends, as the last message.
    Closed(String),
}

/// Whose hands are on a desktop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Hands {
    /// Those of the person who is told.
    Yours,
    /// The job's.
    Job,
    /// Those of another person.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_short() {
        let says = |control| serde_json::to_string(&control).unwrap();
        assert_eq!(says(ScreenControl::TakeOver {}), r#"{"take_over":{}}"#);
        assert_eq!(says(ScreenControl::GiveBack {}), r#"{"give_back":{}}"#);
        let hands = serde_json::to_string(&ScreenReport::Hands(Hands::Yours)).unwrap();
        assert_eq!(hands, r#"{"hands":"yours"}"#);
    }
}
