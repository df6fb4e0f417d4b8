//! What version control ignores and an archive therefore has not: counted, so
//! that the manifest can say how much it is and where.

use std::collections::{BTreeMap, BTreeSet};

use cofferdam_guest_protocol::{Entry, EntryKind};
use cofferdam_sandbox::{Files, FilesError, Ignored};
use serde::{Deserialize, Serialize};

use crate::component;
use crate::names::LONGEST_PATH;

/// Files that are looked at.
const MOST_FILES: u32 = 50_000;

/// Places that are named.
const MOST_PLACES: usize = 100;

/// What of a workspace is in an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// All but `.git` and what the workspace's ignore files name.
    #[default]
    NotIgnored,
    /// All of it. `.git` gets another name, so that no git takes it for its own.
    Everything,
}

impl Contents {
    pub(crate) fn ignored(self) -> Ignored {
        match self {
            Self::NotIgnored => Ignored::LeaveOut,
            Self::Everything => Ignored::Include,
        }
    }
}

/// What was ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredPart {
    /// How many files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether all of them were counted: in a workspace of very many files some
    /// are not.
    pub counted_all: bool,
    /// Where they are, each directory that is ignored as one; the largest first,
    /// and of very many the first hundred.
    pub places: Vec<IgnoredPlace>,
}

/// A file or directory that is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredPlace {
    /// Its path in the workspace.
    pub path: String,
    /// How many files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Counts what an archive with these contents will not have.
pub(crate) async fn count(files: &Files, contents: Contents) -> Result<IgnoredPart, FilesError> {
    if contents == Contents::Everything {
        return Ok(IgnoredPart { counted_all: true, ..IgnoredPart::default() });
    }
    // Both come in one order, so the second reaches at least as far as the first.
    let all = files.glob("", "**", Ignored::Include, MOST_FILES).await?;
    if !all.more && !all.records.iter().any(|entry| has_rules(&entry.path)) {
        return Ok(IgnoredPart { counted_all: true, ..IgnoredPart::default() });
    }
    let kept = files.glob("", "**", Ignored::LeaveOut, MOST_FILES).await?;
    let kept: BTreeSet<Vec<u8>> = kept.records.into_iter().map(|entry| entry.path).collect();
    Ok(difference(all.records, &kept, !all.more))
}

/// Whether this may be why other files are ignored.
fn has_rules(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    [b".git".as_slice(), b".gitignore", b".ignore"].contains(&name)
}

fn difference(all: Vec<Entry>, kept: &BTreeSet<Vec<u8>>, counted_all: bool) -> IgnoredPart {
    let mut part = IgnoredPart { counted_all, ..IgnoredPart::default() };
    let mut places: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
    let left_out =
        |entry: &Entry| entry.stat.kind != EntryKind::Directory && !kept.contains(&entry.path);
    for entry in all.into_iter().filter(left_out) {
        part.files += 1;
        part.bytes += entry.stat.size;
        let place = places.entry(top(&entry.path, kept).to_vec()).or_default();
        place.0 += 1;
        place.1 += entry.stat.size;
    }
    let named = |(path, (files, bytes)): (Vec<u8>, (u64, u64))| {
        let mut path = String::from_utf8_lossy(&path).into_owned();
        component::cut(&mut path, LONGEST_PATH);
        IgnoredPlace { path, files, bytes }
    };
    part.places = places.into_iter().map(named).collect();
    part.places.sort_by_key(|place| std::cmp::Reverse(place.bytes));
    part.places.truncate(MOST_PLACES);
    part
}

/// The highest directory above a file in which nothing is kept, or the file.
fn top<'p>(path: &'p [u8], kept: &BTreeSet<Vec<u8>>) -> &'p [u8] {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
    for end in ends {
        let beneath = path.get(..=end).unwrap_or_default();
        let first = kept.range(beneath.to_vec()..).next();
        if !first.is_some_and(|first| first.starts_with(beneath)) {
            return path.get(..end).unwrap_or_default();
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use cofferdam_guest_protocol::FileStat;

    use super::*;

    fn entry(path: &str, size: u64) -> Entry {
        let stat = FileStat {
            kind: EntryKind::File,
            size,
            allocated: 0,
            permissions: 0o644,
            modified_ns: 0,
        };
        Entry { path: path.as_bytes().to_vec(), stat, link: None }
    }

    #[test]
    fn ignored_files_are_counted_by_the_highest_directory_that_has_nothing_else() {
        let kept = ["a/b/kept", "a/z", "top"].map(|path| path.as_bytes().to_vec());
        let all = ["a/b/kept", "a/b/log", "a/out/x", "a/out/deep/y", "a/z", "t", "top"];
        let all = all.map(|path| entry(path, path.len() as u64)).to_vec();
        let part = difference(all, &kept.into(), true);
        let places: Vec<(&str, u64, u64)> =
            part.places.iter().map(|at| (at.path.as_str(), at.files, at.bytes)).collect();
        assert_eq!(places, [("a/out", 2, 19), ("a/b/log", 1, 7), ("t", 1, 1)]);
        assert_eq!((part.files, part.bytes, part.counted_all), (4, 27, true));
    }
}
