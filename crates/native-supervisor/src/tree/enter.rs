//! Ways into what a sandbox wrote and what that goes to, whatever the permissions.
//!
//! No way leads through a link or into another file system: what is mounted somewhere in a
//! workspace's directory was never shown to the sandbox, so none of its changes is about that.
//! The kernel looks after it, because nothing else can tell: a mount may show a part of the very
//! same file system.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A directory below another, whatever its permissions.
///
/// # Errors
/// When it is not there or no directory; `EXDEV` when something is mounted there.
pub fn enter(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    open(parent, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::RWXU)
}

/// The same, to move things out of it or into it.
pub(super) fn enter_to_change(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let directory = enter(parent, name)?;
    let mode = rustix::fs::fstat(&directory)?.st_mode & 0o7777;
    if mode & 0o700 != 0o700 {
        match rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode | 0o700)) {
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
    open(parent, name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR)
}

/// Finds what is at a path of names below a directory, without opening it: no right to it is
/// needed, only to the directories on the way.
pub(super) fn find(
    parent: BorrowedFd<'_>,
    path: &CStr,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    rustix::fs::openat2(parent, path, flags, Mode::empty(), within)
}

/// Opens what its owner may have taken its own right to open, which is then given back.
fn open(
    parent: BorrowedFd<'_>,
    name: &CStr,
    flags: OFlags,
    right: Mode,
) -> rustix::io::Result<OwnedFd> {
    let open = |flags| {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(parent, name, flags, Mode::empty(), within)
    };
    match open(flags) {
        Err(Errno::ACCESS) => {
            // The very thing, and not whatever has its name by then. The call that needs no
            // name for it is younger than some kernels.
            let found = open(OFlags::PATH | (flags & OFlags::DIRECTORY))?;
            rustix::fs::chmod(by_descriptor(&found), right)?;
            open(flags)
        }
        other => other,
    }
}

/// A path of something open, for calls that take nothing else.
pub(super) fn by_descriptor(open: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", open.as_raw_fd())
}
