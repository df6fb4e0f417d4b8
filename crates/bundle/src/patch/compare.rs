//! Which files of two workspaces are different, as far as that shows from
//! outside.
//!
//! A path that is listed on one side alone may be ignored on the other, or beyond
//! the end of its list; it is asked for there. Only real directories are gone
//! through on the way: what is behind a link is not at this path.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cofferdam_guest_protocol::{EntryKind, FileError, FileStat};
use cofferdam_sandbox::{Files, FilesError, Ignored};

/// Files that are compared of each side at most.
const MOST_FILES: u32 = 50_000;

/// What something looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    File { size: u64, modified_ns: i64, program: bool },
    Link { target: Vec<u8> },
    Other,
}

impl Look {
    fn of(stat: &FileStat, link: Option<Vec<u8>>) -> Option<Self> {
        let FileStat { size, modified_ns, permissions, .. } = *stat;
        match (stat.kind, link) {
            (EntryKind::Directory, _) => None,
            (EntryKind::Link, Some(target)) => Some(Self::Link { target }),
            (EntryKind::File, _) => {
                Some(Self::File { size, modified_ns, program: permissions & 0o100 != 0 })
            }
            _ => Some(Self::Other),
        }
    }

    pub(super) fn is_link(&self) -> bool {
        matches!(self, Self::Link { .. })
    }
}

/// A path, and what is there before and after.
pub(super) type Difference = (Vec<u8>, Option<Look>, Option<Look>);

/// Two workspaces and what differs.
pub(super) struct Sides<'f> {
    pub(super) before: &'f Files,
    pub(super) after: &'f Files,
    /// In the order of the paths.
    pub(super) changes: Vec<Difference>,
    /// Whether all files were compared.
    pub(super) complete: bool,
}

pub(super) async fn compare<'f>(
    before: &'f Files,
    after: &'f Files,
) -> Result<Sides<'f>, FilesError> {
    let (mut old, mut new) = tokio::try_join!(Side::of(before), Side::of(after))?;
    let complete = !(old.more || new.more);
    let paths: BTreeSet<Vec<u8>> = old.listed.keys().chain(new.listed.keys()).cloned().collect();
    let mut changes = Vec::new();
    for path in paths {
        let (was, is) = (old.look(&path).await?, new.look(&path).await?);
        // What is no file on both sides is nobody's change.
        if was != is {
            changes.push((path, was, is));
        }
    }
    Ok(Sides { before, after, changes, complete })
}

struct Side<'f> {
    files: &'f Files,
    listed: BTreeMap<Vec<u8>, Look>,
    more: bool,
    /// Directories, and whether they are there and no links.
    real: HashMap<Vec<u8>, bool>,
}

impl<'f> Side<'f> {
    async fn of(files: &'f Files) -> Result<Self, FilesError> {
        let listing = files.glob("", "**", Ignored::LeaveOut, MOST_FILES).await?;
        let look = |entry: cofferdam_guest_protocol::Entry| {
            Some((entry.path, Look::of(&entry.stat, entry.link)?))
        };
        let listed = listing.records.into_iter().filter_map(look).collect();
        Ok(Self { files, listed, more: listing.more, real: HashMap::new() })
    }

    /// What is at a path.
    async fn look(&mut self, path: &[u8]) -> Result<Option<Look>, FilesError> {
        if let Some(look) = self.listed.get(path) {
            return Ok(Some(look.clone()));
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (end, _) in ends {
            if !self.is_real(path.get(..end).unwrap_or_default()).await? {
                return Ok(None);
            }
        }
        let Some(stat) = self.stat(path).await? else { return Ok(None) };
        let link = match stat.kind {
            EntryKind::Link => self.target(path).await?,
            _ => None,
        };
        Ok(Look::of(&stat, link))
    }

    async fn is_real(&mut self, path: &[u8]) -> Result<bool, FilesError> {
        if let Some(known) = self.real.get(path) {
            return Ok(*known);
        }
        let stat = self.stat(path).await?;
        let real = stat.is_some_and(|stat| stat.kind == EntryKind::Directory);
        self.real.insert(path.to_vec(), real);
        Ok(real)
    }

    async fn stat(&self, path: &[u8]) -> Result<Option<FileStat>, FilesError> {
        match self.files.stat(path).await {
            Ok(stat) => Ok(Some(stat)),
            Err(FilesError::File(FileError::NotFound | FileError::NotDirectory)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Where a link leads.
    async fn target(&self, path: &[u8]) -> Result<Option<Vec<u8>>, FilesError> {
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let parent = path.get(..end).unwrap_or_default();
        let listing = self.files.list(parent, 1, MOST_FILES).await?;
        let found = listing.records.into_iter().find(|entry| entry.path == path);
        Ok(found.and_then(|entry| entry.link))
    }
}
