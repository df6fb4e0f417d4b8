//! The text files of the workspace in a job's index: read through the sandbox when
//! something is looked for, and again what has changed since.
//!
//! A file has changed when it looks other than it did, or when the trail of the sandbox
//! shows that somebody opened it for writing.

use std::collections::{BTreeMap, BTreeSet};

use cofferdam_guest_protocol::{Entry, EntryKind};
use cofferdam_recall::{Document, Index, Source, of_file};
use cofferdam_sandbox::{Files, Ignored, Range, Sandbox, TrailMark};
use cofferdam_types::{AuditAct, AuditRecord, SandboxId, Timestamp, error_chain};

/// Files that are listed, bytes of one, and bytes of all.
const MOST_FILES: u32 = 2_000;
const LARGEST: u64 = 256 << 10;
const MOST_BYTES: u64 = 20 << 20;

/// Changed files that are looked at although they are not among those listed.
const MOST_BEYOND: usize = 200;

/// Files that are noted as written, the latest, and those that could not be read.
const MOST_WRITTEN: usize = 20_000;
const MOST_UNREAD: usize = 200;

/// Bytes of a pattern that names files, and how many such patterns a look asks for at most:
/// each is a walk through the whole workspace.
const LONGEST_PATTERN: usize = 32 << 10;
const MOST_PATTERNS: usize = 8;

/// Bytes and files that go into the index at once: whoever stops waiting loses no more.
const AT_ONCE: usize = 256 << 10;
const FILES_AT_ONCE: usize = 64;

/// Where the workspace is inside a sandbox.
const ROOT: &str = "/workspace/";

/// What of the workspace is in the index.
#[derive(Default)]
pub(super) struct Workspace {
    known: BTreeMap<String, Looks>,
    /// Those that were written since they were read, whatever they look like, and the place
    /// of each in the order in which that happened.
    written: BTreeMap<String, u64>,
    /// How many were noted so far.
    noted: u64,
    /// Up to where the trail was looked at, and that of which sandbox.
    trail: Option<(SandboxId, TrailMark)>,
}

/// What a file looked like when it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Looks {
    size: u64,
    modified_ns: i64,
}

impl Workspace {
    /// Whether a source is there: an event always, a file if it is known.
    pub(super) fn has(&self, source: &Source) -> bool {
        match source {
            Source::Event { .. } => true,
            Source::File { path, .. } => self.known.contains_key(path),
        }
    }

    /// Reads what has changed into the index; what is to be said about it.
    pub(super) async fn read(
        &mut self,
        sandbox: &Sandbox,
        index: &dyn Index,
    ) -> Result<Option<String>, String> {
        let files = sandbox.files();
        // Before the files: what changes meanwhile is looked at the next time.
        self.follow(sandbox).await;
        let listing = files.glob("", "**", Ignored::LeaveOut, MOST_FILES).await;
        let listing = listing.map_err(|error| error_chain(&error))?;
        let mut found: BTreeMap<String, Looks> =
            listing.records.iter().filter_map(regular).collect();
        let mut later = BTreeSet::new();
        if listing.more {
            let (more, not_asked) = self.beyond(&files, &found).await?;
            found.extend(more);
            later = not_asked;
        }
        let (mut bytes, mut left_out) = (0, 0);
        let mut wanted = Vec::new();
        for (path, looks) in found {
            if looks.size > LARGEST || bytes + looks.size > MOST_BYTES {
                left_out += 1;
                continue;
            }
            bytes += looks.size;
            wanted.push((path, looks));
        }
        self.remove_others(&wanted, index).await?;
        let changed = wanted.into_iter().filter(|(path, looks)| {
            self.known.get(path) != Some(looks) || self.written.contains_key(path)
        });
        let changed: Vec<(String, Looks)> = changed.collect();
        let (mut batch, mut unread) = (Batch::default(), 0);
        for (path, looks) in changed {
            let Ok(content) = files.read(path.as_str(), Range::first(LARGEST)).await else {
                // One that is gone by now is removed the next time. Else it is read then,
                // even if it looks as it did.
                if unread < MOST_UNREAD {
                    unread += 1;
                    self.note(path.clone());
                    later.insert(path);
                }
                continue;
            };
            batch.take(path, looks, &content.bytes);
            if batch.is_full() {
                self.write(std::mem::take(&mut batch), index).await?;
            }
        }
        self.write(batch, index).await?;
        // What is left of them is no file that is looked through.
        self.written.retain(|path, _| later.contains(path));
        Ok(note(left_out, listing.more))
    }

    async fn remove_others(
        &mut self,
        wanted: &[(String, Looks)],
        index: &dyn Index,
    ) -> Result<(), String> {
        let wanted: BTreeSet<&str> = wanted.iter().map(|(path, _)| path.as_str()).collect();
        let gone = self.known.keys().filter(|path| !wanted.contains(path.as_str()));
        let gone: BTreeMap<String, Vec<Document>> =
            gone.map(|path| (path.clone(), Vec::new())).collect();
        let paths: Vec<String> = gone.keys().cloned().collect();
        replace(index, gone).await?;
        for path in paths {
            self.known.remove(&path);
        }
        Ok(())
    }

    async fn write(&mut self, batch: Batch, index: &dyn Index) -> Result<(), String> {
        replace(index, batch.files).await?;
        for (path, looks) in batch.looks {
            self.written.remove(&path);
            self.known.insert(path, looks);
        }
        Ok(())
    }

    /// Takes note of what was written since the last time, as far as the trail shows. It
    /// stays noted until it is read: whoever stops waiting does not begin anew.
    async fn follow(&mut self, sandbox: &Sandbox) {
        let since = match self.trail {
            Some((of, mark)) if of == sandbox.id() => mark,
            _ => TrailMark::default(),
        };
        // Without a trail there is what files look like.
        if let Ok((records, end)) = sandbox.audit_since(since).await {
            for path in records.iter().flat_map(paths) {
                self.note(path);
            }
            self.forget_oldest();
            self.trail = Some((sandbox.id(), end));
        }
    }

    fn note(&mut self, path: String) {
        self.noted += 1;
        self.written.insert(path, self.noted);
    }

    fn forget_oldest(&mut self) {
        let Some(too_many) = self.written.len().checked_sub(MOST_WRITTEN) else { return };
        let mut order: Vec<u64> = self.written.values().copied().collect();
        order.sort_unstable();
        if let Some(oldest_kept) = order.get(too_many).copied() {
            self.written.retain(|_, place| *place >= oldest_kept);
        }
    }

    /// Files beyond the end of the list: those that were written now, the latest first, for
    /// what the job has made itself matters most; then those that were found there before,
    /// lest they seem gone. Also the written ones that are to be asked for another time.
    async fn beyond(
        &self,
        files: &Files,
        found: &BTreeMap<String, Looks>,
    ) -> Result<(BTreeMap<String, Looks>, BTreeSet<String>), String> {
        let unlisted = |path: &&String| !found.contains_key(*path);
        let mut written: Vec<&String> = self.written.keys().filter(unlisted).collect();
        written.sort_by_key(|path| std::cmp::Reverse(self.written.get(*path)));
        let mut known: Vec<&String> = self.known.keys().filter(unlisted).collect();
        known.retain(|path| !self.written.contains_key(*path));
        known.sort_by_key(|path| {
            std::cmp::Reverse(self.known.get(*path).map(|looks| looks.modified_ns))
        });
        known.truncate(MOST_BEYOND);
        let mut patterns = patterns(&written);
        let later = patterns.split_off(patterns.len().min(MOST_PATTERNS));
        let mut later: BTreeSet<String> =
            later.into_iter().flat_map(|(_, paths)| paths.iter().copied().cloned()).collect();
        patterns.extend(self::patterns(&known));
        let mut more = BTreeMap::new();
        for (pattern, paths) in patterns {
            if more.len() == MOST_BEYOND {
                break;
            }
            // By their names, since that leaves out what is ignored.
            let most = u32::try_from(paths.len()).unwrap_or(u32::MAX);
            let listing = files.glob("", pattern, Ignored::LeaveOut, most).await;
            let listing = listing.map_err(|error| error_chain(&error))?;
            let mut there: BTreeMap<String, Looks> =
                listing.records.iter().filter_map(regular).collect();
            let there = paths.iter().filter_map(|path| there.remove_entry(*path));
            more.extend(there.take(MOST_BEYOND - more.len()));
        }
        if more.len() == MOST_BEYOND {
            // There is no room for older ones at another time either.
            later.clear();
        }
        Ok((more, later))
    }
}

/// Patterns that match these paths and no others, each with those that it is for.
fn patterns<'a, 'b>(paths: &'b [&'a String]) -> Vec<(String, &'b [&'a String])> {
    let mut patterns = Vec::new();
    let mut rest = paths;
    while !rest.is_empty() {
        let mut pattern = String::new();
        let mut count = 0;
        for path in rest {
            if count > 0 && pattern.len() + path.len() > LONGEST_PATTERN {
                break;
            }
            pattern.push(if count == 0 { '{' } else { ',' });
            for letter in path.chars() {
                if "*?[]{}\\,!".contains(letter) {
                    pattern.push('\\');
                }
                pattern.push(letter);
            }
            count += 1;
        }
        pattern.push('}');
        let (these, others) = rest.split_at(count);
        patterns.push((pattern, these));
        rest = others;
    }
    patterns
}

/// Files that go into the index at once.
#[derive(Default)]
struct Batch {
    files: BTreeMap<String, Vec<Document>>,
    looks: Vec<(String, Looks)>,
    bytes: usize,
}

impl Batch {
    fn take(&mut self, path: String, looks: Looks, content: &[u8]) {
        let at = u64::try_from(looks.modified_ns / 1_000_000).unwrap_or(0);
        self.files.insert(path.clone(), of_file(&path, content, Timestamp(at)));
        self.looks.push((path, looks));
        self.bytes += content.len();
    }

    fn is_full(&self) -> bool {
        self.bytes >= AT_ONCE || self.looks.len() >= FILES_AT_ONCE
    }
}

async fn replace(index: &dyn Index, files: BTreeMap<String, Vec<Document>>) -> Result<(), String> {
    if files.is_empty() {
        return Ok(());
    }
    index.replace_files(files).await.map_err(|error| error.to_string())
}

/// The files of the workspace that an act may have changed.
fn paths(record: &AuditRecord) -> Vec<String> {
    let paths = match &record.act {
        AuditAct::OpenedForWriting { path } | AuditAct::Created { path } => vec![path],
        AuditAct::Renamed { from, to } => vec![from, to],
        _ => Vec::new(),
    };
    paths.into_iter().filter_map(|path| path.strip_prefix(ROOT)).map(str::to_owned).collect()
}

fn regular(entry: &Entry) -> Option<(String, Looks)> {
    let path = String::from_utf8(entry.path.clone()).ok()?;
    let looks = Looks { size: entry.stat.size, modified_ns: entry.stat.modified_ns };
    (entry.stat.kind == EntryKind::File).then_some((path, looks))
}

fn note(left_out: usize, more: bool) -> Option<String> {
    let what = match (left_out, more) {
        (0, false) => return None,
        (0, true) => format!("only the first {MOST_FILES} files of the workspace"),
        (count, false) => format!("all files of the workspace but {count} that are too large"),
        (count, true) => format!(
            "only the first {MOST_FILES} files of the workspace but {count} that are too large"
        ),
    };
    Some(format!("{what} were looked through; `search_files` looks through the rest"))
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
