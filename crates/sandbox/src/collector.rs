//! The output of a command, kept up to a limit: its beginning and its end, and
//! how much was dropped between them.

use bytes::{Buf, Bytes, BytesMut};

/// A place in an output where bytes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// How many bytes come before it.
    pub offset: u64,
    /// How many are missing.
    pub dropped: u64,
}

/// Keeps one stream's output. It copies: pieces may be tiny, or parts of large
/// blocks that would be kept alive.
#[derive(Debug)]
pub(crate) struct Collector {
    head_limit: usize,
    tail_limit: usize,
    head: BytesMut,
    /// Nothing more is added to the head.
    head_full: bool,
    tail: BytesMut,
    dropped: u64,
}

impl Collector {
    /// Keeps at most so many bytes.
    pub(crate) fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            head_limit: limit - limit / 2,
            tail_limit: limit / 2,
            head: BytesMut::new(),
            head_full: false,
            tail: BytesMut::new(),
            dropped: 0,
        }
    }

    pub(crate) fn push(&mut self, mut bytes: Bytes) {
        if !self.head_full {
            let room = self.head_limit - self.head.len();
            self.head.extend_from_slice(&bytes.split_to(room.min(bytes.len())));
            self.head_full = self.head.len() == self.head_limit;
        }
        let too_long = bytes.len().saturating_sub(self.tail_limit);
        bytes.advance(too_long);
        self.tail.extend_from_slice(&bytes);
        let too_early = self.tail.len().saturating_sub(self.tail_limit);
        self.tail.advance(too_early);
        self.dropped = self.dropped.saturating_add((too_long + too_early) as u64);
    }

    /// Bytes were dropped elsewhere, at this place.
    pub(crate) fn push_gap(&mut self, dropped: u64) {
        self.head_full = true;
        self.dropped = self.dropped.saturating_add(dropped);
    }

    /// What was kept, and where what was not is missing.
    pub(crate) fn finish(mut self) -> (Bytes, Option<Gap>) {
        let gap = Gap { offset: self.head.len() as u64, dropped: self.dropped };
        self.head.unsplit(self.tail);
        (self.head.freeze(), (gap.dropped > 0).then_some(gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(limit: u64, pieces: &[&'static [u8]]) -> (Bytes, Option<Gap>) {
        let mut collector = Collector::new(limit);
        for piece in pieces {
            collector.push(Bytes::from_static(piece));
        }
        collector.finish()
    }

    #[test]
    fn all_is_kept_up_to_the_limit() {
        assert_eq!(collect(10, &[]), (Bytes::new(), None));
        assert_eq!(collect(10, &[b"0123456789"]), (Bytes::from_static(b"0123456789"), None));
        assert_eq!(collect(9, &[b"0123", b"45678"]), (Bytes::from_static(b"012345678"), None));
    }

    #[test]
    fn beyond_it_the_beginning_and_the_end_are_kept() {
        let wanted = (Bytes::from_static(b"01267"), Some(Gap { offset: 3, dropped: 3 }));
        assert_eq!(collect(5, &[b"01234567"]), wanted);
        assert_eq!(collect(5, &[b"0", b"1234", b"5", b"67"]), wanted);
        assert_eq!(collect(0, &[b"01"]), (Bytes::new(), Some(Gap { offset: 0, dropped: 2 })));
    }

    #[test]
    fn a_gap_of_the_guest_keeps_its_place() {
        let mut collector = Collector::new(100);
        collector.push(Bytes::from_static(b"head"));
        collector.push_gap(1000);
        collector.push(Bytes::from_static(b"tail"));
        let (bytes, gap) = collector.finish();
        assert_eq!(bytes, "headtail");
        assert_eq!(gap, Some(Gap { offset: 4, dropped: 1000 }));
    }
}
