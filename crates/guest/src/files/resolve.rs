//! Paths of the workspace, resolved so that they stay inside.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cofferdam_guest_protocol::FileError;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::beneath::{self, Links};
use super::error;

/// Links followed at the end of a path.
const MOST_LINKS: usize = 40;

/// Flags of every open that is not only for a path: nothing blocks, and no
/// terminal becomes ours.
const CAUTIOUS: OFlags = OFlags::CLOEXEC.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A directory opened only to reach what is in it.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// The workspace.
pub(super) struct Workspace {
    root: OwnedFd,
    path: Vec<u8>,
}

/// A path relative to the workspace, `.` for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Relative(Vec<u8>);

impl Relative {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a prefix of the paths beneath it: empty for the workspace itself.
    pub(super) fn prefix(&self) -> &[u8] {
        if self.is_root() { b"" } else { &self.0 }
    }

    pub(super) fn is_root(&self) -> bool {
        self.0 == b"."
    }

    /// The directory it is in, and its name there.
    pub(super) fn split(&self) -> Result<(Self, &[u8]), FileError> {
        let (parent, name) = match memchr::memrchr(b'/', &self.0) {
            None => (b".".as_slice(), self.0.as_slice()),
            Some(at) => {
                let (parent, rest) = self.0.split_at(at);
                (parent, rest.get(1..).unwrap_or_default())
            }
        };
        if matches!(name, b"" | b"." | b"..") {
            return Err(error::io(Errno::INVAL));
        }
        Ok((Self(parent.to_vec()), name))
    }

    fn join(&self, rest: &[u8]) -> Self {
        if self.is_root() {
            return Self(rest.to_vec());
        }
        Self([&self.0, b"/".as_slice(), rest].concat())
    }
}

impl Workspace {
    pub(super) fn open(path: &[u8]) -> Result<Self, FileError> {
        let flags = PLACE | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(error::of)?;
        let mut path = path.to_vec();
        while path.len() > 1 && path.ends_with(b"/") {
            path.pop();
        }
        Ok(Self { root, path })
    }

    /// The path as one relative to the workspace. Whether it stays inside is seen
    /// when it is opened.
    pub(super) fn relative(&self, path: &[u8]) -> Result<Relative, FileError> {
        if path.contains(&0) {
            return Err(error::io(Errno::INVAL));
        }
        let mut rest = path;
        if path.starts_with(b"/") {
            rest = path.strip_prefix(self.path.as_slice()).ok_or(FileError::Outside)?;
            if !rest.is_empty() && !rest.starts_with(b"/") && self.path != b"/" {
                return Err(FileError::Outside);
            }
        }
        while let Some(shorter) = rest.strip_prefix(b"/") {
            rest = shorter;
        }
        while let Some(shorter) = rest.strip_suffix(b"/") {
            rest = shorter;
        }
        Ok(Relative(if rest.is_empty() { b".".to_vec() } else { rest.to_vec() }))
    }

    fn open_raw(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags =
            if flags.contains(OFlags::PATH) { flags | OFlags::CLOEXEC } else { flags | CAUTIOUS };
        beneath::open(self.root.as_fd(), path, flags, mode, Links::Followed)
    }

    /// Opens something inside.
    pub(super) fn open_at(
        &self,
        path: &Relative,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, FileError> {
        self.open_raw(&path.0, flags, mode).map_err(error::of)
    }

    /// Opens a regular file, and says what it is.
    pub(super) fn open_file(
        &self,
        path: &Relative,
        flags: OFlags,
        mode: Mode,
    ) -> Result<(OwnedFd, Stat), FileError> {
        let file = self.open_at(path, flags, mode)?;
        let stat = rustix::fs::fstat(&file).map_err(error::of)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FileError::NotFile);
        }
        Ok((file, stat))
    }

    /// Opens a directory to read its entries.
    pub(super) fn open_directory(&self, path: &Relative) -> Result<OwnedFd, FileError> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// Opens the directory that something is in.
    pub(super) fn open_parent<'p>(
        &self,
        path: &'p Relative,
    ) -> Result<(OwnedFd, &'p [u8]), FileError> {
        let (parent, name) = path.split()?;
        Ok((self.open_at(&parent, PLACE, Mode::empty())?, name))
    }

    /// Opens a directory; it and its parents are made where they are missing.
    pub(super) fn make_directories(&self, path: &Relative) -> Result<OwnedFd, FileError> {
        match self.open_raw(&path.0, PLACE, Mode::empty()) {
            Err(Errno::NOENT) => {}
            outcome => return outcome.map_err(error::of),
        }
        let mut place = rustix::io::fcntl_dupfd_cloexec(&self.root, 0).map_err(error::of)?;
        let mut reached = Relative(b".".to_vec());
        for name in path.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            reached = reached.join(name);
            place = match self.open_raw(&reached.0, PLACE, Mode::empty()) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&place, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(error::of(errno)),
                    }
                    self.open_raw(&reached.0, PLACE, Mode::empty())
                }
                outcome => outcome,
            }
            .map_err(error::of)?;
        }
        Ok(place)
    }

    /// What a path names without following a link at its end.
    pub(super) fn stat(&self, path: &Relative) -> Result<Stat, FileError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let place = self.open_at(path, flags, Mode::empty())?;
        rustix::fs::fstat(&place).map_err(error::of)
    }

    /// The path at the end of the links that this path may be. Each is resolved
    /// again from the workspace, so none leads out.
    pub(super) fn follow(&self, path: Relative) -> Result<Relative, FileError> {
        let mut path = path;
        for _ in 0..MOST_LINKS {
            let (parent, name) = path.split()?;
            let place = match self.open_raw(&parent.0, PLACE, Mode::empty()) {
                // Then there is no link either.
                Err(Errno::NOENT) => return Ok(path),
                outcome => outcome.map_err(error::of)?,
            };
            let target = match rustix::fs::readlinkat(&place, name, Vec::new()) {
                Ok(target) => target.into_bytes(),
                Err(Errno::INVAL | Errno::NOENT) => return Ok(path),
                Err(errno) => return Err(error::of(errno)),
            };
            if target.starts_with(b"/") {
                return Err(FileError::Outside);
            }
            path = self.relative(parent.join(&target).as_bytes())?;
        }
        Err(error::io(Errno::LOOP))
    }
}

/// What something in an open directory is, without following a link.
pub(super) fn stat_at(place: impl AsFd, name: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(place, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Opens the place of an open descriptor by its number: only for descriptors of
/// this process, whose links lead nowhere else.
pub(super) fn own_link(fd: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Changes the permissions of something that may only be opened as a path.
pub(super) fn change_mode(fd: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    rustix::fs::chmodat(CWD, own_link(fd), mode, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative(path: &str) -> Result<String, FileError> {
        let root = rustix::fs::open("/", PLACE | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let workspace = Workspace { root, path: b"/workspace".to_vec() };
        let relative = workspace.relative(path.as_bytes())?;
        Ok(String::from_utf8(relative.0).unwrap())
    }

    #[test]
    fn absolute_paths_must_be_beneath_the_workspace() {
        assert_eq!(relative("/workspace/a/b"), Ok("a/b".to_owned()));
        assert_eq!(relative("/workspace"), Ok(".".to_owned()));
        assert_eq!(relative("/workspace/"), Ok(".".to_owned()));
        assert_eq!(relative("/workspaces/a"), Err(FileError::Outside));
        assert_eq!(relative("/etc/passwd"), Err(FileError::Outside));
    }

    #[test]
    fn relative_paths_stay_as_they_are() {
        assert_eq!(relative("a//b/../c"), Ok("a//b/../c".to_owned()));
        assert_eq!(relative("a/b/"), Ok("a/b".to_owned()));
        assert_eq!(relative(""), Ok(".".to_owned()));
        assert!(matches!(relative("a\0b"), Err(FileError::Io { .. })));
    }

    #[test]
    fn a_path_splits_into_directory_and_name() {
        let split = |path: &str| {
            let path = Relative(path.as_bytes().to_vec());
            let (parent, name) = path.split()?;
            Ok((String::from_utf8(parent.0).unwrap(), String::from_utf8(name.to_vec()).unwrap()))
        };
        assert_eq!(split("a"), Ok((".".to_owned(), "a".to_owned())));
        assert_eq!(split("a/b/c"), Ok(("a/b".to_owned(), "c".to_owned())));
        for path in [".", "..", "a/..", "a/."] {
            let outcome: Result<_, FileError> = split(path);
            assert!(outcome.is_err(), "{path}");
        }
    }
}
