//! Which files may become part of this process.
//!
//! A library runs with all rights of whoever loads it, and a model is read by one. So
//! each file is one that nobody but its owner or root could have put there: every
//! directory on the way to it, also by way of links, is root's or this user's and
//! writable by nobody else, and none is one that sandboxes write to.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::Mode;

use crate::error::OpenError;

/// Links on one way, as Linux has it.
const MOST_LINKS: usize = 40;

/// Who may write besides the owner.
const OTHERS: Mode = Mode::WGRP.union(Mode::WOTH);

/// Looks at the way to a file.
pub(crate) struct Guard {
    /// Directories that sandboxes write to, and which ones those are, by whatever name
    /// they are reached.
    theirs: Vec<(PathBuf, (u64, u64))>,
    /// Whose files are trusted besides root's.
    user: u32,
}

impl Guard {
    /// Keeps out of these directories; one that is not there has nothing in it.
    ///
    /// # Errors
    /// When it cannot be found out what they are.
    pub(crate) fn new(theirs: &[PathBuf]) -> Result<Self, OpenError> {
        let mut known = Vec::new();
        for path in theirs {
            match std::fs::metadata(path) {
                Ok(metadata) => known.push((path.clone(), identity(&metadata))),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(unreadable(path, source)),
            }
        }
        Ok(Self { theirs: known, user: rustix::process::geteuid().as_raw() })
    }

    /// Where a path leads, by ways that can be trusted.
    ///
    /// # Errors
    /// When it leads nowhere, or somebody else could lead it elsewhere.
    pub(crate) fn follow(&self, path: &Path) -> Result<PathBuf, OpenError> {
        let whole = std::path::absolute(path).map_err(|source| unreadable(path, source))?;
        let mut left: VecDeque<OsString> = steps(&whole).collect();
        let mut here = PathBuf::from("/");
        let mut links = 0;
        self.check(&here, &lstat(&here)?)?;
        while let Some(step) = left.pop_front() {
            if step == ".." {
                here.pop();
                continue;
            }
            let next = here.join(step);
            let metadata = lstat(&next)?;
            self.check(&next, &metadata)?;
            if !metadata.is_symlink() {
                here = next;
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(unreadable(path, Error::other("too many links lead to it")));
            }
            let target = std::fs::read_link(&next).map_err(|source| unreadable(&next, source))?;
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            for step in steps(&target).rev() {
                left.push_front(step);
            }
        }
        // Where anybody may put files, as in /tmp, names mean nothing.
        let directory = match (here.is_dir(), here.parent()) {
            (false, Some(parent)) => parent,
            _ => &here,
        };
        match others_write(&lstat(directory)?) {
            true => Err(exposed(directory, "others may write to it".to_owned())),
            false => Ok(here),
        }
    }

    /// Whether one step of a way can be trusted.
    fn check(&self, path: &Path, metadata: &Metadata) -> Result<(), OpenError> {
        let place = self.theirs.iter().find(|(_, place)| *place == identity(metadata));
        if let Some((place, _)) = place {
            return Err(OpenError::Theirs { place: place.clone() });
        }
        let owner = metadata.uid();
        if owner != 0 && owner != self.user {
            return Err(exposed(path, format!("it belongs to user {owner}")));
        }
        // A link's own mode means nothing. In a directory with the sticky bit nobody
        // can replace what belongs to somebody else.
        let sticky = metadata.is_dir() && Mode::from_raw_mode(metadata.mode()).contains(Mode::SVTX);
        match metadata.is_symlink() || sticky || !others_write(metadata) {
            true => Ok(()),
            false => Err(exposed(path, "others may write to it".to_owned())),
        }
    }
}

fn others_write(metadata: &Metadata) -> bool {
    Mode::from_raw_mode(metadata.mode()).intersects(OTHERS)
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn lstat(path: &Path) -> Result<Metadata, OpenError> {
    path.symlink_metadata().map_err(|source| unreadable(path, source))
}

/// The names on a way, and the steps back.
fn steps(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

fn unreadable(path: &Path, source: Error) -> OpenError {
    OpenError::Unreadable { path: path.to_owned(), source }
}

fn exposed(path: &Path, cause: String) -> OpenError {
    OpenError::Exposed { path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut guard = Guard::new(&[]).unwrap();
        assert_eq!(guard.follow(&file).unwrap(), file.canonicalize().unwrap());
        // Only root can give files away. For everybody else, a guard of somebody else's.
        let owner = match guard.user {
            0 => {
                std::os::unix::fs::chown(&file, Some(4_242), None).unwrap();
                4_242
            }
            user => {
                guard.user = user + 1;
                user
            }
        };
        let told = guard.follow(&file).unwrap_err().to_string();
        assert!(told.contains(&format!("it belongs to user {owner}")), "{told}");
    }
}
