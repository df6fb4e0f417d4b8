//! Walking a tree by descriptors: each step opens one name in an open directory
//! and follows no link, so a tree of any depth is walked and none is left.
//!
//! Only the nearest levels are held open. On the way back up, a directory is
//! reached through `..` and must be the one it was.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cofferdam_guest_protocol::FileError;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::beneath::{self, Links};
use super::error::{self, LeftOut};
use super::ignored::Rules;
use super::resolve::{Relative, Workspace};

/// Levels held open at once.
const HELD: usize = 64;

/// Levels walked; deeper ones are left out.
const DEEPEST: usize = 10_000;

/// Names taken of one directory; more are left out.
const MOST_NAMES: usize = 1_000_000;

/// Opens a directory by a name in another one.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The directories from the start of a walk down to where it is.
pub(super) struct Descent {
    levels: Vec<Level>,
}

struct Level {
    fd: Option<OwnedFd>,
    device: u64,
    inode: u64,
}

impl Descent {
    pub(super) fn new(start: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { levels: vec![Level::of(start)?] })
    }

    /// How many directories below the start it is.
    pub(super) fn depth(&self) -> usize {
        self.levels.len() - 1
    }

    /// The directory it is in.
    pub(super) fn current(&self) -> Result<BorrowedFd<'_>, Errno> {
        let fd = self.levels.last().and_then(|level| level.fd.as_ref());
        fd.map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// Goes into a directory in the current one.
    pub(super) fn enter(&mut self, name: &CStr) -> Result<(), Errno> {
        let place = self.current()?;
        let fd = beneath::open(place, name.to_bytes(), DIRECTORY, Mode::empty(), Links::Refused)?;
        self.levels.push(Level::of(fd)?);
        // The start stays open: it may not be reachable from below.
        let far = self.levels.len().saturating_sub(HELD + 1);
        if far > 0
            && let Some(level) = self.levels.get_mut(far)
        {
            level.fd = None;
        }
        Ok(())
    }

    /// Goes back to the directory above.
    pub(super) fn leave(&mut self) -> Result<(), Errno> {
        let Some(below) = self.levels.pop() else { return Err(Errno::BADF) };
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        if level.fd.is_none() {
            let below = below.fd.ok_or(Errno::BADF)?;
            let above = Level::of(rustix::fs::openat(&below, "..", DIRECTORY, Mode::empty())?)?;
            if (above.device, above.inode) != (level.device, level.inode) {
                // The tree was moved beneath the walk.
                return Err(Errno::STALE);
            }
            level.fd = above.fd;
        }
        Ok(())
    }
}

impl Level {
    fn of(fd: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Self { fd: Some(fd), device: stat.st_dev, inode: stat.st_ino })
    }
}

/// The names in a directory with what they are, as far as that is known.
pub(super) fn names_in(place: BorrowedFd<'_>) -> Result<(Vec<(CString, FileType)>, bool), Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(place)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if names.len() == MOST_NAMES {
            return Ok((names, true));
        }
        names.push((name.to_owned(), entry.file_type()));
    }
    Ok((names, false))
}

/// Something found on a walk.
pub(super) struct Found {
    /// Its path from the start of the walk.
    pub(super) path: Vec<u8>,
    pub(super) name: CString,
    pub(super) kind: FileType,
}

/// What a walk leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Nothing.
    Everything,
    /// What ignore files say.
    NotIgnored,
}

/// A walk through a tree, each directory's names in order, a directory before
/// what is in it.
pub(super) struct Walk {
    descent: Descent,
    /// For each level the names that are still to come, the next one last.
    names: Vec<Vec<(CString, FileType)>>,
    path: Vec<u8>,
    rules: Option<Rules>,
    /// The directory found last, which comes next unless it is skipped.
    next: Option<CString>,
    /// How far its path reaches.
    lengths: Vec<usize>,
    failed: bool,
}

impl Walk {
    /// Begins a walk at a directory.
    pub(super) fn new(
        workspace: &Workspace,
        start: &Relative,
        scope: Scope,
        left_out: &mut LeftOut,
    ) -> Result<Self, FileError> {
        let directory = workspace.open_directory(start)?;
        let rules = match scope {
            Scope::Everything => None,
            Scope::NotIgnored => Some(Rules::above(workspace, start, left_out)),
        };
        let mut walk = Self {
            descent: Descent::new(directory).map_err(error::of)?,
            names: Vec::new(),
            path: Vec::new(),
            rules,
            next: None,
            lengths: Vec::new(),
            failed: false,
        };
        walk.read_names(left_out).map_err(error::of)?;
        Ok(walk)
    }

    /// The directory that what was found last is in.
    pub(super) fn place(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.descent.current()
    }

    /// How many directories below the start that is.
    pub(super) fn depth(&self) -> usize {
        self.descent.depth()
    }

    /// Does not go into the directory found last.
    pub(super) fn skip(&mut self) {
        self.next = None;
    }

    /// The next thing, if any is left.
    pub(super) fn step(&mut self, left_out: &mut LeftOut) -> Option<Found> {
        if self.failed {
            return None;
        }
        if let Some(name) = self.next.take() {
            self.enter(&name, left_out);
        }
        loop {
            let Some((name, kind)) = self.names.last_mut()?.pop() else {
                self.names.pop();
                if self.names.is_empty() {
                    return None;
                }
                self.leave(left_out)?;
                continue;
            };
            let length = self.path.len();
            self.push_name(&name);
            let kind = self.kind_of(&name, kind);
            let is_directory = kind == FileType::Directory;
            let path = self.path.clone();
            self.path.truncate(length);
            if self.rules.as_ref().is_some_and(|rules| rules.leave_out(&path, is_directory)) {
                continue;
            }
            if is_directory {
                self.next = Some(name.clone());
            }
            return Some(Found { path, name, kind });
        }
    }

    fn kind_of(&self, name: &CStr, kind: FileType) -> FileType {
        if kind != FileType::Unknown {
            return kind;
        }
        let stat = self
            .descent
            .current()
            .and_then(|place| rustix::fs::statat(place, name, AtFlags::SYMLINK_NOFOLLOW));
        stat.map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode))
    }

    fn push_name(&mut self, name: &CStr) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
    }

    fn enter(&mut self, name: &CStr, left_out: &mut LeftOut) {
        let length = self.path.len();
        self.push_name(name);
        if self.descent.depth() >= DEEPEST {
            left_out.add(&self.path, "it is too deep");
            self.path.truncate(length);
            return;
        }
        if let Err(errno) = self.descent.enter(name) {
            left_out.add(&self.path, errno);
            self.path.truncate(length);
            return;
        }
        self.lengths.push(length);
        if let Err(errno) = self.read_names(left_out) {
            left_out.add(&self.path, errno);
            self.leave(left_out);
        }
    }

    /// Goes up; `None` when that fails, and with it the walk.
    fn leave(&mut self, left_out: &mut LeftOut) -> Option<()> {
        if let Some(rules) = &mut self.rules {
            rules.leave(self.names.len());
        }
        if let Err(errno) = self.descent.leave() {
            left_out.add(&self.path, errno);
            self.failed = true;
            return None;
        }
        let length = self.lengths.pop().unwrap_or(0);
        self.path.truncate(length);
        Some(())
    }

    fn read_names(&mut self, left_out: &mut LeftOut) -> Result<(), Errno> {
        let place = self.descent.current()?;
        let (mut names, cut) = names_in(place)?;
        if cut {
            left_out.add(&self.path, "it has too many entries");
        }
        names.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        if let Some(rules) = &mut self.rules {
            rules.enter(place, &self.path, &names, left_out);
        }
        self.names.push(names);
        Ok(())
    }
}
