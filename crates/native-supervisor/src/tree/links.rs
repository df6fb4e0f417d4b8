//! Hard links: what has several names in a layer is one file where it goes to, too.
//!
//! Otherwise a sandbox could multiply what it has room for, by as many names as it likes. A
//! file is copied with its first name and linked with the others, in whatever order they come.
//!
//! One name is remembered of each file that has more to come. So there are at most half as many
//! as a layer has names, which the limit on its files bounds, and a directory's name is kept
//! once for all that is in it; the walk itself keeps as much of a directory that it is in.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::copy::name_file;
use super::enter::{by_descriptor, find};
use super::remove;
use super::walk::Level;
use crate::failure::ignore;

/// So many names are looked up at once: no path of more is certain to be short enough for the
/// kernel.
const AT_ONCE: usize = 15;

/// Where a directory is, below the one that everything goes to.
#[derive(Clone, Default)]
pub(super) struct Place(Option<Rc<(Place, CString)>>);

impl Place {
    /// Where one is that is in this one.
    pub(super) fn below(&self, name: &CStr) -> Self {
        Self(Some(Rc::new((self.clone(), name.to_owned()))))
    }

    /// The names that lead there.
    fn names(&self) -> Vec<&CStr> {
        let mut names = Vec::new();
        let mut place = self;
        while let Some(below) = &place.0 {
            names.push(below.1.as_c_str());
            place = &below.0;
        }
        names.reverse();
        names
    }
}

/// Where those files of a layer went that have more names than they were met by.
pub(super) struct Links<'a> {
    /// The directory that everything goes to.
    top: BorrowedFd<'a>,
    /// By what the layer's file system knows the file by.
    placed: HashMap<(u64, u64), Placed>,
}

impl<'a> Links<'a> {
    pub(super) fn to(top: BorrowedFd<'a>) -> Self {
        Self { top, placed: HashMap::new() }
    }

    /// Gives a file of a layer its name in what `above` goes to: by a link, where it has another
    /// one there, and else by `copy`. So it is where the file system has no links, or no more of
    /// that file.
    pub(super) fn put(
        &mut self,
        above: &Level,
        name: &CStr,
        stat: &Stat,
        passing: &CStr,
        copy: impl FnOnce() -> rustix::io::Result<OwnedFd>,
    ) -> rustix::io::Result<()> {
        let key = (stat.st_dev, stat.st_ino);
        // The count may be of those that are left.
        let left = match self.placed.get(&key) {
            None => stat.st_nlink.saturating_sub(1),
            Some(placed) => {
                let left = placed.left.saturating_sub(1);
                if placed.link(self.top, above.to.as_fd(), name, passing)? {
                    self.count(key, left);
                    return Ok(());
                }
                left
            }
        };
        let file = copy()?;
        if left > 0 {
            let identity = Identity::of(&rustix::fs::fstat(file)?);
            let (place, name) = (above.place.clone(), name.to_owned());
            self.placed.insert(key, Placed { place, name, identity, left });
        }
        Ok(())
    }

    fn count(&mut self, key: (u64, u64), left: u64) {
        match self.placed.get_mut(&key) {
            Some(placed) if left > 0 => placed.left = left,
            _ => drop(self.placed.remove(&key)),
        }
    }
}

/// A file that was put somewhere.
struct Placed {
    place: Place,
    name: CString,
    identity: Identity,
    /// How many names it has that are still to come.
    left: u64,
}

impl Placed {
    /// Gives it one more name, in place of what has that; `false` where that cannot be.
    fn link(
        &self,
        top: BorrowedFd<'_>,
        directory: BorrowedFd<'_>,
        name: &CStr,
        passing: &CStr,
    ) -> rustix::io::Result<bool> {
        // Until the file is linked.
        let mut opened = Opened(Vec::new());
        let found = self.find(top, &mut opened);
        let (parent, file) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(false),
            // The directory's owner has changed something there, or it is not the caller's.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(false),
            Err(Errno::ACCESS | Errno::PERM) => return Ok(false),
            Err(error) => return Err(error),
        };
        let path = by_descriptor(&file);
        let shown = rustix::fs::stat(path.as_str()).is_ok();
        remove(directory, passing)?;
        let linked = name_file(directory, name, passing, |name| {
            if shown {
                rustix::fs::linkat(CWD, path.as_str(), directory, name, AtFlags::SYMLINK_FOLLOW)
            } else {
                // In a sandbox's namespaces, where nobody else reaches what is copied.
                rustix::fs::linkat(&parent, &self.name, directory, name, AtFlags::empty())
            }
        });
        // Also where it was linked: a name that is one of the same file is not replaced.
        remove(directory, passing)?;
        match linked {
            Ok(()) => Ok(true),
            Err(Errno::MLINK | Errno::PERM | Errno::XDEV | Errno::OPNOTSUPP | Errno::NOENT) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The file and the directory that it is in, unless it is another one by now.
    fn find(
        &self,
        top: BorrowedFd<'_>,
        opened: &mut Opened,
    ) -> rustix::io::Result<Option<(OwnedFd, OwnedFd)>> {
        let mut parent = rustix::io::fcntl_dupfd_cloexec(top, 0)?;
        for names in self.place.names().chunks(AT_ONCE) {
            let path = names.iter().map(|name| name.to_bytes()).collect::<Vec<_>>().join(&b'/');
            let path = CString::new(path).map_err(|_| Errno::INVAL)?;
            parent = match find(parent.as_fd(), &path, OFlags::DIRECTORY) {
                Err(Errno::ACCESS) => {
                    for name in names {
                        parent = opened.find(parent, name, OFlags::DIRECTORY)?.1;
                    }
                    parent
                }
                other => other?,
            };
        }
        let (parent, file) = opened.find(parent, &self.name, OFlags::empty())?;
        let same = Identity::of(&rustix::fs::fstat(&file)?) == self.identity;
        Ok(same.then_some((parent, file)))
    }
}

/// What tells a file from others, and from itself once somebody has changed it.
#[derive(PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

/// Directories that a sandbox closed to their owner, open for a moment. They are closed again
/// when this is dropped. Were that not done, directories that are closed would be enough to have
/// a copy for each name.
struct Opened(Vec<(OwnedFd, Mode)>);

impl Opened {
    /// What is in a directory, and that directory.
    fn find(
        &mut self,
        parent: OwnedFd,
        name: &CStr,
        flags: OFlags,
    ) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
        let found = match find(parent.as_fd(), name, flags) {
            Err(Errno::ACCESS) => {
                let mode = Mode::from_raw_mode(rustix::fs::fstat(&parent)?.st_mode & 0o7777);
                let held = rustix::io::fcntl_dupfd_cloexec(&parent, 0)?;
                rustix::fs::chmod(by_descriptor(&parent), mode | Mode::XUSR)?;
                self.0.push((held, mode));
                find(parent.as_fd(), name, flags)
            }
            other => other,
        };
        found.map(|found| (parent, found))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        for (directory, mode) in &self.0 {
            // Who could open it can close it.
            ignore(rustix::fs::chmod(by_descriptor(directory), *mode));
        }
    }
}
