//! Frames: a fixed header, then the payload.
//!
//! ```text
//! 0        4      5         6          8            16
//! | length | kind | channel | reserved | call id    | payload …
//! ```
//!
//! Integers are little-endian. Data payloads are raw bytes; messages are
//! postcard. A frame that breaks a rule ends the connection: nothing after it
//! can be trusted.

use bytes::{Buf, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{Control, Reply, Request};

/// Length of a frame's header.
pub const HEADER: usize = 16;

/// No payload is longer than this.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// Senders cut data into pieces no longer than this, so that a busy call leaves
/// gaps for the others.
pub const CHUNK: usize = 256 << 10;

/// How far a sender may be ahead of what the receiver has consumed, per channel.
pub const WINDOW: u64 = 1 << 20;

/// One direction of one stream of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Channel {
    /// From the host: a command's stdin, a file's new content.
    Input = 0,
    /// From the guest: a command's stdout, a file's content, records.
    Output = 1,
    /// From the guest: a command's stderr.
    Error = 2,
}

/// One unit on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Host: begin a call.
    Request {
        /// The call.
        call: u64,
        /// What is asked.
        request: Request,
    },
    /// Host: act on a running call.
    Control {
        /// The call.
        call: u64,
        /// What to do.
        control: Control,
    },
    /// Host, after it dialled again: send this call's output from these offsets
    /// on, and its reply when it has one.
    Resume {
        /// The call.
        call: u64,
        /// Bytes of [`Channel::Output`] the host has.
        output: u64,
        /// Bytes of [`Channel::Error`] the host has.
        error: u64,
    },
    /// Host: the reply is stored; forget the call.
    Ack {
        /// The call.
        call: u64,
    },
    /// Either: bytes of a channel.
    Data {
        /// The call.
        call: u64,
        /// The channel.
        channel: Channel,
        /// The bytes, at most [`MAX_PAYLOAD`].
        bytes: Bytes,
    },
    /// Either: no more bytes will follow on this channel.
    End {
        /// The call.
        call: u64,
        /// The channel.
        channel: Channel,
    },
    /// Either: the receiver of a channel has consumed this many bytes in all.
    Consumed {
        /// The call.
        call: u64,
        /// The channel.
        channel: Channel,
        /// Bytes from the beginning of the call.
        total: u64,
    },
    /// Guest: bytes at this place were dropped, because of the output limit.
    Gap {
        /// The call.
        call: u64,
        /// The channel.
        channel: Channel,
        /// How many.
        dropped: u64,
    },
    /// Guest: the command runs, or the tunnel is connected.
    Started {
        /// The call.
        call: u64,
        /// The process id inside the sandbox; 0 for what is no process.
        pid: u32,
    },
    /// Guest: the call is over and this is its result. Its output came before.
    Done {
        /// The call.
        call: u64,
        /// The result.
        reply: Reply,
    },
}

/// Bytes that are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Longer than any frame may be.
    #[error("a frame of {0} bytes; the longest allowed has {MAX_PAYLOAD}")]
    TooLong(usize),
    /// A kind this version does not know.
    #[error("unknown kind of frame {0}")]
    Kind(u8),
    /// A channel there is none of.
    #[error("unknown channel {0}")]
    Channel(u8),
    /// Bits set that this version leaves clear.
    #[error("reserved bits are set: {0:#06x}")]
    Reserved(u16),
    /// A payload that is not the message its kind announces.
    #[error("malformed payload of a frame of kind {0}")]
    Payload(u8),
}

/// A message that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Its payload would be longer than [`MAX_PAYLOAD`].
    #[error("the message has {0} bytes; the longest allowed has {MAX_PAYLOAD}")]
    TooLong(usize),
    /// It has no wire form.
    #[error("the message cannot be serialised: {0}")]
    Serialise(String),
}

const REQUEST: u8 = 1;
const CONTROL: u8 = 2;
const RESUME: u8 = 3;
const ACK: u8 = 4;
const DATA: u8 = 5;
const END: u8 = 6;
const CONSUMED: u8 = 7;
const GAP: u8 = 8;
const STARTED: u8 = 9;
const DONE: u8 = 10;

/// Appends a frame's wire form. On an error nothing is appended.
///
/// # Errors
/// When the payload is too long or cannot be serialised.
pub fn encode(frame: &Frame, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let none = Channel::Input;
    match frame {
        Frame::Request { call, request } => message(out, REQUEST, none, *call, request),
        Frame::Control { call, control } => message(out, CONTROL, none, *call, control),
        Frame::Resume { call, output, error } => {
            let mut payload = [0; 16];
            let (first, second) = payload.split_at_mut(8);
            first.copy_from_slice(&output.to_le_bytes());
            second.copy_from_slice(&error.to_le_bytes());
            raw(out, RESUME, none, *call, &payload)
        }
        Frame::Ack { call } => raw(out, ACK, none, *call, &[]),
        Frame::Data { call, channel, bytes } => raw(out, DATA, *channel, *call, bytes),
        Frame::End { call, channel } => raw(out, END, *channel, *call, &[]),
        Frame::Consumed { call, channel, total } => {
            raw(out, CONSUMED, *channel, *call, &total.to_le_bytes())
        }
        Frame::Gap { call, channel, dropped } => {
            raw(out, GAP, *channel, *call, &dropped.to_le_bytes())
        }
        Frame::Started { call, pid } => raw(out, STARTED, none, *call, &pid.to_le_bytes()),
        Frame::Done { call, reply } => message(out, DONE, none, *call, reply),
    }
}

/// The header of a data frame, for senders that write the bytes themselves.
///
/// # Errors
/// When there are more bytes than a frame may carry.
pub fn data_header(
    call: u64,
    channel: Channel,
    length: usize,
) -> Result<[u8; HEADER], EncodeError> {
    header(DATA, channel, call, length)
}

fn message(
    out: &mut Vec<u8>,
    kind: u8,
    channel: Channel,
    call: u64,
    message: &impl Serialize,
) -> Result<(), EncodeError> {
    let payload =
        postcard::to_stdvec(message).map_err(|error| EncodeError::Serialise(error.to_string()))?;
    raw(out, kind, channel, call, &payload)
}

fn raw(
    out: &mut Vec<u8>,
    kind: u8,
    channel: Channel,
    call: u64,
    payload: &[u8],
) -> Result<(), EncodeError> {
    out.extend_from_slice(&header(kind, channel, call, payload.len())?);
    out.extend_from_slice(payload);
    Ok(())
}

fn header(
    kind: u8,
    channel: Channel,
    call: u64,
    length: usize,
) -> Result<[u8; HEADER], EncodeError> {
    let short = u32::try_from(length).ok().filter(|_| length <= MAX_PAYLOAD);
    let length = short.ok_or(EncodeError::TooLong(length))?;
    let [l0, l1, l2, l3] = length.to_le_bytes();
    let [c0, c1, c2, c3, c4, c5, c6, c7] = call.to_le_bytes();
    Ok([l0, l1, l2, l3, kind, channel as u8, 0, 0, c0, c1, c2, c3, c4, c5, c6, c7])
}

/// Turns bytes into frames. It holds at most one incomplete frame beyond what
/// the caller put in, and copies no payload.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Where the caller puts the bytes it received.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Takes the next whole frame, if there is one.
    ///
    /// # Errors
    /// When the bytes are no frame; the stream is then of no further use.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, DecodeError> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let [l0, l1, l2, l3, kind, channel, r0, r1, call @ ..] = *header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > MAX_PAYLOAD {
            return Err(DecodeError::TooLong(length));
        }
        let reserved = u16::from_le_bytes([r0, r1]);
        if reserved != 0 {
            return Err(DecodeError::Reserved(reserved));
        }
        let channel = match channel {
            0 => Channel::Input,
            1 => Channel::Output,
            2 => Channel::Error,
            other => return Err(DecodeError::Channel(other)),
        };
        if self.buffer.len() < HEADER + length {
            self.buffer.reserve(HEADER + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        let payload = self.buffer.split_to(length).freeze();
        parse(kind, channel, u64::from_le_bytes(call), payload).map(Some)
    }
}

fn parse(kind: u8, channel: Channel, call: u64, payload: Bytes) -> Result<Frame, DecodeError> {
    let malformed = || DecodeError::Payload(kind);
    let number = || match <[u8; 8]>::try_from(payload.as_ref()) {
        Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
        Err(_) => Err(malformed()),
    };
    let empty = |frame| if payload.is_empty() { Ok(frame) } else { Err(malformed()) };
    match kind {
        REQUEST => Ok(Frame::Request { call, request: from_postcard(kind, &payload)? }),
        CONTROL => Ok(Frame::Control { call, control: from_postcard(kind, &payload)? }),
        RESUME => {
            let (output, error) = payload.split_at_checked(8).ok_or_else(malformed)?;
            let output = u64::from_le_bytes(output.try_into().map_err(|_| malformed())?);
            let error = u64::from_le_bytes(error.try_into().map_err(|_| malformed())?);
            Ok(Frame::Resume { call, output, error })
        }
        ACK => empty(Frame::Ack { call }),
        DATA => Ok(Frame::Data { call, channel, bytes: payload }),
        END => empty(Frame::End { call, channel }),
        CONSUMED => Ok(Frame::Consumed { call, channel, total: number()? }),
        GAP => Ok(Frame::Gap { call, channel, dropped: number()? }),
        STARTED => {
            let pid = <[u8; 4]>::try_from(payload.as_ref()).map_err(|_| malformed())?;
            Ok(Frame::Started { call, pid: u32::from_le_bytes(pid) })
        }
        DONE => Ok(Frame::Done { call, reply: from_postcard(kind, &payload)? }),
        other => Err(DecodeError::Kind(other)),
    }
}

fn from_postcard<T: DeserializeOwned>(kind: u8, payload: &[u8]) -> Result<T, DecodeError> {
    match postcard::take_from_bytes(payload) {
        Ok((message, [])) => Ok(message),
        _ => Err(DecodeError::Payload(kind)),
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
