//! The sandbox's archive, from the task that receives it to the thread that reads
//! it: a few pieces ahead, so that whoever is faster waits.
//!
//! An end that the sandbox has not confirmed is no end: reading then fails.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use cofferdam_sandbox::{Archived, FileStream, FilesError};
use tokio::sync::mpsc;

use crate::error::BundleError;

/// Pieces that may wait; each is at most as long as a message of the guest.
const WAITING: usize = 4;

/// A part of what comes.
enum Piece {
    Bytes(Bytes),
    End(Result<Archived, FilesError>),
}

/// Where the thread reads from.
pub(crate) struct Source {
    pieces: mpsc::Receiver<Piece>,
    unread: Bytes,
    end: Option<Result<Archived, FilesError>>,
}

/// What the task receives into.
pub(crate) struct Feed(mpsc::Sender<Piece>);

/// Both ends.
pub(crate) fn channel() -> (Feed, Source) {
    let (sender, pieces) = mpsc::channel(WAITING);
    (Feed(sender), Source { pieces, unread: Bytes::new(), end: None })
}

impl Feed {
    /// Passes everything on, until the end or until nobody reads any more.
    pub(crate) async fn receive(self, mut stream: FileStream) {
        let end = loop {
            let piece = tokio::select! {
                piece = stream.next() => piece,
                () = self.0.closed() => return,
            };
            match piece {
                Ok(Some(bytes)) => {
                    if self.0.send(Piece::Bytes(bytes)).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break stream.archived().await,
                Err(error) => break Err(error),
            }
        };
        // Where nobody reads any more, nobody wants to know.
        drop(self.0.send(Piece::End(end)).await);
    }
}

impl Source {
    /// What the sandbox says of the archive, after what was not read of it.
    pub(crate) fn finish(mut self) -> Result<Archived, BundleError> {
        while self.end.is_none() {
            self.unread = Bytes::new();
            if self.read(&mut [0]).is_err() {
                break;
            }
        }
        self.end.ok_or(BundleError::Abandoned)?.map_err(BundleError::Workspace)
    }

    /// Why reading failed, where it was not for what was read.
    pub(crate) fn failure(self) -> Option<BundleError> {
        match self.end {
            Some(Err(error)) => Some(error.into()),
            Some(Ok(_)) => None,
            None if self.pieces.is_closed() && self.pieces.is_empty() => {
                Some(BundleError::Abandoned)
            }
            None => None,
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.unread.is_empty() {
            match &self.end {
                Some(Ok(_)) => return Ok(0),
                Some(Err(_)) => return Err(io::Error::other("the sandbox failed")),
                None => {}
            }
            match self.pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.unread = bytes,
                Some(Piece::End(end)) => self.end = Some(end),
                None => return Err(io::Error::other("the archive was given up")),
            }
        }
        let length = self.unread.len().min(buffer.len());
        let (Some(from), Some(to)) = (self.unread.get(..length), buffer.get_mut(..length)) else {
            return Ok(0);
        };
        to.copy_from_slice(from);
        self.unread.advance(length);
        Ok(length)
    }
}

/// A source of these bytes, with this end; without one it is given up.
#[cfg(test)]
pub(crate) fn of(bytes: &[u8], end: Option<Result<Archived, FilesError>>) -> Source {
    let (sender, pieces) = mpsc::channel(2);
    sender.blocking_send(Piece::Bytes(Bytes::copy_from_slice(bytes))).unwrap();
    if let Some(end) = end {
        sender.blocking_send(Piece::End(end)).unwrap();
    }
    Source { pieces, unread: Bytes::new(), end: None }
}
