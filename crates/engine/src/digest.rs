//! Reading something that is longer than a model can read: piece by piece, then what was
//! found in all of them together.

use cofferdam_types::Reading;

/// Tokens of what is noted about one piece, at least and at most.
const NOTE: (u64, u64) = (300, 2_000);

/// Something that is being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) reading: Reading,
    /// What was noted about each piece so far.
    pub(crate) notes: Vec<String>,
}

/// What is to be read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This piece, from 0.
    Piece(u32),
    /// The notes, all together.
    Notes,
}

impl Digest {
    pub(crate) fn of(reading: Reading) -> Self {
        Self { reading, notes: Vec::new() }
    }

    pub(crate) fn next(&self) -> Next {
        match u32::try_from(self.notes.len()) {
            Ok(piece) if piece < self.reading.pieces => Next::Piece(piece),
            _ => Next::Notes,
        }
    }

    /// Takes what was said about the piece, or about the notes; the last word, if it is that.
    pub(crate) fn note(&mut self, said: &str) -> Option<String> {
        let said = said.trim();
        let said = if said.is_empty() { "(nothing was said about this)" } else { said };
        let last = self.next() == Next::Notes || self.reading.pieces <= 1;
        self.notes.push(said.to_owned());
        last.then(|| said.to_owned())
    }

    /// Tokens that the next answer may have: all notes together have to be read in the end.
    pub(crate) fn longest(&self, window: u64) -> u64 {
        match self.next() {
            Next::Notes => NOTE.1,
            Next::Piece(_) => {
                (window / 4 / u64::from(self.reading.pieces).max(1)).clamp(NOTE.0, NOTE.1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(pieces: u32) -> Digest {
        Digest::of(Reading { handle: "h".to_owned(), pieces })
    }

    #[test]
    fn pieces_are_read_in_their_order_and_then_their_notes() {
        let mut digest = digest(2);
        assert_eq!((digest.next(), digest.note("a")), (Next::Piece(0), None));
        assert_eq!((digest.next(), digest.note(" ")), (Next::Piece(1), None));
        assert_eq!((digest.next(), digest.note("both")), (Next::Notes, Some("both".to_owned())));
    }

    #[test]
    fn what_has_one_piece_needs_no_second_look() {
        assert_eq!(digest(1).note("all"), Some("all".to_owned()));
    }
}
