//! Records of the desktop: what `cofferdam-aide desk start`, `stop` and `act` write,
//! the actions that `act` takes, and how coordinates are mapped.
//!
//! Coordinates here are those of the picture that the model was shown, never those
//! of the screen, unless it is said. The last piece is always [`DeskPiece::Done`],
//! [`DeskPiece::Stopped`] or [`DeskPiece::Failed`]; output without one of them means
//! that the aide itself was ended.

mod action;
mod scale;

pub use action::{ACTIONS, Action, ActionArguments, Button, Direction, Refused, WindowName};
pub use scale::{DEFAULT_LIMITS, PictureLimits, Point, Region, Scale, Size};

use serde::{Deserialize, Serialize};

/// No piece of a picture is longer.
pub const PICTURE_CHUNK: usize = 128 << 10;

/// A piece of what the desktop has to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeskPiece {
    /// The desktop can be used.
    Ready(Desktop),
    /// The desktop is no more.
    Stopped(DeskStop),
    /// A picture begins. As many bytes as it says follow in [`DeskPiece::PictureBytes`].
    Picture(Picture),
    /// The next bytes of the picture.
    PictureBytes(Vec<u8>),
    /// Where the pointer is.
    Cursor(Point),
    /// The windows, the topmost first.
    Windows {
        /// What they are.
        windows: Vec<Window>,
        /// How many more there are.
        left_out: u32,
    },
    /// What came of waiting for a change.
    Change {
        /// What changed, if anything did in time. Not exact: some pixels around it
        /// are taken in.
        region: Option<Region>,
        /// How long it was waited.
        waited_ms: u64,
    },
    /// A script for `xdotool` has run.
    Script {
        /// What it printed, cut where it is too much.
        stdout: String,
        /// What it complained about, cut where it is too much.
        stderr: String,
        /// Its exit code, if it had one.
        code: Option<i32>,
    },
    /// The action is done.
    Done,
    /// It was not done, or not all of it.
    Failed(DeskFailure),
}

/// A desktop that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Desktop {
    /// For the variable `DISPLAY`, such as `:1`.
    pub display: String,
    /// For the variable `XAUTHORITY`: the file with the key to the display.
    pub authority: String,
    /// The Unix socket where a viewer speaks VNC, without a password.
    pub vnc: String,
    /// The screen.
    pub size: Size,
    /// Whether it was started now; otherwise it ran already.
    pub fresh: bool,
}

/// Why a desktop is no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeskStop {
    /// Somebody asked (SIGTERM or SIGINT, or `desk stop`).
    Asked,
    /// Nobody used it or looked at it for its idle time.
    Idle,
    /// There was none.
    NotRunning,
    /// A program that it is made of ended by itself.
    Died {
        /// Which, and its last words.
        how: String,
    },
}

/// A picture in PNG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// How large it is; its coordinates are the ones to act on, unless it shows a
    /// region only.
    pub size: Size,
    /// The whole screen, in its own pixels.
    pub screen: Size,
    /// How many bytes follow.
    pub bytes: u64,
}

/// A window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// What it is called by.
    pub id: u32,
    /// What is written above it.
    pub title: String,
    /// What kind of program it belongs to, such as `XTerm`.
    pub class: String,
    /// Its upper left corner, which may be outside of the screen.
    pub left: i32,
    /// See `left`.
    pub top: i32,
    /// How large it is.
    pub size: Size,
    /// Whether keys go to it.
    pub focused: bool,
    /// Whether it is minimized.
    pub hidden: bool,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeskFailure {
    /// What sort of reason.
    pub kind: DeskFailureKind,
    /// Cause and remedy, in words.
    pub why: String,
}

/// Sorts of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeskFailureKind {
    /// The action makes no sense as it was given.
    Refused,
    /// There is no desktop: start one.
    NotRunning,
    /// A program is not installed.
    Missing,
    /// It was asked to stop (SIGTERM or SIGINT).
    Interrupted,
    /// Anything else.
    Broken,
}

/// Cuts a picture into pieces: its head, then its bytes.
pub fn picture_pieces(
    size: Size,
    screen: Size,
    bytes: &[u8],
) -> impl Iterator<Item = DeskPiece> + '_ {
    let head = Picture { size, screen, bytes: bytes.len() as u64 };
    std::iter::once(DeskPiece::Picture(head))
        .chain(bytes.chunks(PICTURE_CHUNK).map(|piece| DeskPiece::PictureBytes(piece.to_vec())))
}
