//! Copies: of a layer as it is, and of a file that cannot be moved.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::attributes::{self, Names, Permissions};
use super::enter::{by_descriptor, enter_to_read, open_to_read};
use super::links::Links;
use super::walk::{Level, Work, walk};
use super::{OPAQUE, Owner, is_opaque, make_directory, own, own_name, passing_name, remove, times};
use crate::failure::{Failure, Step};

/// What a failure means for a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copying {
    /// The more of it there is, the better.
    Rescue,
    /// Half of it is worth nothing.
    Whole,
}

/// Copies of a layer what can be copied, as it is, whiteouts and all, into an empty directory.
/// What cannot be, or has no room any more, holds back nothing else.
///
/// # Errors
/// The first thing that could not be copied; all else was.
pub fn copy_layer(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Failure> {
    walk(from, to, &mut Copier { copying: Copying::Rescue, links: Links::to(to) })
}

/// The same, given up at the first thing that cannot be copied.
///
/// # Errors
/// That thing; what was copied stays.
pub fn copy_whole_layer(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Failure> {
    walk(from, to, &mut Copier { copying: Copying::Whole, links: Links::to(to) })
}

struct Copier<'a> {
    copying: Copying,
    links: Links<'a>,
}

impl Work for Copier<'_> {
    fn begin(&mut self, above: &Level, name: &CStr) -> Result<Option<Level>, Failure> {
        let (from, to) = (above.from.as_fd(), above.to.as_fd());
        let shown = name.to_string_lossy();
        let failed = || format!("copy {shown}");
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW).step_with(failed)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        match kind {
            FileType::Directory => {
                let inner_from = enter_to_read(from, name).step_with(failed)?;
                let inner_to = make_directory(to, name).step_with(failed)?;
                return above.below(inner_from, inner_to, name, stat).map(Some);
            }
            FileType::RegularFile => open_to_read(from, name)
                .and_then(|file| {
                    let (owner, passing) = (owner_of(&stat), passing_name()?);
                    let permissions = Permissions::of(&file, &stat, Names::Same)?;
                    let copy = || copy_file(&file, to, name, &stat, owner, &permissions, &passing);
                    self.links.put(above, name, &stat, &passing, copy)
                })
                .step_with(failed)?,
            FileType::Symlink => rustix::fs::readlinkat(from, name, Vec::new())
                .and_then(|target| rustix::fs::symlinkat(&target, to, name))
                .and_then(|()| own_name(to, name, owner_of(&stat)))
                .step_with(failed)?,
            FileType::CharacterDevice | FileType::Fifo => {
                let mode = attributes::mode_of(from, name, &stat);
                rustix::fs::mknodat(to, name, kind, mode, stat.st_rdev)
                    .and_then(|()| own_name(to, name, owner_of(&stat)))
                    .step_with(failed)?;
            }
            _ => {}
        }
        Ok(None)
    }

    fn finish(&mut self, _above: &Level, level: &Level) -> Result<(), Failure> {
        let Level { from, to, name, stat, .. } = level;
        let marked = if is_opaque(from) {
            rustix::fs::fsetxattr(to, OPAQUE, b"y", rustix::fs::XattrFlags::empty())
        } else {
            Ok(())
        };
        let owned = attributes::copy_users(from, to)
            .and_then(|()| own(to, owner_of(stat)))
            .and_then(|()| Permissions::of(from, stat, Names::Same)?.give(to))
            .and_then(|()| attributes::copy_default(from, to, Names::Same));
        marked.and(owned).step_with(|| format!("copy {}", name.to_string_lossy()))
    }

    fn gives_up(&self) -> bool {
        self.copying == Copying::Whole
    }
}

fn owner_of(stat: &Stat) -> Owner {
    Some((rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid)))
}

/// Copies a file that cannot be moved. Until it is whole it has no name, or where that cannot be
/// the name `passing`, which is nobody's: what has it is from a copy that was cut short.
pub(super) fn copy_file(
    from: &OwnedFd,
    directory: BorrowedFd<'_>,
    name: &CStr,
    stat: &Stat,
    owner: Owner,
    permissions: &Permissions,
    passing: &CStr,
) -> rustix::io::Result<OwnedFd> {
    remove(directory, passing)?;
    let (to, named) = make_temporary(directory, passing)?;
    let copied = attributes::disinherit(&to)
        .and_then(|()| copy_content(from, &to, stat))
        .and_then(|()| attributes::copy_users(from, &to))
        .and_then(|()| own(&to, owner))
        .and_then(|()| permissions.give(&to))
        .and_then(|()| rustix::fs::futimens(&to, &times(stat)))
        .and_then(|()| match named {
            Named::Passing => rustix::fs::renameat(directory, passing, directory, name),
            Named::Not => name_file(directory, name, passing, |name| {
                let (file, flags) = (by_descriptor(&to), AtFlags::SYMLINK_FOLLOW);
                rustix::fs::linkat(CWD, file, directory, name, flags)
            }),
        });
    if copied.is_err() {
        remove(directory, passing)?;
    }
    copied.map(|()| to)
}

/// Whether a file has a name that its maker's death would leave.
enum Named {
    /// It goes with its maker.
    Not,
    /// The one that files have in passing.
    Passing,
}

/// A new file, without a name if the file system has such and it can be given one later.
fn make_temporary(
    directory: BorrowedFd<'_>,
    passing: &CStr,
) -> rustix::io::Result<(OwnedFd, Named)> {
    let (flags, mode) = (OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    let unnamed = rustix::fs::openat(directory, c".", flags | OFlags::TMPFILE, mode);
    // In a sandbox's namespaces its processes are shown, and we are none of them.
    if let Ok(file) = unnamed
        && rustix::fs::stat(by_descriptor(&file)).is_ok()
    {
        return Ok((file, Named::Not));
    }
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    rustix::fs::openat(directory, passing, flags, mode).map(|file| (file, Named::Passing))
}

/// Gives a file a name that it can be linked with, in place of what has it.
pub(super) fn name_file(
    directory: BorrowedFd<'_>,
    name: &CStr,
    passing: &CStr,
    link: impl Fn(&CStr) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    match link(name) {
        // No link replaces anything.
        Err(Errno::EXIST) => {
            link(passing)?;
            rustix::fs::renameat(directory, passing, directory, name)
        }
        other => other,
    }
}

/// Copies the parts of a file that hold data; holes stay holes.
pub(crate) fn copy_content(from: impl AsFd, to: impl AsFd, stat: &Stat) -> rustix::io::Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    rustix::fs::ftruncate(to, size)?;
    let mut buffer = vec![0; 256 << 10];
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(from, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error),
        };
        let end = rustix::fs::seek(from, rustix::fs::SeekFrom::Hole(data))?.min(size);
        at = data;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let read = rustix::io::pread(from, buffer.get_mut(..wanted).unwrap_or_default(), at)?;
            if read == 0 {
                return Ok(());
            }
            let mut done = 0;
            while done < read {
                let rest = buffer.get(done..read).unwrap_or_default();
                done += rustix::io::pwrite(to, rest, at + done as u64)?;
            }
            at += read as u64;
        }
    }
    Ok(())
}
