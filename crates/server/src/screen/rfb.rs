//! What a viewer says to a VNC server (RFB 3.8), taken apart, so that whoever only
//! watches cannot act.
//!
//! A message is passed on whole or not at all, in whatever pieces it comes: between
//! two of them something may be put in, and the server never waits for the rest of
//! one. Only messages whose length both sides know for certain are passed on; all
//! else ends the connection. No length that is told is believed before its bytes
//! have come.

use super::pressed::Pressed;

/// The only version that is spoken.
const VERSION: &[u8; 12] = b"RFB 003.008\n";
/// The security type None. Whoever got here has shown a token.
const NONE: u8 = 1;
/// What ClientInit says when others may watch too.
const SHARED: u8 = 1;

/// Encodings that a client may name.
const MOST_ENCODINGS: u16 = 256;
/// Bytes of a text for the clipboard.
pub(super) const LONGEST_TEXT: u32 = 256 << 10;
/// Bytes of a fence's payload.
const LONGEST_FENCE: u8 = 64;
/// Bytes of a message of the input extension.
const LONGEST_INPUT: u16 = 4096;
/// The encoding after which a server takes messages of the pointer for a byte longer
/// if they say so. It is not passed on: their length would hang on what the server
/// has understood.
const MORE_BUTTONS: i32 = -316;
/// An encoding that nobody has.
const NO_ENCODING: i32 = 0x7fff_fff0;

/// What a viewer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// See the screen.
    Watch,
    /// Use the mouse, the keys and the clipboard too.
    Act,
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Version,
    Security,
    Unknown(u8),
    TooLong(&'static str),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Version => formatter.write_str("only RFB 3.8 is spoken here"),
            Self::Security => formatter.write_str("the only security type here is None"),
            Self::Unknown(kind) => write!(formatter, "messages of type {kind} are not taken"),
            Self::TooLong(what) => write!(formatter, "{what}: more than is taken"),
        }
    }
}

/// Where the conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Version,
    Security,
    Init,
    Messages,
}

/// What becomes of a message, as soon as its head says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// More bytes of its head are needed: this many in all.
    Head(usize),
    /// It is passed on when all of these bytes are there.
    Pass(usize),
    /// It acts: the same, if the viewer may act when they are.
    Act(usize),
    /// It is of no use to anybody here: these bytes are left out.
    Drop(usize),
}

/// The filter between a viewer and the server.
#[derive(Debug)]
pub(super) struct Filter {
    stage: Stage,
    mode: Mode,
    /// The beginning of a message.
    held: Vec<u8>,
    /// Bytes that are still to be left out.
    skip: usize,
    pressed: Pressed,
}

impl Filter {
    /// A filter for a viewer who has said nothing yet, and watches.
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Version,
            mode: Mode::Watch,
            held: Vec::new(),
            skip: 0,
            pressed: Pressed::default(),
        }
    }

    /// Lets the viewer act, or no more. What is then still pressed is released.
    pub(super) fn set_mode(&mut self, mode: Mode, out: &mut Vec<u8>) {
        self.mode = mode;
        if mode == Mode::Watch {
            self.pressed.release_all(out);
        }
    }

    /// Takes what the viewer sends, and adds to `out` what goes to the server. Says
    /// whether any of that acts.
    pub(super) fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, Refused> {
        let mut acted = false;
        while !bytes.is_empty() {
            if self.skip > 0 {
                let (_, rest) = bytes.split_at(self.skip.min(bytes.len()));
                self.skip -= bytes.len() - rest.len();
                bytes = rest;
                continue;
            }
            let judged = self.judge()?;
            let wanted = match judged {
                Judged::Head(length) | Judged::Pass(length) | Judged::Act(length) => length,
                Judged::Drop(length) => {
                    self.skip = length.saturating_sub(self.held.len());
                    self.held.clear();
                    continue;
                }
            };
            let missing = wanted.saturating_sub(self.held.len());
            let (part, rest) = bytes.split_at(missing.min(bytes.len()));
            self.held.extend_from_slice(part);
            bytes = rest;
            acted |= self.end_message(out)?;
        }
        Ok(acted)
    }

    /// Passes the message on, or leaves it out, if all of it is there.
    fn end_message(&mut self, out: &mut Vec<u8>) -> Result<bool, Refused> {
        // What was just added may have told more of it.
        let (length, acts) = match self.judge()? {
            Judged::Head(_) => return Ok(false),
            Judged::Drop(length) => {
                self.skip = length.saturating_sub(self.held.len());
                self.held.clear();
                return Ok(false);
            }
            Judged::Pass(length) => (length, false),
            Judged::Act(length) => (length, true),
        };
        if self.held.len() < length {
            // What a watcher may not say need not be kept.
            if acts && self.mode == Mode::Watch {
                self.skip = length - self.held.len();
                self.held.clear();
            }
            return Ok(false);
        }
        let acted = match self.stage {
            Stage::Version => {
                self.stage = Stage::Security;
                out.extend_from_slice(&self.held);
                false
            }
            Stage::Security => {
                self.stage = Stage::Init;
                out.extend_from_slice(&self.held);
                false
            }
            Stage::Init => {
                self.stage = Stage::Messages;
                out.push(SHARED);
                false
            }
            Stage::Messages if acts => {
                let passes = self.mode == Mode::Act && self.pressed.hear(&self.held);
                if passes {
                    out.extend_from_slice(&self.held);
                }
                passes
            }
            Stage::Messages => {
                if self.held.first() == Some(&2) {
                    hide_more_buttons(&mut self.held);
                }
                out.extend_from_slice(&self.held);
                false
            }
        };
        self.held.clear();
        Ok(acted)
    }

    fn judge(&self) -> Result<Judged, Refused> {
        let held = self.held.as_slice();
        match self.stage {
            Stage::Version => match VERSION.starts_with(held) {
                true => Ok(Judged::Pass(VERSION.len())),
                false => Err(Refused::Version),
            },
            Stage::Security => match held.first() {
                Some(kind) if *kind != NONE => Err(Refused::Security),
                _ => Ok(Judged::Pass(1)),
            },
            Stage::Init => Ok(Judged::Pass(1)),
            Stage::Messages => message(held),
        }
    }
}

/// What becomes of a message that begins so.
fn message(held: &[u8]) -> Result<Judged, Refused> {
    let Some(kind) = held.first() else { return Ok(Judged::Head(1)) };
    Ok(match kind {
        // SetPixelFormat, SetEncodings, FramebufferUpdateRequest.
        0 => Judged::Pass(20),
        2 => match short(held, 2) {
            None => Judged::Head(4),
            Some(count) if count > MOST_ENCODINGS => return Err(Refused::TooLong("encodings")),
            Some(count) => Judged::Pass(4 + 4 * usize::from(count)),
        },
        3 => Judged::Pass(10),
        // KeyEvent, PointerEvent, ClientCutText.
        4 => Judged::Act(8),
        5 => Judged::Act(6),
        6 => match long(held, 4) {
            None => Judged::Head(8),
            // A length below zero says that it is a clipboard of several formats.
            Some(length) if length.cast_signed().unsigned_abs() > LONGEST_TEXT => {
                return Err(Refused::TooLong("a text for the clipboard"));
            }
            Some(length) => {
                let length = length.cast_signed().unsigned_abs();
                Judged::Act(8 + usize::try_from(length).unwrap_or(usize::MAX))
            }
        },
        // EnableContinuousUpdates, ClientFence.
        150 => Judged::Pass(10),
        248 => match held.get(8) {
            None => Judged::Head(9),
            Some(length) if *length > LONGEST_FENCE => return Err(Refused::TooLong("a fence")),
            Some(length) => Judged::Pass(9 + usize::from(*length)),
        },
        // Who has the machine switched off or another size of the screen does not get
        // it (xvp, SetDesktopSize), and no server here has devices to plug in (gii).
        250 => Judged::Drop(4),
        251 => match held.get(6) {
            None => Judged::Head(7),
            Some(screens) => Judged::Drop(8 + 16 * usize::from(*screens)),
        },
        253 => match (held.get(1), short(held, 2)) {
            (Some(order), Some(length)) => {
                let length = if order & 0x80 == 0 { length.swap_bytes() } else { length };
                if length > LONGEST_INPUT {
                    return Err(Refused::TooLong("a message of the input extension"));
                }
                Judged::Drop(4 + usize::from(length))
            }
            _ => Judged::Head(4),
        },
        // QEMU's extensions: keys by their place on the keyboard.
        255 => match held.get(1) {
            None => Judged::Head(2),
            Some(0) => Judged::Act(12),
            Some(_) => return Err(Refused::Unknown(255)),
        },
        unknown => return Err(Refused::Unknown(*unknown)),
    })
}

/// Puts a number that nobody knows in the place of [`MORE_BUTTONS`].
fn hide_more_buttons(message: &mut [u8]) {
    for encoding in message.chunks_exact_mut(4).skip(1) {
        if encoding == MORE_BUTTONS.to_be_bytes() {
            encoding.copy_from_slice(&NO_ENCODING.to_be_bytes());
        }
    }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

pub(super) fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
#[path = "rfb_tests.rs"]
mod tests;
