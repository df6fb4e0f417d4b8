//! Which files differ from what the job began with.
//!
//! The workspace's directory is unchanged until the sandbox closes, so a second
//! sandbox on it shows the files as they were; both are read through their
//! guests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cofferdam_guest_protocol::{EntryKind, FileStat};
use cofferdam_sandbox::{Files, FilesError, Ignored, Range};
use cofferdam_types::{ChangeKind, FileChange};
use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

/// Files that are compared at most.
const MOST_FILES: u32 = 50_000;

/// Changed files whose lines are counted at most, and the size of each.
const MOST_COUNTED: usize = 200;
const LARGEST_COUNTED: u64 = 1 << 20;

/// How long one comparison of lines may take.
const PATIENCE: Duration = Duration::from_millis(200);

/// Files that are listed on one side alone and asked for on the other, at most.
const MOST_ASKED: usize = 1000;

/// What a file looks like from outside.
#[derive(Clone, PartialEq, Eq)]
struct Looks {
    size: u64,
    modified_ns: i64,
    permissions: u32,
    link: Option<Vec<u8>>,
}

impl Looks {
    fn of(stat: &FileStat, link: Option<Vec<u8>>) -> Self {
        let FileStat { size, modified_ns, permissions, .. } = *stat;
        Self { size, modified_ns, permissions, link }
    }
}

/// What differs, and what is not known about it.
pub(crate) struct Changes {
    /// The differences, in the order of their paths.
    pub(crate) files: Vec<FileChange>,
    /// Why some may be missing, in words.
    pub(crate) incomplete: Option<&'static str>,
}

/// Everything in a workspace that began with nothing.
pub(crate) async fn from_nothing(after: &Files) -> Result<Changes, FilesError> {
    let (new, more) = look(after).await?;
    let mut files = Vec::new();
    for (path, looks) in new {
        let lines = match files.len() < MOST_COUNTED {
            true => content(after, &path, Some(&looks)).await.and_then(|new| count(&[], &new)),
            false => None,
        };
        files.push(FileChange {
            path: String::from_utf8_lossy(&path).into_owned(),
            kind: ChangeKind::Added,
            added: lines.map(|(added, _)| added),
            removed: lines.map(|(_, removed)| removed),
        });
    }
    let incomplete = more.then_some("there are too many files to list them all");
    Ok(Changes { files, incomplete })
}

/// Compares two workspaces.
pub(crate) async fn between(before: &Files, after: &Files) -> Result<Changes, FilesError> {
    let ((old, old_more), (new, new_more)) = tokio::try_join!(look(before), look(after))?;
    let mut incomplete =
        (old_more || new_more).then_some("there are too many files to compare them all");
    let mut found: Vec<(Vec<u8>, Option<Looks>, Option<Looks>)> = Vec::new();
    let mut asked = 0;
    let paths: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
    for path in paths {
        let (mut was, mut is) = (old.get(path).cloned(), new.get(path).cloned());
        // One that is listed on one side alone may be ignored on the other, or
        // beyond the end of its list.
        if was.is_none() != is.is_none() {
            if asked == MOST_ASKED {
                incomplete = Some("there are too many differences to look at them all");
                break;
            }
            asked += 1;
            match was {
                None => was = ask(before, path).await,
                Some(_) => is = ask(after, path).await,
            }
        }
        if was != is {
            found.push((path.clone(), was, is));
        }
    }
    let mut files = Vec::new();
    for (path, was, is) in found {
        let counted = files.len() < MOST_COUNTED;
        files.extend(change(before, after, &path, was, is, counted).await);
    }
    Ok(Changes { files, incomplete })
}

/// What happened to a file; `None` if it has the content it had.
async fn change(
    before: &Files,
    after: &Files,
    path: &[u8],
    was: Option<Looks>,
    is: Option<Looks>,
    counted: bool,
) -> Option<FileChange> {
    let kind = match (&was, &is) {
        (None, _) => ChangeKind::Added,
        (_, None) => ChangeKind::Deleted,
        _ => ChangeKind::Modified,
    };
    let mut lines = None;
    if counted {
        let old = content(before, path, was.as_ref()).await;
        let new = content(after, path, is.as_ref()).await;
        let same_looks =
            was.map(|was| (was.permissions, was.link)) == is.map(|is| (is.permissions, is.link));
        if kind == ChangeKind::Modified && same_looks && old.is_some() && old == new {
            return None; // written anew
        }
        lines = old.zip(new).and_then(|(old, new)| count(&old, &new));
    }
    Some(FileChange {
        path: String::from_utf8_lossy(path).into_owned(),
        kind,
        added: lines.map(|(added, _)| added),
        removed: lines.map(|(_, removed)| removed),
    })
}

/// The files there are, and whether there are more.
async fn look(files: &Files) -> Result<(BTreeMap<Vec<u8>, Looks>, bool), FilesError> {
    let listing = files.glob("", "**", Ignored::LeaveOut, MOST_FILES).await?;
    let looks = listing.records.into_iter().filter_map(|entry| {
        (entry.stat.kind != EntryKind::Directory)
            .then(|| (entry.path, Looks::of(&entry.stat, entry.link)))
    });
    Ok((looks.collect(), listing.more))
}

/// One file, if it is there.
async fn ask(files: &Files, path: &[u8]) -> Option<Looks> {
    let stat = files.stat(path).await.ok()?;
    (stat.kind != EntryKind::Directory).then(|| Looks::of(&stat, None))
}

/// A file's content: nothing of one that is not there; `None` if it is too large,
/// or no file that could be read.
async fn content(files: &Files, path: &[u8], looks: Option<&Looks>) -> Option<Vec<u8>> {
    let Some(looks) = looks else { return Some(Vec::new()) };
    if looks.link.is_some() || looks.size > LARGEST_COUNTED {
        return None;
    }
    let content = files.read(path, Range::first(LARGEST_COUNTED)).await.ok()?;
    Some(content.bytes.to_vec())
}

/// Lines that are new and lines that are gone; `None` if either is not text.
fn count(was: &[u8], is: &[u8]) -> Option<(u64, u64)> {
    if was.contains(&0) || is.contains(&0) {
        return None;
    }
    let lines = |bytes: &[u8]| -> Vec<Vec<u8>> {
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    };
    let (was, is) = (lines(was), lines(is));
    let until = Some(Instant::now() + PATIENCE);
    // Only the runs of equal lines can be relied on once the time is up.
    let steps = capture_diff_slices_deadline(Algorithm::Myers, &was, &is, until);
    let equal: usize = steps
        .iter()
        .map(|step| step.as_tag_tuple())
        .filter(|(tag, ..)| *tag == DiffTag::Equal)
        .map(|(_, old, _)| old.len())
        .sum();
    let (added, removed) = (is.len().saturating_sub(equal), was.len().saturating_sub(equal));
    Some((added as u64, removed as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_people_count_them() {
        assert_eq!(count(b"", b"a\nb\n"), Some((2, 0)));
        assert_eq!(count(b"a\nb\nc\n", b"a\nx\nc\n"), Some((1, 1)));
        assert_eq!(count(b"a\nb", b""), Some((0, 2)));
        assert_eq!(count(b"a\0", b"a"), None);
    }
}
