//! Joining the bytes of a piece into tokens: always the pair that makes the token of the
//! lowest rank, of several the first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::table::Table;

/// Pieces up to this many bytes are looked through for the best pair; longer ones keep
/// their pairs in order.
const SHORT: usize = 64;

/// A longer piece is no word of any language. It is counted in parts of this many bytes,
/// which may be a token too many where two of them meet.
const LONGEST: usize = 4_096;

const NONE: u32 = u32::MAX;

/// Joins pieces, one after the other.
#[derive(Default)]
pub(crate) struct Merge {
    parts: Vec<Part>,
    pairs: BinaryHeap<Reverse<(u32, u32, u32)>>,
}

/// A token that may still be joined with the next.
#[derive(Clone, Copy)]
struct Part {
    start: u32,
    /// The rank of this and the next one together.
    rank: u32,
    /// Where the one before and the next one are among all.
    before: u32,
    next: u32,
}

impl Merge {
    /// How many tokens a piece is.
    pub(crate) fn count(&mut self, table: &Table, piece: &[u8]) -> u64 {
        piece.chunks(LONGEST).map(|piece| self.join(table, piece)).sum()
    }

    fn join(&mut self, table: &Table, piece: &[u8]) -> u64 {
        if piece.len() < 2 || table.rank(piece).is_some() {
            return 1;
        }
        match piece.len() {
            ..=SHORT => self.short(table, piece),
            _ => self.long(table, piece),
        }
        self.parts.len() as u64
    }

    /// Leaves one part for each token.
    fn short(&mut self, table: &Table, piece: &[u8]) {
        let parts = &mut self.parts;
        parts.clear();
        for start in 0..piece.len() {
            let rank = rank(table, piece, start, start + 2);
            parts.push(Part { start: start as u32, rank, before: NONE, next: NONE });
        }
        let start = |parts: &[Part], place: usize| {
            parts.get(place).map_or(piece.len(), |part| part.start as usize)
        };
        loop {
            let (mut best, mut lowest) = (0, NONE);
            for (place, part) in parts.iter().enumerate() {
                if part.rank < lowest {
                    (best, lowest) = (place, part.rank);
                }
            }
            if lowest == NONE {
                return;
            }
            parts.remove(best + 1);
            for place in [Some(best), best.checked_sub(1)].into_iter().flatten() {
                let (from, next) = (start(parts, place), place + 1);
                let joined = match next < parts.len() {
                    true => rank(table, piece, from, start(parts, next + 1)),
                    false => NONE,
                };
                if let Some(part) = parts.get_mut(place) {
                    part.rank = joined;
                }
            }
        }
    }

    /// The same for many parts.
    fn long(&mut self, table: &Table, piece: &[u8]) {
        let Self { parts, pairs } = self;
        parts.clear();
        pairs.clear();
        let length = piece.len() as u32;
        for start in 0..length {
            let rank = rank(table, piece, start as usize, start as usize + 2);
            let next = if start + 1 < length { start + 1 } else { NONE };
            parts.push(Part { start, rank, before: start.wrapping_sub(1), next });
            if rank != NONE {
                pairs.push(Reverse((rank, start, start + 2)));
            }
        }
        // The place of a part is where it begins; one that was joined has no rank.
        let end = |parts: &[Part], place: u32| match parts.get(place as usize) {
            Some(part) if part.next != NONE => part.next,
            _ => length,
        };
        while let Some(Reverse((lowest, place, until))) = pairs.pop() {
            let Some(part) = parts.get(place as usize).copied() else { continue };
            // What was joined meanwhile is another pair.
            if part.rank != lowest || part.next == NONE || end(parts, part.next) != until {
                continue;
            }
            let gone = part.next;
            let next = parts.get(gone as usize).map_or(NONE, |part| part.next);
            if let Some(part) = parts.get_mut(gone as usize) {
                part.rank = NONE;
            }
            if let Some(part) = parts.get_mut(place as usize) {
                part.next = next;
            }
            if let Some(part) = parts.get_mut(next as usize) {
                part.before = place;
            }
            for from in [place, part.before] {
                let Some(next) = parts.get(from as usize).map(|part| part.next) else { continue };
                let until = end(parts, next);
                let joined = match next {
                    NONE => NONE,
                    _ => rank(table, piece, from as usize, until as usize),
                };
                if let Some(part) = parts.get_mut(from as usize) {
                    part.rank = joined;
                }
                if joined != NONE {
                    pairs.push(Reverse((joined, from, until)));
                }
            }
        }
        let mut place = 0;
        let mut left = Vec::new();
        while let Some(part) = parts.get(place as usize) {
            left.push(*part);
            place = part.next;
        }
        *parts = left;
    }

    /// The tokens of a piece by their ranks.
    #[cfg(test)]
    pub(crate) fn ranks(&mut self, table: &Table, piece: &[u8]) -> Vec<u32> {
        let mut ranks = Vec::new();
        for piece in piece.chunks(LONGEST) {
            if self.join(table, piece) == 1 {
                ranks.extend(table.rank(piece));
                continue;
            }
            let starts: Vec<usize> = self.parts.iter().map(|part| part.start as usize).collect();
            let ends = starts.iter().copied().skip(1).chain([piece.len()]);
            ranks.extend(starts.iter().zip(ends).filter_map(|(s, e)| table.rank(&piece[*s..e])));
        }
        ranks
    }
}

fn rank(table: &Table, piece: &[u8], start: usize, end: usize) -> u32 {
    piece.get(start..end).and_then(|pair| table.rank(pair)).unwrap_or(NONE)
}
