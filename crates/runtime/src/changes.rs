//! Which files differ from what the job began with.
//!
//! The workspace's directory is unchanged until the sandbox closes, so a second
//! sandbox on it shows the files as they were; both are read through their
//! guests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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

/// What a file looks like from outside.
#[derive(PartialEq, Eq)]
struct Looks {
    size: u64,
    modified_ns: i64,
    permissions: u32,
    link: Option<Vec<u8>>,
}

/// The differences, in the order of their paths.
pub(crate) async fn between(before: &Files, after: &Files) -> Result<Vec<FileChange>, FilesError> {
    let (old, new) = tokio::try_join!(look(before), look(after))?;
    let mut found: Vec<(&Vec<u8>, ChangeKind)> = Vec::new();
    for (path, looks) in &new {
        match old.get(path) {
            None => found.push((path, ChangeKind::Added)),
            Some(looked) if looked != looks => found.push((path, ChangeKind::Modified)),
            Some(_) => {}
        }
    }
    found.extend(
        old.keys().filter(|path| !new.contains_key(*path)).map(|path| (path, ChangeKind::Deleted)),
    );
    found.sort_by_key(|(path, _)| *path);
    let mut changes = Vec::new();
    for (place, (path, kind)) in found.into_iter().enumerate() {
        let counted = place < MOST_COUNTED;
        let was = match old.get(path) {
            Some(looks) if counted => read(before, path, looks).await,
            _ => Some(Vec::new()),
        };
        let is = match new.get(path) {
            Some(looks) if counted => read(after, path, looks).await,
            _ => Some(Vec::new()),
        };
        if kind == ChangeKind::Modified && counted && was.is_some() && was == is {
            continue; // written anew, with the same content
        }
        let lines = match (was, is) {
            (Some(was), Some(is)) if counted => count(&was, &is),
            _ => None,
        };
        changes.push(FileChange {
            path: String::from_utf8_lossy(path).into_owned(),
            kind,
            added: lines.map(|(added, _)| added),
            removed: lines.map(|(_, removed)| removed),
        });
    }
    Ok(changes)
}

async fn look(files: &Files) -> Result<BTreeMap<Vec<u8>, Looks>, FilesError> {
    let listing = files.glob("", "**", Ignored::LeaveOut, MOST_FILES).await?;
    let looks = listing.records.into_iter().filter_map(|entry| {
        use cofferdam_guest_protocol::EntryKind;
        (entry.stat.kind != EntryKind::Directory).then(|| {
            let looks = Looks {
                size: entry.stat.size,
                modified_ns: entry.stat.modified_ns,
                permissions: entry.stat.permissions,
                link: entry.link,
            };
            (entry.path, looks)
        })
    });
    Ok(looks.collect())
}

/// A file's content; `None` if it is too large, or no file that could be read.
async fn read(files: &Files, path: &[u8], looks: &Looks) -> Option<Vec<u8>> {
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
    let (mut added, mut removed) = (0, 0);
    for step in capture_diff_slices_deadline(Algorithm::Myers, &was, &is, until) {
        let (tag, old, new) = step.as_tag_tuple();
        if tag != DiffTag::Equal {
            removed += old.len() as u64;
            added += new.len() as u64;
        }
    }
    Some((added, removed))
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
