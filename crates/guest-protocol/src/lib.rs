//! The wire between a host and the guest inside a sandbox.
//!
//! One byte stream carries any number of calls at once:
//!
//! 1. Both sides send a [`Hello`] and agree on a version, or part with a clear
//!    error.
//! 2. Then [`Frame`]s flow. The host opens a call with [`Frame::Request`] under
//!    an id of its choice; both sides exchange data and control frames with that
//!    id; the guest ends it with [`Frame::Done`].
//! 3. The guest keeps a finished call (its reply and the output the host has not
//!    consumed) until [`Frame::Ack`]. A host that lost its connection dials
//!    again, asks for [`Request::Calls`], and takes up each call with
//!    [`Frame::Resume`].
//!
//! Flow control: on each channel of a call the sender is never more than
//! [`WINDOW`] bytes ahead of what the receiver has said it consumed
//! ([`Frame::Consumed`], an absolute count). So neither side buffers more than a
//! window a channel, a flood on one call does not delay another, and a sender
//! knows which bytes it may have to send again.
//!
//! This crate does no I/O: bytes in, frames out, and the reverse.

mod frame;
mod hello;
mod message;
mod record;

pub use frame::{
    CHUNK, Channel, DecodeError, Decoder, EncodeError, Frame, HEADER, MAX_PAYLOAD, WINDOW,
    data_header, encode,
};
pub use hello::{HELLO_LEN, Hello, HelloError, VERSION};
pub use message::{
    CallState, Control, Entry, EntryKind, Exec, ExecEnd, ExecReport, FileError, FileReply,
    FileRequest, FileStat, Leftovers, Match, OutputMode, Program, PtySize, Refusal, Reply, Request,
    Stdin, TunnelTarget, WriteMode,
};
pub use record::{RecordDecoder, RecordError, encode_record};
