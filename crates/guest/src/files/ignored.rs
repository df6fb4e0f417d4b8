//! Which files a tree's own ignore files leave out: `.gitignore`, `.ignore` and
//! `.git/info/exclude`, the nearest one first.
//!
//! They are read like any other file of the tree: only when they are regular
//! files, and only so much of them. Rules take time to understand, so that those of a
//! whole walk are bounded too; what is not heeded is told.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags};

use super::beneath::{self, Links};
use super::error::LeftOut;
use super::list::nests_too_deep;
use super::read::read_some;
use super::resolve::{Relative, Workspace};

/// The longest ignore file that is read to its end.
const LONGEST: usize = 1 << 20;

/// What all ignore files of one walk may come to: no tree that means well comes near.
const MOST_BYTES: usize = 4 << 20;
const MOST_LINES: usize = 50_000;

/// The directory that belongs to git itself.
const GIT: &[u8] = b".git";

/// The rules that hold where a walk is.
pub(super) struct Rules {
    /// Of directories above the start, with the start's path from there.
    above: Vec<(Gitignore, Vec<u8>)>,
    /// Of directories of the walk: the level, and how long its path is.
    levels: Vec<(usize, usize, Gitignore)>,
    depth: usize,
    allowance: Allowance,
}

/// What the ignore files of a walk may still come to.
struct Allowance {
    bytes: usize,
    lines: usize,
}

impl Rules {
    /// The rules of the directories above a start, up to the workspace.
    pub(super) fn above(workspace: &Workspace, start: &Relative, left_out: &mut LeftOut) -> Self {
        let mut allowance = Allowance { bytes: MOST_BYTES, lines: MOST_LINES };
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
                let rules = allowance.rules_in(place.as_fd(), &path, &every, left_out);
                if let Some(rules) = rules {
                    above.push((rules, rest));
                }
            }
        }
        Self { above, levels: Vec::new(), depth: 0, allowance }
    }

    /// The walk has gone into a directory of this path, which has these names.
    pub(super) fn enter(
        &mut self,
        place: BorrowedFd<'_>,
        path: &[u8],
        names: &[(CString, FileType)],
        left_out: &mut LeftOut,
    ) {
        self.depth += 1;
        if let Some(rules) = self.allowance.rules_in(place, path, names, left_out) {
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

impl Allowance {
    /// The rules that a directory's own ignore files make.
    fn rules_in(
        &mut self,
        place: BorrowedFd<'_>,
        directory: &[u8],
        names: &[(CString, FileType)],
        left_out: &mut LeftOut,
    ) -> Option<Gitignore> {
        let has = |wanted: &[u8]| names.iter().any(|(name, _)| name.to_bytes() == wanted);
        let mut builder = GitignoreBuilder::new("");
        let mut any = false;
        let mut tell = |path: &str, reason: &str| {
            let separator: &[u8] = if directory.is_empty() { b"" } else { b"/" };
            left_out.add(&[directory, separator, path.as_bytes()].concat(), reason);
        };
        // A later rule goes before an earlier one.
        for (name, path) in
            [(GIT, ".git/info/exclude"), (b".gitignore", ".gitignore"), (b".ignore", ".ignore")]
        {
            if !has(name) {
                continue;
            }
            let text = match self.read(place, path) {
                Some(Text::Whole(text)) => text,
                Some(Text::Beginning(text)) => {
                    tell(path, "it is too long: only the rules of its first 1 MiB are heeded");
                    text
                }
                Some(Text::TooMuch) => {
                    tell(path, "the ignore files are too much together: its rules are not heeded");
                    continue;
                }
                None => continue,
            };
            for line in rules_of(&text) {
                // A line that is no rule changes nothing.
                any |= !nests_too_deep(line) && builder.add_line(None, line).is_ok();
            }
        }
        if !any {
            return None;
        }
        let rules = builder.build();
        if rules.is_err() {
            tell(".gitignore", "the rules of this directory cannot be used");
        }
        rules.ok()
    }

    /// Reads an ignore file, if it is one. What was read counts, heeded or not.
    fn read(&mut self, place: BorrowedFd<'_>, path: &str) -> Option<Text> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = path.as_bytes();
        let file = beneath::open(place, path, flags, Mode::empty(), Links::Refused).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        if self.lines == 0 || size.min(LONGEST) > self.bytes {
            return Some(Text::TooMuch);
        }
        let mut text = Vec::new();
        let mut buffer = Vec::new();
        while text.len() <= LONGEST {
            let bytes = read_some(file.as_fd(), &mut buffer, 16 << 10).ok()?;
            if bytes.is_empty() {
                break;
            }
            text.extend_from_slice(bytes);
        }
        self.bytes = self.bytes.saturating_sub(text.len());
        let whole = text.len() <= LONGEST;
        if !whole {
            // Part of a line would be another rule.
            let end = text.get(..LONGEST).and_then(|text| memchr::memrchr(b'\n', text));
            text.truncate(end.unwrap_or(0));
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let Some(lines) = self.lines.checked_sub(rules_of(&text).count()) else {
            return Some(Text::TooMuch);
        };
        self.lines = lines;
        Some(if whole { Text::Whole(text) } else { Text::Beginning(text) })
    }
}

/// What an ignore file has to say.
enum Text {
    Whole(String),
    Beginning(String),
    /// Nothing more is heeded on this walk.
    TooMuch,
}

/// The lines that may be rules.
fn rules_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty())
}
