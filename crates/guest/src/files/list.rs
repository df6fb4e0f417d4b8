//! Listings: the entries of a directory, and the files a pattern matches.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cofferdam_guest_protocol::{Entry, FileError, FileReply};
use globset::{GlobBuilder, GlobSet};
use rustix::fs::{FileType, Stat};

use super::error::{self, LeftOut};
use super::records::{Records, file_stat};
use super::resolve::{Relative, Workspace, stat_at};
use super::walk::{Found, Scope, Walk};

/// How deep the braces of a pattern may be nested. What understands them takes some of the
/// stack for each.
const DEEPEST_BRACES: usize = 32;

/// Sends the entries of a directory, down to a depth.
pub(super) fn list(
    workspace: &Workspace,
    path: &[u8],
    depth: u32,
    limit: u32,
    output: BorrowedFd<'static>,
) -> Result<FileReply, FileError> {
    let start = workspace.relative(path)?;
    let mut records = Records::new(output, limit);
    let mut left_out = LeftOut::default();
    let mut walk = Walk::new(workspace, &start, Scope::Everything, &mut left_out)?;
    while let Some(found) = walk.step(&mut left_out) {
        if walk.depth() + 1 >= depth as usize {
            walk.skip();
        }
        if depth == 0 || !send(&walk, &start, found, &mut records, &mut left_out)? {
            break;
        }
    }
    records.left_out = left_out;
    records.finish().map_err(|error| error::of_std(&error))
}

/// Sends the files beneath a directory that a pattern matches.
pub(super) fn glob(
    workspace: &Workspace,
    path: &[u8],
    pattern: &str,
    respect_ignore: bool,
    limit: u32,
    output: BorrowedFd<'static>,
) -> Result<FileReply, FileError> {
    let start = workspace.relative(path)?;
    let pattern = Pattern::new(pattern)?;
    let scope = if respect_ignore { Scope::NotIgnored } else { Scope::Everything };
    let mut records = Records::new(output, limit);
    let mut left_out = LeftOut::default();
    let mut walk = Walk::new(workspace, &start, scope, &mut left_out)?;
    while let Some(found) = walk.step(&mut left_out) {
        if found.kind == FileType::Directory {
            if !pattern.may_match_beneath(&found.path) {
                walk.skip();
            }
            continue;
        }
        if pattern.matches(&found.path) && !send(&walk, &start, found, &mut records, &mut left_out)?
        {
            break;
        }
    }
    records.left_out = left_out;
    records.finish().map_err(|error| error::of_std(&error))
}

/// Sends what was found; false when the limit is reached.
fn send(
    walk: &Walk,
    start: &Relative,
    found: Found,
    records: &mut Records,
    left_out: &mut LeftOut,
) -> Result<bool, FileError> {
    let described = walk.place().and_then(|place| {
        let stat = stat_at(place, found.name.to_bytes())?;
        let link = is_link(&stat)
            .then(|| rustix::fs::readlinkat(place, &found.name, Vec::new()))
            .transpose()?;
        Ok((stat, link))
    });
    let path = from_workspace(start, &found.path);
    match described {
        Ok((stat, link)) => {
            let link = link.map(std::ffi::CString::into_bytes);
            let entry = Entry { path, stat: file_stat(&stat), link };
            records.send(&entry).map_err(|error| error::of_std(&error))
        }
        // Gone since its name was read.
        Err(rustix::io::Errno::NOENT) => Ok(true),
        Err(errno) => {
            left_out.add(&path, errno);
            Ok(true)
        }
    }
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// A path of a walk as one from the workspace.
pub(super) fn from_workspace(start: &Relative, path: &[u8]) -> Vec<u8> {
    let prefix = start.prefix();
    if prefix.is_empty() {
        return path.to_vec();
    }
    [prefix, b"/".as_slice(), path].concat()
}

/// A pattern for paths.
pub(super) struct Pattern {
    /// `None` takes everything, as `**` does: building one for it would cost as much as
    /// a small tree's whole walk.
    matcher: Option<GlobSet>,
    /// The directories that every match is in.
    prefix: Vec<Vec<u8>>,
    name_only: bool,
}

impl Pattern {
    /// A pattern for the whole path.
    pub(super) fn new(pattern: &str) -> Result<Self, FileError> {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        if nests_too_deep(pattern) {
            return Err(FileError::Pattern("its braces are nested too deep".to_owned()));
        }
        let malformed = |error: globset::Error| FileError::Pattern(error.to_string());
        let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(malformed)?;
        let is_plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\', ',']);
        // Braces may hold a separator: then nothing is sure.
        let certain = !pattern.contains(['{', '[', '\\']);
        let parts: Vec<&str> = pattern.split('/').collect();
        let directories = parts.split_last().map_or([].as_slice(), |(_, directories)| directories);
        let prefix = directories
            .iter()
            .copied()
            .take_while(|part| certain && is_plain(part))
            .map(|part| part.as_bytes().to_vec())
            .collect();
        // Of one, because one by itself cannot say that it is too large: it panics.
        let matcher = (pattern != "**").then(|| GlobSet::new([glob])).transpose();
        let matcher = matcher.map_err(malformed)?;
        Ok(Self { matcher, prefix, name_only: false })
    }

    /// A pattern for files anywhere: one without a separator is for their names.
    pub(super) fn for_files(pattern: &str) -> Result<Self, FileError> {
        let name_only = !pattern.contains('/');
        Ok(Self { name_only, ..Self::new(pattern)? })
    }

    pub(super) fn matches(&self, path: &[u8]) -> bool {
        let whole = if self.name_only {
            path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
        } else {
            path
        };
        let Some(matcher) = &self.matcher else { return true };
        matcher.is_match(Path::new(OsStr::from_bytes(whole)))
    }

    /// Whether anything beneath a directory may match.
    pub(super) fn may_match_beneath(&self, directory: &[u8]) -> bool {
        self.name_only
            || directory.split(|byte| *byte == b'/').zip(&self.prefix).all(|(a, b)| a == b)
    }
}

/// Whether a pattern has more braces in one another than it needs.
pub(super) fn nests_too_deep(pattern: &str) -> bool {
    let mut depth = 0_usize;
    pattern.bytes().any(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > DEEPEST_BRACES
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stops_at_a_separator_and_two_do_not() {
        let pattern = Pattern::new("src/*.rs").unwrap();
        assert!(pattern.matches(b"src/a.rs"));
        assert!(!pattern.matches(b"src/b/a.rs"));
        let pattern = Pattern::new("**/*.rs").unwrap();
        assert!(pattern.matches(b"a.rs"));
        assert!(pattern.matches(b"src/b/a.rs"));
    }

    #[test]
    fn only_directories_that_can_hold_a_match_are_walked() {
        let pattern = Pattern::new("src/deep/*.rs").unwrap();
        assert!(pattern.may_match_beneath(b"src"));
        assert!(pattern.may_match_beneath(b"src/deep"));
        assert!(!pattern.may_match_beneath(b"docs"));
        assert!(!pattern.may_match_beneath(b"src/other"));
        let pattern = Pattern::new("{a,b}/c.rs").unwrap();
        assert!(pattern.may_match_beneath(b"a"));
    }

    #[test]
    fn a_pattern_without_a_separator_is_for_names() {
        let pattern = Pattern::for_files("*.rs").unwrap();
        assert!(pattern.matches(b"a/b/c.rs"));
        let pattern = Pattern::for_files("a/*.rs").unwrap();
        assert!(!pattern.matches(b"a/b/c.rs"));
    }

    #[test]
    fn bytes_that_are_no_text_match_too() {
        assert!(Pattern::new("*.bin").unwrap().matches(b"\xff\xfe.bin"));
    }

    #[test]
    fn a_malformed_pattern_is_an_error() {
        assert!(matches!(Pattern::new("a[").err(), Some(FileError::Pattern(_))));
    }

    #[test]
    fn a_pattern_that_asks_too_much_is_an_error() {
        let nested = |depth: usize| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        assert!(Pattern::new(&nested(DEEPEST_BRACES)).unwrap().matches(b"a"));
        let wide = "?".repeat(1_000_000);
        for absurd in [nested(DEEPEST_BRACES + 1), nested(300), nested(400_000), wide] {
            assert!(matches!(Pattern::new(&absurd).err(), Some(FileError::Pattern(_))));
        }
    }
}
