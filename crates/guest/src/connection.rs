//! The connection to the host: its descriptors, the hello, and the bytes on
//! their way out.
//!
//! Only frames without bulk are queued here. A long piece of data stays in its
//! call and is written from there, one at a time; frames that come meanwhile
//! follow it before any other data.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};

use cofferdam_guest_protocol::{Channel, Decoder, Frame, HELLO_LEN, Hello, data_header, encode};
use rustix::io::Errno;

use crate::sys;

/// Frames gathered before they are written.
const GATHERED: usize = 64 << 10;

/// With this much queued, nothing more is taken from the host.
const FULL: usize = 512 << 10;

/// Bytes read at a time.
const READ: usize = 64 << 10;

/// An empty buffer larger than this is given back.
const KEPT: usize = 256 << 10;

/// A long piece of data on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bulk {
    pub(crate) call: u64,
    pub(crate) slot: usize,
    pub(crate) channel: Channel,
    pub(crate) offset: u64,
    pub(crate) length: usize,
    pub(crate) written: usize,
}

/// What is on its way out: frames, then at most one long piece, then frames.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    front: Vec<u8>,
    written: usize,
    bulk: Option<Bulk>,
    back: Vec<u8>,
}

impl Outgoing {
    /// Queues a frame; false if it has no wire form.
    pub(crate) fn push(&mut self, frame: &Frame) -> bool {
        encode(frame, self.last()).is_ok()
    }

    /// Queues a short piece of data.
    pub(crate) fn push_data(&mut self, call: u64, channel: Channel, bytes: &[u8]) {
        if let Ok(header) = data_header(call, channel, bytes.len()) {
            self.last().extend_from_slice(&header);
            self.last().extend_from_slice(bytes);
        }
    }

    /// Queues the header of a long piece, which is then written out of its call.
    pub(crate) fn push_bulk(&mut self, bulk: Bulk) {
        if let Ok(header) = data_header(bulk.call, bulk.channel, bulk.length) {
            self.front.extend_from_slice(&header);
            self.bulk = Some(bulk);
        }
    }

    fn last(&mut self) -> &mut Vec<u8> {
        if self.bulk.is_some() { &mut self.back } else { &mut self.front }
    }

    pub(crate) fn bulk(&self) -> Option<Bulk> {
        self.bulk
    }

    /// Whether more should be gathered before the next write.
    pub(crate) fn gathers(&self) -> bool {
        self.bulk.is_none() && self.queued() < GATHERED
    }

    fn queued(&self) -> usize {
        self.front.len() - self.written + self.back.len()
    }

    fn is_empty(&self) -> bool {
        self.queued() == 0 && self.bulk.is_none()
    }

    fn advance(&mut self, mut count: usize) {
        let front = count.min(self.front.len() - self.written);
        self.written += front;
        count -= front;
        if let Some(bulk) = &mut self.bulk {
            let now = count.min(bulk.length - bulk.written);
            bulk.written += now;
            count -= now;
            if bulk.written < bulk.length {
                return;
            }
            self.bulk = None;
        }
        if self.written == self.front.len() {
            self.front.clear();
            self.written = 0;
            std::mem::swap(&mut self.front, &mut self.back);
            self.written = count.min(self.front.len());
            if self.front.is_empty() && self.front.capacity() > KEPT {
                self.front = Vec::new();
            }
        }
    }
}

/// The connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Something went out; try again.
    Some,
    /// There is nothing to write, or no room for it now.
    Enough,
}

/// A connection that has said hello.
pub(crate) struct Connection {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) outgoing: Outgoing,
    decoder: Decoder,
}

impl Connection {
    /// Whether a turn of reading would do something.
    pub(crate) fn wants_turn(&self) -> bool {
        self.readable && self.outgoing.queued() < FULL
    }

    /// Reads once.
    pub(crate) fn receive(&mut self) -> Result<(), Lost> {
        if !self.wants_turn() {
            return Ok(());
        }
        match sys::read_into(self.input.as_fd(), self.decoder.buffer(), READ) {
            Ok(0) => Err(Lost),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(Errno::AGAIN) => {
                self.readable = false;
                Ok(())
            }
            Err(_) => Err(Lost),
        }
    }

    /// The next frame, if a whole one is there.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, Lost> {
        let frame = self.decoder.next_frame().map_err(|_| Lost)?;
        if frame.is_none()
            && self.decoder.buffer().is_empty()
            && self.decoder.buffer().capacity() > KEPT
        {
            self.decoder = Decoder::default();
        }
        Ok(frame)
    }

    /// Writes once; `bulk` is what is left of the long piece.
    pub(crate) fn write(&mut self, bulk: &[u8]) -> Result<Written, Lost> {
        if !self.writable || self.outgoing.is_empty() {
            return Ok(Written::Enough);
        }
        let front = self.outgoing.front.get(self.outgoing.written..).unwrap_or_default();
        let pieces = [front, bulk, &self.outgoing.back].map(IoSlice::new);
        match rustix::io::writev(&self.output, &pieces) {
            Ok(0) => Err(Lost),
            Ok(count) => {
                self.outgoing.advance(count);
                Ok(Written::Some)
            }
            Err(Errno::INTR) => Ok(Written::Some),
            Err(Errno::AGAIN) => {
                self.writable = false;
                Ok(Written::Enough)
            }
            Err(_) => Err(Lost),
        }
    }
}

/// A peer that has not said hello yet.
pub(crate) struct Candidate {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    said: Vec<u8>,
}

impl Candidate {
    /// Says hello to a fresh peer. Whoever it is, it learns whom it has reached.
    pub(crate) fn greet(input: OwnedFd, output: OwnedFd) -> Result<Self, Lost> {
        for fd in [&input, &output] {
            rustix::io::ioctl_fionbio(fd, true).map_err(|_| Lost)?;
        }
        match rustix::io::write(&output, &Hello::ours().to_bytes()) {
            Ok(HELLO_LEN) => Ok(Self { input, output, said: Vec::new() }),
            _ => Err(Lost),
        }
    }

    /// Listens on; says whether the hello is complete and good.
    pub(crate) fn listen(&mut self) -> Result<bool, Lost> {
        loop {
            let mut bytes = [0; HELLO_LEN];
            let missing = HELLO_LEN.saturating_sub(self.said.len());
            let Some(room) = bytes.get_mut(..missing) else { return Err(Lost) };
            match rustix::io::read(&self.input, room) {
                Ok(0) => return Err(Lost),
                Ok(count) => self.said.extend(bytes.iter().take(count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(_) => return Err(Lost),
            }
            if let Ok(hello) = <[u8; HELLO_LEN]>::try_from(self.said.as_slice()) {
                let theirs = Hello::from_bytes(hello).map_err(|_| Lost)?;
                Hello::ours().agree(theirs).map_err(|_| Lost)?;
                return Ok(true);
            }
        }
    }

    /// The connection it becomes.
    pub(crate) fn accept(self) -> Connection {
        Connection {
            input: self.input,
            output: self.output,
            readable: true,
            writable: true,
            outgoing: Outgoing::default(),
            decoder: Decoder::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_come_during_a_long_piece_follow_it() {
        let mut out = Outgoing::default();
        out.push(&Frame::Ack { call: 1 });
        let channel = Channel::Output;
        out.push_bulk(Bulk { call: 1, slot: 0, channel, offset: 0, length: 100, written: 0 });
        out.push(&Frame::Ack { call: 2 });
        assert_eq!((out.front.len(), out.back.len()), (32, 16));

        out.advance(40);
        assert_eq!(out.bulk().map(|bulk| bulk.written), Some(8));
        out.advance(92 + 4);
        assert!(out.bulk().is_none());
        assert_eq!(out.front.get(out.written..).map(<[u8]>::len), Some(12));
        out.advance(12);
        assert!(out.is_empty());
    }

    #[test]
    fn it_gathers_until_there_is_a_long_piece_or_much() {
        let mut out = Outgoing::default();
        assert!(out.gathers());
        out.push_data(1, Channel::Output, &[0; GATHERED]);
        assert!(!out.gathers());
    }
}
