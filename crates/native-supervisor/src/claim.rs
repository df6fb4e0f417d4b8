//! The claim on a workspace's directory: at most one sandbox at a time may
//! change it.
//!
//! It is a lock on the directory itself, so it holds whatever name the directory
//! is reached by and whichever home the sandbox belongs to. Whoever makes a
//! sandbox takes it and hands it to the supervisor, which has it until the
//! changes are applied or given up; the kernel frees it when the supervisor dies.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, ResolveFlags, Stat};

use crate::failure::{Failure, Step};

/// A directory that nobody else may change through a sandbox. The descriptor is
/// of no other use than to hold the lock and to reach the directory.
#[derive(Debug)]
pub struct Claim(OwnedFd);

impl Claim {
    /// Claims the directory at a path without links; `None` while another
    /// sandbox has it.
    ///
    /// # Errors
    /// When it cannot be opened or locked.
    pub fn take(path: &Path) -> Result<Option<Self>, Failure> {
        let directory = open(path).step_with(|| format!("open {}", path.display()))?;
        Self::of(directory).step_with(|| format!("lock {}", path.display()))
    }

    /// Claims an open directory; `None` while another sandbox has it.
    ///
    /// # Errors
    /// When it cannot be locked.
    pub fn of(directory: OwnedFd) -> rustix::io::Result<Option<Self>> {
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(directory))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A claim that was handed over.
    #[must_use]
    pub fn inherited(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Whether the claim is on the directory with this status.
    ///
    /// # Errors
    /// When the claimed directory cannot be looked at.
    pub fn is_on(&self, other: &Stat) -> rustix::io::Result<bool> {
        Ok(same(&rustix::fs::fstat(&self.0)?, other))
    }

    /// Whether the claim is on what is at this path now.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        // What cannot be looked at is another matter than this directory.
        rustix::fs::stat(path).and_then(|stat| self.is_on(&stat)).unwrap_or(false)
    }
}

impl AsFd for Claim {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Claim> for OwnedFd {
    fn from(claim: Claim) -> Self {
        claim.0
    }
}

/// Opens a directory by a path that was without links when it was first named.
/// If one is there now, somebody wants the changes elsewhere.
///
/// # Errors
/// When it is not there, no directory, or behind a link.
pub fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_claim_until_all_who_hold_it_let_go() {
        let directory = tempfile::tempdir().unwrap();
        let claim = Claim::take(directory.path()).unwrap().unwrap();
        assert!(claim.is_at(directory.path()));
        assert!(Claim::take(directory.path()).unwrap().is_none());
        let handed_over = Claim::inherited(claim.as_fd().try_clone_to_owned().unwrap());
        drop(claim);
        assert!(Claim::take(directory.path()).unwrap().is_none());
        drop(handed_over);
        assert!(Claim::take(directory.path()).unwrap().is_some());
    }

    #[test]
    fn another_directory_at_the_same_place_is_not_claimed() {
        let parent = tempfile::tempdir().unwrap();
        let (path, moved) = (parent.path().join("project"), parent.path().join("moved"));
        std::fs::create_dir(&path).unwrap();
        let claim = Claim::take(&path).unwrap().unwrap();
        std::fs::rename(&path, &moved).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(!claim.is_at(&path));
        assert!(claim.is_at(&moved), "by whatever name");
        assert!(Claim::take(&path).unwrap().is_some());
        std::fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink(&moved, &path).unwrap();
        assert!(Claim::take(&path).is_err(), "links are not followed");
    }
}
