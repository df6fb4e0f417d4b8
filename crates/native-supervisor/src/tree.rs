//! File trees that a sandbox wrote, handled from outside: removed, copied, and
//! laid over a directory. Everything goes by descriptor, one name at a time, so
//! no link is ever followed, and nothing that is not a file is ever opened.

mod walk;

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use self::walk::{Level, Work, walk};
use crate::failure::{Failure, Step, ignore};

/// So many names are tried for something new.
const ATTEMPTS: usize = 100;

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
fn enter_to_change(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
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

/// The names in a directory, without itself and its parent.
///
/// # Errors
/// When it cannot be read.
pub fn names(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Removes a name and all below it; one that is not there is fine.
///
/// # Errors
/// When something cannot be removed.
pub fn remove(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        other => return other,
    }
    // A stack of directories instead of calls: trees may be deeper than the
    // program's stack, and than the number of files it may have open. When
    // there are too many open, the deepest part is moved up and removed first.
    let mut open: Vec<(OwnedFd, CString)> = vec![(enter_to_change(parent, name)?, name.to_owned())];
    while let Some((directory, _)) = open.last() {
        let mut below = None;
        for name in names(directory.as_fd())? {
            match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => {
                    match rustix::fs::unlinkat(directory, &name, AtFlags::REMOVEDIR) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(Errno::NOTEMPTY | Errno::EXIST) => {
                            below = Some((enter_to_change(directory.as_fd(), &name)?, name));
                            break;
                        }
                        Err(Errno::ACCESS) => {
                            below = Some((enter_to_change(directory.as_fd(), &name)?, name));
                            break;
                        }
                        Err(error) => return Err(error),
                    }
                }
                Err(Errno::ACCESS) => {
                    rustix::fs::fchmod(directory, Mode::RWXU)?;
                    rustix::fs::unlinkat(directory, &name, AtFlags::empty())?;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some((next, name)) = below {
            if open.len() >= 512 {
                // Move the subtree up to the top and begin again from there.
                let Some((top, _)) = open.first() else { break };
                if let Some((deep, _)) = open.last() {
                    lift(deep.as_fd(), &name, top.as_fd())?;
                }
                open.truncate(1);
                continue;
            }
            open.push((next, name));
            continue;
        }
        let Some((_, name)) = open.pop() else { break };
        let above = open.last().map_or(parent, |(directory, _)| directory.as_fd());
        rustix::fs::unlinkat(above, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Moves a directory up, under a name that nobody could foresee and plant there. An empty
/// directory may be replaced by it: what is there is to be removed anyway.
fn lift(deep: BorrowedFd<'_>, name: &CStr, top: BorrowedFd<'_>) -> rustix::io::Result<()> {
    for _ in 0..ATTEMPTS {
        match rustix::fs::renameat(deep, name, top, random_name(".cofferdam-lifted-")?) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            other => return other,
        }
    }
    Err(Errno::EXIST)
}

fn random_name(prefix: &str) -> rustix::io::Result<CString> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    CString::new(format!("{prefix}{:016x}", u64::from_ne_bytes(random))).map_err(|_| Errno::INVAL)
}

/// Who owns what is laid over a directory, where that is not who wrote it.
pub type Owner = Option<(rustix::fs::Uid, rustix::fs::Gid)>;

/// Lays the changes of a layer over a directory: new and changed files replace
/// what is there, whiteouts remove it. Set-id bits do not survive. The layer is
/// used up by this.
///
/// One name that cannot be laid over holds back none of the others. Not even a
/// full disk does: a removal makes room, and a small file may fit where a large
/// one did not.
///
/// # Errors
/// The first thing that could not be done; all else was done, and the layer
/// keeps what was not, so that it can be tried again.
pub fn lay_over(
    layer: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    owner: Owner,
) -> Result<(), Failure> {
    walk(layer, directory, &LayOver { owner })
}

struct LayOver {
    owner: Owner,
}

impl Work for LayOver {
    fn begin(&self, above: &Level, name: &CStr) -> Result<Option<Level>, Failure> {
        let (layer, directory) = (above.from.as_fd(), above.to.as_fd());
        let owner = self.owner;
        let shown = name.to_string_lossy();
        let stat = rustix::fs::statat(layer, name, AtFlags::SYMLINK_NOFOLLOW)
            .step_with(|| format!("look at {shown}"))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice if stat.st_rdev == 0 => {
                remove(directory, name).step_with(|| format!("remove {shown}"))?;
            }
            FileType::Directory => {
                let from = enter_to_change(layer, name).step_with(|| format!("enter {shown}"))?;
                if is_opaque(&from) {
                    remove(directory, name)
                        // Once: at the next try, what this one lays there is to stay.
                        .and_then(|()| rustix::fs::fremovexattr(&from, OPAQUE))
                        .step_with(|| format!("replace {shown}"))?;
                }
                let to = make_directory(directory, name)
                    .step_with(|| format!("make the directory {shown}"))?;
                return Level::new(from, to, name, stat).map(Some);
            }
            FileType::RegularFile => {
                move_file(layer, directory, name, &stat, owner)
                    .step_with(|| format!("write {shown}"))?;
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(layer, name, Vec::new())
                    .step_with(|| format!("read the link {shown}"))?;
                remove(directory, name).step_with(|| format!("replace {shown}"))?;
                rustix::fs::symlinkat(&target, directory, name)
                    .step_with(|| format!("link {shown}"))?;
                own_name(directory, name, owner).step_with(|| format!("set owner of {shown}"))?;
            }
            FileType::Fifo => {
                remove(directory, name).step_with(|| format!("replace {shown}"))?;
                rustix::fs::mknodat(directory, name, FileType::Fifo, plain_mode(&stat), 0)
                    .step_with(|| format!("make the pipe {shown}"))?;
                own_name(directory, name, owner).step_with(|| format!("set owner of {shown}"))?;
            }
            // A socket without its listener is nothing, and no device passes.
            _ => {}
        }
        remove(layer, name).step_with(|| format!("finish {shown}"))?;
        Ok(None)
    }

    fn finish(&self, above: &Level, level: &Level) -> Result<(), Failure> {
        let Level { from, to, name, stat, .. } = level;
        let shown = name.to_string_lossy();
        if level.failed {
            // The next try is to find it as this one did; where that fails, only its mode
            // or its times are others.
            ignore(rustix::fs::fchmod(from, plain_mode(stat)));
            ignore(rustix::fs::futimens(from, &times(stat)));
        }
        rustix::fs::fchmod(to, plain_mode(stat)).step_with(|| format!("set mode of {shown}"))?;
        own(to, self.owner).step_with(|| format!("set owner of {shown}"))?;
        rustix::fs::futimens(to, &times(stat)).step_with(|| format!("set times of {shown}"))?;
        if level.failed {
            return Ok(());
        }
        remove(above.from.as_fd(), name).step_with(|| format!("finish {shown}"))
    }
}

/// How the kernel marks a directory that replaces the one below it.
const OPAQUE: &CStr = c"user.overlay.opaque";

fn is_opaque(directory: &OwnedFd) -> bool {
    let mut value = [0; 8];
    matches!(
        rustix::fs::fgetxattr(directory, OPAQUE, &mut value[..]),
        Ok(1) if value.first() == Some(&b'y')
    )
}

fn plain_mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o777)
}

fn times(stat: &Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

fn own(file: impl AsFd, owner: Owner) -> rustix::io::Result<()> {
    match owner {
        Some((uid, gid)) => rustix::fs::fchown(file, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

/// The same for what is not opened: a link, a pipe.
fn own_name(parent: BorrowedFd<'_>, name: &CStr, owner: Owner) -> rustix::io::Result<()> {
    let Some((uid, gid)) = owner else { return Ok(()) };
    rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

fn make_directory(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                remove(parent, name)?;
                rustix::fs::mkdirat(parent, name, Mode::RWXU)?;
            }
        }
        Err(error) => return Err(error),
    }
    enter_to_change(parent, name)
}

fn move_file(
    layer: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &CStr,
    stat: &Stat,
    owner: Owner,
) -> rustix::io::Result<()> {
    // Its owner may have taken its own right to read it.
    if stat.st_mode & 0o400 == 0 {
        rustix::fs::chmodat(layer, name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(layer, name, flags, Mode::empty())?;
    for attribute in [c"user.overlay.origin", c"user.overlay.nlink", c"user.overlay.metacopy"] {
        match rustix::fs::fremovexattr(&file, attribute) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(error) => return Err(error),
        }
    }
    own(&file, owner)?;
    rustix::fs::fchmod(&file, plain_mode(stat))?;
    make_room(directory, name)?;
    match rustix::fs::renameat(layer, name, directory, name) {
        Err(Errno::XDEV) => copy_file(&file, directory, name, stat, owner),
        other => other,
    }
}

/// A file can replace a file in one step, but not a directory.
fn make_room(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            remove(directory, name)
        }
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

fn copy_file(
    from: &OwnedFd,
    directory: BorrowedFd<'_>,
    name: &CStr,
    stat: &Stat,
    owner: Owner,
) -> rustix::io::Result<()> {
    let (temporary, to) = make_temporary(directory)?;
    let copied = copy_content(from, &to, stat)
        .and_then(|()| own(&to, owner))
        .and_then(|()| rustix::fs::fchmod(&to, plain_mode(stat)))
        .and_then(|()| rustix::fs::futimens(&to, &times(stat)))
        .and_then(|()| rustix::fs::renameat(directory, &temporary, directory, name));
    if copied.is_err() {
        remove(directory, &temporary)?;
    }
    copied
}

/// A new file under a name that nobody else has: what is there stays, and so
/// does what the layer brings under whatever name.
fn make_temporary(directory: BorrowedFd<'_>) -> rustix::io::Result<(CString, OwnedFd)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..ATTEMPTS {
        let name = random_name(".cofferdam-incoming-")?;
        match rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => {}
            other => return other.map(|file| (name, file)),
        }
    }
    Err(Errno::EXIST)
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
    walk(from, to, &Copying::Rescue)
}

/// The same, given up at the first thing that cannot be copied.
///
/// # Errors
/// That thing; what was copied stays.
pub fn copy_whole_layer(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Failure> {
    walk(from, to, &Copying::Whole)
}

impl Work for Copying {
    fn begin(&self, above: &Level, name: &CStr) -> Result<Option<Level>, Failure> {
        let (from, to) = (above.from.as_fd(), above.to.as_fd());
        let shown = name.to_string_lossy();
        let failed = || format!("copy {shown}");
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW).step_with(failed)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        match kind {
            FileType::Directory => {
                let inner_from = enter_to_read(from, name).step_with(failed)?;
                let inner_to = make_directory(to, name).step_with(failed)?;
                return Level::new(inner_from, inner_to, name, stat).map(Some);
            }
            FileType::RegularFile => open_to_read(from, name)
                .and_then(|file| copy_file(&file, to, name, &stat, owner_of(&stat)))
                .step_with(failed)?,
            FileType::Symlink => rustix::fs::readlinkat(from, name, Vec::new())
                .and_then(|target| rustix::fs::symlinkat(&target, to, name))
                .and_then(|()| own_name(to, name, owner_of(&stat)))
                .step_with(failed)?,
            FileType::CharacterDevice | FileType::Fifo => {
                rustix::fs::mknodat(to, name, kind, plain_mode(&stat), stat.st_rdev)
                    .and_then(|()| own_name(to, name, owner_of(&stat)))
                    .step_with(failed)?;
            }
            _ => {}
        }
        Ok(None)
    }

    fn finish(&self, _above: &Level, level: &Level) -> Result<(), Failure> {
        let Level { from, to, name, stat, .. } = level;
        let marked = if is_opaque(from) {
            rustix::fs::fsetxattr(to, OPAQUE, b"y", rustix::fs::XattrFlags::empty())
        } else {
            Ok(())
        };
        let owned = own(to, owner_of(stat)).and_then(|()| rustix::fs::fchmod(to, plain_mode(stat)));
        marked.and(owned).step_with(|| format!("copy {}", name.to_string_lossy()))
    }

    fn gives_up(&self) -> bool {
        *self == Self::Whole
    }
}

fn owner_of(stat: &Stat) -> Owner {
    Some((rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid)))
}

/// A directory below another and what is in it, whatever its permissions. They change only
/// where they are in the way, which is nowhere within a sandbox that goes on: there the right
/// to do without them is had.
fn enter_to_read(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let directory = enter(parent, name)?;
    match rustix::fs::statat(&directory, c".", AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => {}
        Err(Errno::ACCESS) => rustix::fs::fchmod(&directory, Mode::RWXU)?,
        Err(error) => return Err(error),
    }
    Ok(directory)
}

/// The same of a file.
fn open_to_read(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
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

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
