//! One output channel of a call: what was taken in, what the host has, what is
//! still to be sent.
//!
//! Offsets count the bytes that are delivered, from the beginning of the call.
//! Bytes stay until the host has consumed them, so that a host that dials again
//! can have them again. A captured channel keeps a head and a tail; the head goes
//! out as it comes, the tail when it is known to be the tail.

use cofferdam_guest_protocol::{CHUNK, OutputMode, WINDOW};

use crate::blocks::{Blocks, NoMemory};

/// A captured channel keeps no more than this, whatever limit is asked for.
const MAX_CAPTURE: u64 = 64 << 20;

/// The bytes of one channel.
#[derive(Debug)]
pub(crate) struct OutputBuffer {
    /// From offset `base` on.
    kept: Blocks,
    base: u64,
    /// The next byte to send on this connection.
    sent: u64,
    /// The most that was sent on any connection.
    highest: u64,
    /// The host has missed this many bytes before `sent`, and is to be told.
    missed: u64,
    /// Where bytes are missing that were consumed by an earlier host, and how many.
    holes: Vec<(u64, u64)>,
    capture: Option<Capture>,
    /// Where bytes were dropped, how many, and whether the host was told.
    gap: Option<(u64, u64, bool)>,
    total: u64,
    dropped: u64,
    finished: bool,
}

#[derive(Debug)]
struct Capture {
    head_left: usize,
    tail_limit: usize,
    tail: Blocks,
}

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes were dropped here.
    Gap(u64),
    /// Bytes from this offset on.
    Data {
        /// Where they begin.
        offset: u64,
        /// How many.
        length: usize,
    },
}

/// A host that claims bytes it was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeverSent;

impl OutputBuffer {
    pub(crate) fn new(mode: OutputMode) -> Self {
        let capture = match mode {
            OutputMode::Stream => None,
            OutputMode::Capture { limit } => {
                let limit = usize::try_from(limit.min(MAX_CAPTURE)).unwrap_or(0);
                let head_left = limit / 2;
                Some(Capture { head_left, tail_limit: limit - head_left, tail: Blocks::default() })
            }
        };
        Self {
            kept: Blocks::default(),
            base: 0,
            sent: 0,
            highest: 0,
            missed: 0,
            holes: Vec::new(),
            capture,
            gap: None,
            total: 0,
            dropped: 0,
            finished: false,
        }
    }

    /// Bytes that came, and how many of them were dropped.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.total, self.dropped)
    }

    /// How many bytes may be taken in now.
    pub(crate) fn room(&self) -> usize {
        if self.finished {
            return 0;
        }
        match self.capture {
            Some(_) => CHUNK,
            None => (WINDOW as usize).saturating_sub(self.kept.len()),
        }
    }

    /// Bytes that wait to be sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.end() - self.sent.max(self.base)
    }

    /// Whether every byte is passed on, and taking in must wait for the host.
    pub(crate) fn streams(&self) -> bool {
        self.capture.is_none()
    }

    fn end(&self) -> u64 {
        self.base + self.kept.len() as u64
    }

    /// Takes in bytes: those that `fill` puts into the room it is given. Only for
    /// a channel that streams.
    pub(crate) fn fill(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<(), NoMemory> {
        let before = self.kept.len();
        let outcome = self.kept.fill(fill);
        self.total += (self.kept.len() - before) as u64;
        outcome
    }

    /// Takes in bytes by copying them. What there is no memory for counts as
    /// dropped.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let before = self.held();
        let Some(capture) = &mut self.capture else {
            // Only the first bytes that do not fit are missing, and all after them.
            self.kept.append(bytes).ok();
            self.dropped += (before + bytes.len() - self.held()) as u64;
            return;
        };
        let (head, rest) = bytes.split_at(bytes.len().min(capture.head_left));
        capture.head_left -= head.len();
        let mut taken = self.kept.append(head);
        // Only the last `tail_limit` bytes can be part of the tail.
        let (_, rest) = rest.split_at(rest.len().saturating_sub(capture.tail_limit));
        capture.tail.release((capture.tail.len() + rest.len()).saturating_sub(capture.tail_limit));
        taken = taken.and(capture.tail.append(rest));
        if taken.is_err() {
            // A head with a hole would be taken for whole.
            capture.head_left = 0;
        }
        self.dropped += (before + bytes.len() - self.held()) as u64;
    }

    /// Bytes held now.
    fn held(&self) -> usize {
        self.kept.len() + self.capture.as_ref().map_or(0, |capture| capture.tail.len())
    }

    /// Whether it is known that no more will come.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// No more will come.
    pub(crate) fn finish(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        let end_of_head = self.end();
        if let Some(Capture { mut tail, .. }) = self.capture.take() {
            loop {
                let run = tail.run(0);
                let length = run.len();
                let before = self.kept.len();
                let appended = self.kept.append(run);
                if length == 0 || appended.is_err() {
                    self.dropped += (tail.len() + before - self.kept.len()) as u64;
                    break;
                }
                tail.release(length);
            }
        }
        if self.dropped > 0 {
            self.gap = Some((end_of_head, self.dropped, false));
        }
        self.kept.shrink();
    }

    /// What is to be sent next, as far as the window allows.
    pub(crate) fn next_piece(&self) -> Option<Piece> {
        if self.missed > 0 {
            return Some(Piece::Gap(self.missed));
        }
        let mut until = self.end();
        if let Some((at, dropped, told)) = self.gap
            && !told
        {
            if at == self.sent {
                return Some(Piece::Gap(dropped));
            }
            if at > self.sent {
                until = at;
            }
        }
        let allowed = until.min(self.base + WINDOW).checked_sub(self.sent)?;
        let at = usize::try_from(self.sent.checked_sub(self.base)?).ok()?;
        let most = usize::try_from(allowed).unwrap_or(CHUNK).min(CHUNK);
        let length = self.kept.run(at).len().min(most);
        (length > 0).then_some(Piece::Data { offset: self.sent, length })
    }

    /// The piece is on its way.
    pub(crate) fn mark_sent(&mut self, piece: Piece) {
        match piece {
            Piece::Gap(_) if self.missed > 0 => self.missed = 0,
            Piece::Gap(_) => {
                if let Some((_, _, told)) = &mut self.gap {
                    *told = true;
                }
            }
            Piece::Data { offset, length } => {
                self.sent = offset + length as u64;
                self.highest = self.highest.max(self.sent);
            }
        }
    }

    /// The bytes of a piece; `None` when the host has already said that it
    /// consumed them.
    pub(crate) fn bytes(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.base)?).ok()?;
        self.kept.run(at).get(..length)
    }

    /// Whether everything was taken in and sent.
    pub(crate) fn is_delivered(&self) -> bool {
        let told = self.gap.is_none_or(|(_, _, told)| told) && self.missed == 0;
        self.finished && told && self.sent == self.end()
    }

    /// The host has consumed this many bytes in all.
    pub(crate) fn consumed(&mut self, total: u64) -> Result<(), NeverSent> {
        if total > self.sent {
            return Err(NeverSent);
        }
        self.release_to(total);
        Ok(())
    }

    /// A host dialled again and has this many bytes in all.
    pub(crate) fn resume(&mut self, offset: u64) -> Result<(), NeverSent> {
        if offset > self.highest {
            return Err(NeverSent);
        }
        let lost = self.base.saturating_sub(offset);
        if lost > 0 {
            // What was consumed is gone. Say so, and count on from where the
            // host is.
            self.base = offset;
            self.highest -= lost;
            if let Some((at, ..)) = &mut self.gap
                && *at >= offset
            {
                *at = at.saturating_sub(lost).max(offset);
            }
        }
        // So is what was told to a host before this one, which knows nothing of it.
        let told_before = self.holes.extract_if(.., |(at, _)| *at >= offset);
        self.missed = lost + told_before.map(|(_, bytes)| bytes).sum::<u64>();
        if self.missed > 0 {
            self.holes.push((offset, self.missed));
        }
        self.sent = offset;
        if let Some((at, _, told)) = &mut self.gap {
            *told = *at < offset;
        }
        self.release_to(offset);
        Ok(())
    }

    fn release_to(&mut self, offset: u64) {
        if let Some(count) = offset.checked_sub(self.base) {
            self.kept.release(usize::try_from(count).unwrap_or(usize::MAX));
            self.base = offset;
            if self.finished {
                self.kept.shrink();
            }
        }
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
