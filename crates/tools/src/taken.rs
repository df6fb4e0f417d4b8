//! How far a recording is in the output of its command, kept beside it for whoever goes on
//! with it after this process.
//!
//! The guest forgets what was taken of it, so a recording that is on disk says after each
//! piece where it is. Whenever the process dies, the last place is true: what was written
//! after it is cut off, and the guest has that still, for it may forget a piece only when
//! the next one is asked for. Nothing here has to outlive the machine, whose end is that of
//! the sandbox too; so nothing is waited for.
//!
//! Of an output that is longer than its kept beginning the last bytes are here as well, in a
//! ring.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use cofferdam_sandbox::Offsets;

use crate::outputs::END;

/// The form of these files.
const VERSION: u64 = 1;

/// Bytes of a place in the file: the form and four numbers.
const PLACE: usize = 40;

/// Bytes of the ring, and how many of the last ones are sure to be in it: a piece that was
/// half written has taken the place of the earliest.
const RING: u64 = END as u64;
const SURE: u64 = RING / 2;

/// A place in the output of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// What the recording has of both streams.
    pub(crate) offsets: Offsets,
    /// The bytes of the recording, with what is said in it of missing ones.
    pub(crate) total: u64,
    pub(crate) newlines: u64,
}

/// The file that has the place.
#[derive(Debug)]
pub(crate) struct Taken {
    file: File,
}

impl Taken {
    /// Begins one that has no place yet.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Self { file: options.open(path)? })
    }

    /// Opens what an earlier process has left.
    ///
    /// # Errors
    /// When there is nothing, or no place in it that this release could read.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Place)> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut bytes = [0; PLACE];
        file.read_exact_at(&mut bytes, 0)?;
        let numbers = bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number));
        let numbers: Vec<u64> = numbers.collect();
        let [VERSION, stdout, stderr, total, newlines] = *numbers else {
            return Err(io::Error::other("it has another form"));
        };
        Ok((Self { file }, Place { offsets: Offsets { stdout, stderr }, total, newlines }))
    }

    /// The recording is here now. What belongs to the place was written before. The bytes
    /// are in one page, and so are there or not, even if the process is killed meanwhile.
    pub(crate) fn mark(&self, place: Place) -> io::Result<()> {
        let Place { offsets: Offsets { stdout, stderr }, total, newlines } = place;
        let numbers = [VERSION, stdout, stderr, total, newlines];
        self.file.write_all_at(numbers.map(u64::to_le_bytes).as_flattened(), 0)
    }

    /// Keeps bytes beyond the beginning, the first of which is at this place behind it.
    pub(crate) fn keep_end(&self, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let until_its_end = usize::try_from(RING - at % RING).unwrap_or(usize::MAX);
            let (piece, rest) = bytes.split_at(until_its_end.min(bytes.len()));
            self.file.write_all_at(piece, PLACE as u64 + at % RING)?;
            at += piece.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// The last of so many bytes beyond the beginning, as far as they are sure to be here.
    pub(crate) fn end(&self, beyond: u64) -> io::Result<Vec<u8>> {
        let mut at = beyond - beyond.min(SURE);
        let mut bytes = Vec::new();
        while at < beyond {
            let length = (beyond - at).min(RING - at % RING);
            let mut piece = vec![0; usize::try_from(length).unwrap_or_default()];
            self.file.read_exact_at(&mut piece, PLACE as u64 + at % RING)?;
            bytes.append(&mut piece);
            at += length;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_found_wherever_the_ring_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let taken = Taken::create(&directory.path().join("7.taken")).unwrap();
        let whole: Vec<u8> = (0..3 * RING + 12_345).map(|at| (at % 251) as u8).collect();
        let mut at = 0;
        for piece in whole.chunks(200_003) {
            taken.keep_end(at, piece).unwrap();
            at += piece.len() as u64;
            let end = taken.end(at).unwrap();
            assert_eq!(end.len() as u64, at.min(SURE));
            assert!(whole[..at as usize].ends_with(&end));
        }
    }

    #[test]
    fn a_place_is_read_as_it_was_written_and_another_form_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("7.taken");
        let taken = Taken::create(&path).unwrap();
        assert!(Taken::open(&path).is_err(), "there is no place yet");
        let place =
            Place { offsets: Offsets { stdout: 1, stderr: 2 << 40 }, total: 3, newlines: 4 };
        taken.mark(place).unwrap();
        assert_eq!(Taken::open(&path).unwrap().1, place);
        taken.file.write_all_at(&[VERSION as u8 + 1], 0).unwrap();
        assert!(Taken::open(&path).is_err(), "a later release wrote it");
    }
}
