//! Deleting, also whole trees of any depth, without ever following a link.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};

use cofferdam_guest_protocol::{FileError, FileReply};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, unlinkat};
use rustix::io::Errno;

use super::error;
use super::resolve::{Workspace, change_mode, stat_at};
use super::walk::{Descent, names_in};

/// How often a directory that somebody keeps filling is emptied.
const ATTEMPTS: usize = 16;

/// What a directory needs so that its owner can empty it.
const OWNER: Mode = Mode::RWXU;

/// Deletes something.
pub(super) fn delete(
    workspace: &Workspace,
    path: &[u8],
    recursive: bool,
) -> Result<FileReply, FileError> {
    let path = workspace.relative(path)?;
    if path.is_root() {
        return Err(FileError::Denied);
    }
    let (parent, name) = workspace.open_parent(&path)?;
    let name = CString::new(name).map_err(|_| error::io(Errno::INVAL))?;
    let stat = stat_at(&parent, name.to_bytes()).map_err(error::of)?;
    let mut deleted = 1;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        unlinkat(&parent, &name, AtFlags::empty()).map_err(error::of)?;
    } else if recursive {
        deleted = delete_tree(parent.as_fd(), &name)?;
    } else {
        unlinkat(&parent, &name, AtFlags::REMOVEDIR).map_err(error::of)?;
    }
    Ok(FileReply::Deleted { entries: deleted })
}

/// A directory on the way, and what of it is still to be deleted.
struct Level {
    name: CString,
    names: Vec<(CString, FileType)>,
    attempts: usize,
}

fn delete_tree(parent: BorrowedFd<'_>, name: &CStr) -> Result<u64, FileError> {
    let start = rustix::io::fcntl_dupfd_cloexec(parent, 0).map_err(error::of)?;
    let mut descent = Descent::new(start).map_err(error::of)?;
    let mut levels: Vec<Level> = Vec::new();
    let mut deleted = 0;
    enter(&mut descent, &mut levels, name.to_owned()).map_err(error::of)?;
    while let Some(level) = levels.last_mut() {
        if let Some((name, kind)) = level.names.pop() {
            let place = descent.current().map_err(error::of)?;
            if kind != FileType::Directory {
                let unlink = |place: BorrowedFd<'_>| unlinkat(place, &name, AtFlags::empty());
                match insist(place, unlink) {
                    Ok(()) => deleted += 1,
                    Err(Errno::NOENT) => {}
                    // It was of a kind unknown, or has become a directory.
                    Err(Errno::ISDIR) => level.names.push((name, FileType::Directory)),
                    Err(errno) => return Err(error::of(errno)),
                }
                continue;
            }
            match enter(&mut descent, &mut levels, name.clone()) {
                Ok(()) | Err(Errno::NOENT) => {}
                // A link or a file by now.
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    if let Some(level) = levels.last_mut() {
                        level.names.push((name, FileType::Unknown));
                    }
                }
                Err(errno) => return Err(error::of(errno)),
            }
            continue;
        }
        let (name, attempts) = (level.name.clone(), level.attempts);
        descent.leave().map_err(error::of)?;
        let above = descent.current().map_err(error::of)?;
        let remove = |place: BorrowedFd<'_>| unlinkat(place, &name, AtFlags::REMOVEDIR);
        match insist(above, remove) {
            Ok(()) => {
                deleted += 1;
                levels.pop();
            }
            Err(Errno::NOENT) => {
                levels.pop();
            }
            // Somebody has put something there meanwhile.
            Err(Errno::NOTEMPTY) if attempts < ATTEMPTS => {
                levels.pop();
                enter(&mut descent, &mut levels, name).map_err(error::of)?;
                if let Some(level) = levels.last_mut() {
                    level.attempts = attempts + 1;
                }
            }
            Err(errno) => return Err(error::of(errno)),
        }
    }
    Ok(deleted)
}

fn enter(descent: &mut Descent, levels: &mut Vec<Level>, name: CString) -> Result<(), Errno> {
    match descent.enter(&name) {
        Err(Errno::ACCESS) => {
            unlock(descent.current()?, &name)?;
            descent.enter(&name)?;
        }
        outcome => outcome?,
    }
    let (names, _) = match names_in(descent.current()?) {
        Err(Errno::ACCESS) => {
            // Readable, but not to be searched.
            rustix::fs::fchmod(descent.current()?, OWNER)?;
            names_in(descent.current()?)?
        }
        Err(errno) => {
            descent.leave()?;
            return Err(errno);
        }
        Ok(names) => names,
    };
    levels.push(Level { name, names, attempts: 0 });
    Ok(())
}

/// Does something in a directory; if the directory's permissions forbid it, and
/// they can be changed, once more.
fn insist(
    place: BorrowedFd<'_>,
    action: impl Fn(BorrowedFd<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    match action(place) {
        Err(Errno::ACCESS) if rustix::fs::fchmod(place, OWNER).is_ok() => action(place),
        outcome => outcome,
    }
}

/// Lets the owner into a directory. It is opened without its permission, so that
/// what is changed is that directory and not what a link in its place leads to.
fn unlock(place: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    insist(place, |place| {
        let directory = rustix::fs::openat(place, name, flags, Mode::empty())?;
        change_mode(directory.as_fd(), OWNER)
    })
}
