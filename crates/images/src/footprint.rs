//! What the entries of an archive will take on a disk, by what their headers say.
//!
//! It is rather too much than too little: an archive of small files is small, and the disk that it
//! fills is not.

use tar::EntryType;

use crate::confined::Inside;
use crate::entries::Entry;

/// What content on a disk comes in. Those of most disks are as large.
const BLOCK: u64 = 4096;

/// What a file takes besides its content, about: its inode, and its name in a directory.
const PER_FILE: u64 = 1024;

/// What is taken of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) bytes: u64,
    /// Files, directories and links: disks have room for so many and no more.
    pub(crate) files: u64,
}

impl Footprint {
    /// More than any disk has.
    pub(crate) const MAX: Self = Self { bytes: u64::MAX, files: u64::MAX };

    /// What one file with so much in it takes.
    pub(crate) fn of_file(size: u64) -> Self {
        let content = size.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        Self { bytes: content.saturating_add(PER_FILE), files: 1 }
    }

    /// What is left without another one, if it is in there.
    pub(crate) fn without(self, other: Self) -> Option<Self> {
        Some(Self {
            bytes: self.bytes.checked_sub(other.bytes)?,
            files: self.files.checked_sub(other.files)?,
        })
    }
}

/// The entries of a layer, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Footprints {
    /// The one before: the directories above it are there.
    last: Vec<u8>,
}

impl Footprints {
    /// What is taken by the next entry that is written, with the directories above it that no entry
    /// may have told of.
    pub(crate) fn of(&mut self, entry: &Entry, path: &Inside) -> Footprint {
        let part = |byte: &u8| *byte == b'/';
        let parts = path.as_bytes().split(part).filter(|part| !part.is_empty());
        let same = parts.clone().zip(self.last.split(part)).take_while(|(a, b)| a == b).count();
        let new = parts.count().saturating_sub(same);
        self.last = path.as_bytes().to_vec();
        let own = match entry.kind {
            // Old archives have directories like this.
            _ if entry.path.ends_with(b"/") => Footprint::of_file(BLOCK),
            EntryType::Regular | EntryType::Continuous => Footprint::of_file(entry.size),
            EntryType::Symlink => Footprint::of_file(entry.link.len() as u64),
            // Only a name more, though some file systems count it as a file.
            EntryType::Link => Footprint::of_file(0),
            _ => Footprint::of_file(BLOCK),
        };
        let above = new.saturating_sub(1) as u64;
        Footprint {
            bytes: own.bytes.saturating_add(above.saturating_mul(BLOCK + PER_FILE)),
            files: own.files.saturating_add(above),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(entries: &[(EntryType, &str, u64)]) -> Vec<(u64, u64)> {
        let mut footprints = Footprints::default();
        let mut of = |(kind, path, size): &(EntryType, &str, u64)| {
            let (path, link) = (path.as_bytes().to_vec(), b"x".to_vec());
            let inside = Inside::new(&path).unwrap();
            let (kind, size) = (*kind, *size);
            let entry = Entry { path, link, kind, size, mode: 0, mtime: 0, position: 0 };
            let Footprint { bytes, files } = footprints.of(&entry, &inside);
            (bytes, files)
        };
        entries.iter().map(&mut of).collect()
    }

    #[test]
    fn content_comes_in_blocks_and_every_file_takes_something_besides() {
        use EntryType::{Directory, Link, Regular, Symlink};
        let entries = [
            (Directory, "./", 0),
            (Directory, "d/", 0),
            (Regular, "d/old/", 0),
            (Regular, "d/empty", 0),
            (Regular, "d/small", 1),
            (Regular, "d/block", 4096),
            (Regular, "d/more", 4097),
            (Symlink, "d/symlink", 0),
            (Link, "d/link", 0),
        ];
        let (none, one, two) = ((1024, 1), (5120, 1), (9216, 1));
        assert_eq!(taken(&entries), [one, one, one, none, one, one, two, one, none]);
        assert_eq!(taken(&[(Regular, "a", u64::MAX)]), [(u64::MAX, 1)]);
    }

    #[test]
    fn directories_that_no_entry_tells_of_are_counted() {
        use EntryType::Regular;
        let files = ["a/b/c/d", "a/b/c/e", "a/b/x/y/z", "a/b", "b/b/c", "./b//b/d"];
        let entries = files.map(|path| (Regular, path, 0));
        let counts: Vec<_> = taken(&entries).into_iter().map(|(_, files)| files).collect();
        assert_eq!(counts, [4, 1, 3, 1, 3, 1]);
    }

    #[test]
    fn what_is_not_in_there_cannot_be_taken_away() {
        let all = Footprint { bytes: 5, files: 2 };
        assert_eq!(all.without(all), Some(Footprint::default()));
        assert_eq!(all.without(Footprint { bytes: 6, files: 0 }), None);
        assert_eq!(all.without(Footprint { bytes: 0, files: 3 }), None);
    }
}
