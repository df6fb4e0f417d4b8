//! Which files a tree's own ignore files leave out: `.gitignore`, `.ignore` and
//! `.git/info/exclude`, the nearest one first.
//!
//! They are read like any other file of the tree: only when they are regular
//! files, and only so much of them.

use std::ffi::{CString, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags};

use super::beneath::{self, Links};
use super::read::read_some;
use super::resolve::{Relative, Workspace};

/// The longest ignore file that is read.
const LONGEST: usize = 1 << 20;

/// The directory that belongs to git itself.
const GIT: &[u8] = b".git";

/// The rules that hold where a walk is.
pub(super) struct Rules {
    /// Of directories above the start, with the start's path from there.
    above: Vec<(Gitignore, Vec<u8>)>,
    /// Of directories of the walk: the level, and how long its path is.
    levels: Vec<(usize, usize, Gitignore)>,
    depth: usize,
}

impl Rules {
    /// The rules of the directories above a start, up to the workspace.
    pub(super) fn above(workspace: &Workspace, start: &Relative) -> Self {
        let mut above = Vec::new();
        let parts: Vec<&[u8]> = start.prefix().split(|byte| *byte == b'/').collect();
        // With `..` in it the path does not say which directories are above.
        if !start.is_root() && !parts.contains(&b"..".as_slice()) {
            for count in 0..parts.len() {
                let path = parts.get(..count).unwrap_or_default().join(&b'/');
                let rest = parts.get(count..).unwrap_or_default().join(&b'/');
                let place =
                    workspace.relative(&path).and_then(|path| workspace.open_directory(&path));
                let Ok(place) = place else { break };
                let every = [c".git".to_owned(), c".gitignore".to_owned(), c".ignore".to_owned()];
                let every = every.map(|name| (name, FileType::Unknown));
                if let Some(rules) = rules_in(std::os::fd::AsFd::as_fd(&place), &every) {
                    above.push((rules, rest));
                }
            }
        }
        Self { above, levels: Vec::new(), depth: 0 }
    }

    /// The walk has gone into a directory of this path, which has these names.
    pub(super) fn enter(
        &mut self,
        place: BorrowedFd<'_>,
        path: &[u8],
        names: &[(CString, FileType)],
    ) {
        self.depth += 1;
        if let Some(rules) = rules_in(place, names) {
            self.levels.push((self.depth, path.len(), rules));
        }
    }

    /// The walk has left a directory; so many levels are left.
    pub(super) fn leave(&mut self, depth: usize) {
        self.depth = depth;
        self.levels.retain(|(level, ..)| *level <= depth);
    }

    /// Whether the path is to be left out.
    pub(super) fn leave_out(&self, path: &[u8], is_directory: bool) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if name == GIT {
            return true;
        }
        for (_, length, rules) in self.levels.iter().rev() {
            let skipped = if *length == 0 { 0 } else { length + 1 };
            let from_there = path.get(skipped..).unwrap_or_default();
            if let Some(verdict) = verdict(rules, from_there, is_directory) {
                return verdict;
            }
        }
        for (rules, start) in self.above.iter().rev() {
            let from_there = [start, b"/".as_slice(), path].concat();
            if let Some(verdict) = verdict(rules, &from_there, is_directory) {
                return verdict;
            }
        }
        false
    }
}

fn verdict(rules: &Gitignore, path: &[u8], is_directory: bool) -> Option<bool> {
    match rules.matched(Path::new(OsStr::from_bytes(path)), is_directory) {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    }
}

/// The rules that a directory's own ignore files make.
fn rules_in(place: BorrowedFd<'_>, names: &[(CString, FileType)]) -> Option<Gitignore> {
    let has = |wanted: &[u8]| names.iter().any(|(name, _)| name.to_bytes() == wanted);
    let mut builder = GitignoreBuilder::new("");
    let mut any = false;
    // A later rule goes before an earlier one.
    for (name, path) in
        [(GIT, ".git/info/exclude"), (b".gitignore", ".gitignore"), (b".ignore", ".ignore")]
    {
        if !has(name) {
            continue;
        }
        let Some(text) = read_rules(place, path) else { continue };
        for line in String::from_utf8_lossy(&text).lines() {
            // A line that is no rule changes nothing.
            any |= builder.add_line(None, line).is_ok();
        }
    }
    if any { builder.build().ok() } else { None }
}

fn read_rules(place: BorrowedFd<'_>, path: &str) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = path.as_bytes();
    let file = beneath::open(place, path, flags, Mode::empty(), Links::Refused).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = Vec::new();
    let mut buffer = Vec::new();
    while text.len() < LONGEST {
        let bytes = read_some(std::os::fd::AsFd::as_fd(&file), &mut buffer, 16 << 10).ok()?;
        if bytes.is_empty() {
            break;
        }
        text.extend_from_slice(bytes);
    }
    Some(text)
}
