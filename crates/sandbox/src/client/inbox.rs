//! What the guest has sent on one channel of a call and nobody has taken yet.
//!
//! It never holds more than a window of bytes, nor much more memory than that
//! needs: short pieces are gathered, so that a guest that sends single bytes costs
//! no more than one that sends long pieces; and only a few pieces that are small
//! parts of the blocks they were read into keep these alive, so that a guest cannot
//! have a block held for each.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use cofferdam_guest_protocol::WINDOW;

/// Pieces shorter than this are copied together. A longer one is passed on as
/// it is, and keeps the block it was read into alive.
const GATHERED: usize = 32 << 10;

/// Pieces shorter than this are small parts of the blocks they were read into.
const LARGE: usize = super::READ_BLOCK / 4;

/// Small parts of blocks that are passed on as they are, at once. Where they are taken as
/// they come, as a rule, there is never more than one.
const MOST_PARTS: usize = 4;

/// Bytes taken before the guest is told.
const GRANT: u64 = WINDOW / 4;

/// Gaps held at once. A guest makes one a channel.
const MAX_GAPS: usize = 64;

/// One channel's queue.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    queue: VecDeque<Piece>,
    received: u64,
    taken: u64,
    granted: u64,
    /// Pieces held that are small parts of their blocks.
    parts: usize,
    gaps: usize,
    ended: bool,
}

#[derive(Debug)]
struct Piece {
    /// Its place among the pieces of all channels of the call.
    sequence: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Whole(Bytes),
    Gathered(BytesMut),
    Gap(u64),
}

/// What is taken out of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Bytes, at least one.
    Data(Bytes),
    /// So many bytes are missing here.
    Gap(u64),
}

/// A rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Overrun,
    AfterEnd,
    Gaps,
}

impl Inbox {
    /// A channel whose first bytes are elsewhere already.
    pub(super) fn from_offset(offset: u64) -> Self {
        Self { received: offset, taken: offset, granted: offset, ..Self::default() }
    }

    /// How many bytes were taken, those before the first included.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    pub(super) fn first_sequence(&self) -> Option<u64> {
        self.queue.front().map(|piece| piece.sequence)
    }

    /// Counts bytes in, whether or not anybody will have them.
    pub(super) fn receive(&mut self, length: u64) -> Result<(), Broken> {
        if self.ended {
            return Err(Broken::AfterEnd);
        }
        let received = self.received.saturating_add(length);
        if received - self.granted > WINDOW {
            return Err(Broken::Overrun);
        }
        self.received = received;
        Ok(())
    }

    pub(super) fn push(&mut self, sequence: u64, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let is_part = bytes.len() < LARGE;
        if bytes.len() >= GATHERED && (!is_part || self.parts < MOST_PARTS) {
            self.parts += usize::from(is_part);
            self.queue.push_back(Piece { sequence, content: Content::Whole(bytes) });
            return;
        }
        if let Some(Piece { content: Content::Gathered(gathered), .. }) = self.queue.back_mut()
            && gathered.len() < GATHERED
        {
            gathered.extend_from_slice(&bytes);
            return;
        }
        let content = Content::Gathered(BytesMut::from(bytes.as_ref()));
        self.queue.push_back(Piece { sequence, content });
    }

    pub(super) fn push_gap(&mut self, sequence: u64, dropped: u64) -> Result<(), Broken> {
        if self.ended {
            return Err(Broken::AfterEnd);
        }
        if let Some(Piece { content: Content::Gap(gap), .. }) = self.queue.back_mut() {
            *gap = gap.saturating_add(dropped);
            return Ok(());
        }
        if self.gaps == MAX_GAPS {
            return Err(Broken::Gaps);
        }
        self.gaps += 1;
        self.queue.push_back(Piece { sequence, content: Content::Gap(dropped) });
        Ok(())
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn take(&mut self) -> Option<Taken> {
        let taken = match self.queue.pop_front()?.content {
            Content::Whole(bytes) => {
                self.parts -= usize::from(bytes.len() < LARGE);
                Taken::Data(bytes)
            }
            Content::Gathered(bytes) => Taken::Data(bytes.freeze()),
            Content::Gap(dropped) => {
                self.gaps -= 1;
                Taken::Gap(dropped)
            }
        };
        if let Taken::Data(bytes) = &taken {
            self.taken += bytes.len() as u64;
        }
        Some(taken)
    }

    /// Throws away what is queued, as if it had been taken.
    pub(super) fn discard(&mut self) {
        self.queue = VecDeque::new();
        self.parts = 0;
        self.gaps = 0;
        self.taken = self.received;
    }

    /// The count to tell the guest, when enough was taken since the last time.
    /// The end of a channel is no reason to tell it: what the guest still holds
    /// then, it can send again to a host that fell before it stored it.
    pub(super) fn grant(&mut self) -> Option<u64> {
        if self.ended || self.taken - self.granted < GRANT {
            return None;
        }
        self.granted = self.taken;
        Some(self.taken)
    }
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
