//! Ways into what a sandbox wrote, whatever permissions it gave it.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// A directory below another, whatever its permissions.
///
/// # Errors
/// When it is not there or no directory.
pub fn enter(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // Its owner took its own right to read it; give it back.
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        }
        other => other,
    }
}

/// The same, to move things out of it or into it.
pub(super) fn enter_to_change(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let directory = enter(parent, name)?;
    let stat = rustix::fs::fstat(&directory)?;
    if stat.st_mode & 0o700 != 0o700 {
        match rustix::fs::fchmod(&directory, Mode::RWXU) {
            // Somebody else's: whether it can be changed will show.
            Ok(()) | Err(Errno::PERM) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(directory)
}

/// A directory below another and what is in it, whatever its permissions. They change only
/// where they are in the way, which is nowhere within a sandbox that goes on: there the right
/// to do without them is had.
pub(super) fn enter_to_read(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let directory = enter(parent, name)?;
    match rustix::fs::statat(&directory, c".", AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => {}
        Err(Errno::ACCESS) => rustix::fs::fchmod(&directory, Mode::RWXU)?,
        Err(error) => return Err(error),
    }
    Ok(directory)
}

/// The same of a file.
pub(super) fn open_to_read(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // Its owner took its own right to read it; give it back.
            rustix::fs::chmodat(parent, name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        }
        other => other,
    }
}
