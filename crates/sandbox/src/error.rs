//! What can go wrong between a host and a guest, each with its cause.

use std::io;
use std::time::Duration;

use cofferdam_guest_protocol::{
    Channel, DecodeError, EncodeError, FileError, HelloError, RecordError, Refusal, WINDOW,
};

use crate::backend::{OpenError, RoomError};

/// Why a stream did not become a connection to a guest.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The guest said nothing for too long.
    #[error("the guest did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The stream ended before the guest had said who it is.
    #[error("the stream ended before the guest said hello")]
    Closed,
    /// The peer is no guest, or one of another time.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The stream failed.
    #[error("the stream to the guest failed")]
    Io(#[from] io::Error),
}

/// Why a call to a guest has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection ended first. What became of the call is not known here;
    /// where the sandbox lives on, its result can be collected by its id.
    #[error("the connection to the guest was lost: {reason}")]
    ConnectionLost {
        /// What ended it.
        reason: String,
    },
    /// The guest did not begin it.
    #[error("the guest refused the call: {0}")]
    Refused(#[from] Refusal),
    /// The command could not be started.
    #[error("cannot start the command: {what} (error {errno})")]
    NotStarted {
        /// The number of the system's error: 2 is "no such file".
        errno: i32,
        /// What failed.
        what: String,
    },
    /// Nothing could be connected to, or the connection inside broke.
    #[error("the tunnel ended: {message} (error {errno})")]
    Tunnel {
        /// The number of the system's error.
        errno: i32,
        /// Its text.
        message: String,
    },
    /// Input was sent to a call that takes none, or none any more.
    #[error("the call takes no more input")]
    InputClosed,
    /// A call was to be taken up at a place other than where it was left.
    #[error("this connection holds the call's output from other offsets on")]
    Offsets,
    /// The request is too long for one message.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The guest answered another question.
    #[error("the guest answered with something that was not asked for")]
    UnexpectedReply,
}

/// Why an operation on files has no result.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The guest did not, or could not, do it.
    #[error(transparent)]
    File(#[from] FileError),
    /// There was no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer is longer than the caller takes.
    #[error("the answer is longer than {limit} bytes")]
    TooMuch {
        /// What the caller takes.
        limit: u64,
    },
    /// The answer holds a record that is none.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// What was to be written could not be read.
    #[error("cannot read what is to be sent")]
    Source(#[source] io::Error),
}

/// Why something could not be done with a sandbox as a whole.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// It was not made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its back end could not do it.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// It was made, but its guest cannot be spoken to.
    #[error("cannot speak to the guest")]
    Connect(#[from] ConnectError),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A rule of the protocol that the guest broke. It ends the connection: nothing
/// that follows can be trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("the guest sent a frame that only a host sends")]
    HostFrame,
    #[error("the guest sent more than {WINDOW} bytes ahead on {1:?} of call {0}")]
    Overrun(u64, Channel),
    #[error("the guest sent data on {1:?} of call {0} after its end")]
    AfterEnd(u64, Channel),
    #[error("the guest consumed input of call {0} that was never sent")]
    Overconsumed(u64),
    #[error("the guest reported too many gaps in the output of call {0}")]
    Gaps(u64),
}
