//! File trees that a sandbox wrote, handled from outside: removed, copied, and
//! laid over a directory. Everything goes by descriptor, one name at a time, so
//! no link is ever followed, and nothing that is not a file is ever opened.

mod acl;
mod attributes;
mod copy;
mod enter;
mod links;
mod walk;

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use self::attributes::{Names, Permissions};
pub(crate) use self::copy::copy_content;
use self::copy::copy_file;
pub use self::copy::{copy_layer, copy_whole_layer};
pub use self::enter::enter;
use self::enter::{enter_to_change, open_to_read};
use self::links::Links;
use self::walk::{Level, Target, Work, walk};
use crate::failure::{Failure, Step, ignore};

/// How the names of files on their way into a directory begin.
const PASSING: &str = ".cofferdam-incoming-";

/// So many names are tried for something new.
const ATTEMPTS: usize = 100;

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

/// A name for files on their way into a directory that nobody has given anything, because
/// nobody could know it.
///
/// # Errors
/// When the kernel has no random numbers.
pub fn passing_name() -> rustix::io::Result<CString> {
    random_name(PASSING)
}

/// Whether a name is one of those.
#[must_use]
pub fn is_passing_name(name: &str) -> bool {
    let number = name.strip_prefix(PASSING).unwrap_or_default();
    number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Who owns what is laid over a directory, where that is not who wrote it.
pub type Owner = Option<(rustix::fs::Uid, rustix::fs::Gid)>;

/// Lays the changes of a layer over a directory: new and changed files replace
/// what is there, whiteouts remove it. Set-id bits do not survive. The layer is
/// used up by this.
///
/// Nothing that is mounted in the directory is reached: the sandbox never saw it.
///
/// A file that cannot be moved there has no name until it is whole, or the name `passing`; that
/// of an earlier try, if that was cut short, so that nothing of it stays. One that has several
/// names is one file there as well, wherever the file system can have that; of what a try that
/// was cut short gave to some of them, the next one makes another.
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
    passing: &CStr,
) -> Result<(), Failure> {
    let written_by = rustix::fs::fstat(layer).step("look at the changes")?;
    let names = owner.map_or(Names::Same, |(user, group)| Names::Writer {
        inside: (written_by.st_uid, written_by.st_gid),
        outside: (user.as_raw(), group.as_raw()),
    });
    walk(layer, directory, &mut LayOver { owner, names, passing, links: Links::to(directory) })
}

struct LayOver<'a> {
    owner: Owner,
    names: Names,
    passing: &'a CStr,
    links: Links<'a>,
}

impl Work for LayOver<'_> {
    fn begin(&mut self, above: &Level, name: &CStr) -> Result<Option<Level>, Failure> {
        let (layer, directory) = (above.from.as_fd(), above.to.as_fd());
        let owner = self.owner;
        let shown = name.to_string_lossy();
        let stat = rustix::fs::statat(layer, name, AtFlags::SYMLINK_NOFOLLOW)
            .step_with(|| format!("look at {shown}"))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice if stat.st_rdev == 0 => {
                remove(directory, name).reached(name, "remove")?;
            }
            FileType::Directory => {
                let from = enter_to_change(layer, name).step_with(|| format!("enter {shown}"))?;
                let to = replace_directory(&from, directory, name).inspect_err(|_| {
                    // As below.
                    ignore(rustix::fs::fchmod(&from, plain_mode(&stat)));
                })?;
                return above.below(from, to, name, stat).map(Some);
            }
            FileType::RegularFile => {
                self.move_file(above, name, &stat).reached(name, "write")?;
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(layer, name, Vec::new())
                    .step_with(|| format!("read the link {shown}"))?;
                remove(directory, name).reached(name, "replace")?;
                rustix::fs::symlinkat(&target, directory, name)
                    .step_with(|| format!("link {shown}"))?;
                own_name(directory, name, owner).step_with(|| format!("set owner of {shown}"))?;
            }
            FileType::Fifo => {
                remove(directory, name).reached(name, "replace")?;
                let mode = attributes::mode_of(layer, name, &stat);
                rustix::fs::mknodat(directory, name, FileType::Fifo, mode, 0)
                    .step_with(|| format!("make the pipe {shown}"))?;
                own_name(directory, name, owner).step_with(|| format!("set owner of {shown}"))?;
            }
            // A socket without its listener is nothing, and no device passes.
            _ => {}
        }
        remove(layer, name).step_with(|| format!("finish {shown}"))?;
        Ok(None)
    }

    fn finish(&mut self, above: &Level, level: &Level) -> Result<(), Failure> {
        let Level { from, to, found, name, stat, .. } = level;
        let shown = name.to_string_lossy();
        if level.failed {
            // The next try is to find it as this one did; where that fails, only its mode
            // or its times are others.
            ignore(rustix::fs::fchmod(from, plain_mode(stat)));
            ignore(rustix::fs::futimens(from, &times(stat)));
        }
        match found.as_ref().filter(|found| !is_unfinished(found)) {
            // One that was there is whose it was, and for whom.
            Some(found) => self
                .mode_over(level, found)
                .and_then(|mode| set_mode(to, mode))
                .step_with(|| format!("set mode of {shown}"))?,
            None => {
                own(to, self.owner).step_with(|| format!("set owner of {shown}"))?;
                attributes::copy_users(from, to)
                    .and_then(|()| Permissions::of(from, stat, self.names)?.give(to))
                    .and_then(|()| attributes::copy_default(from, to, self.names))
                    .step_with(|| format!("set mode of {shown}"))?;
            }
        }
        rustix::fs::futimens(to, &times(stat)).step_with(|| format!("set times of {shown}"))?;
        if level.failed {
            return Ok(());
        }
        remove(above.from.as_fd(), name).step_with(|| format!("finish {shown}"))
    }
}

impl LayOver<'_> {
    /// The mode of a directory that was there, after one of a layer is laid over it. What a sandbox
    /// sets is never more than permissions; what else was set before is not its to take away.
    fn mode_over(&self, level: &Level, found: &Stat) -> rustix::io::Result<Mode> {
        let Level { from, to, stat, .. } = level;
        // Where both have a list, a mode means the same of both.
        let mode = if attributes::has_list(to)? {
            plain_mode(stat)
        } else {
            Permissions::of(from, stat, self.names)?.mode
        };
        Ok(mode | Mode::from_raw_mode(found.st_mode & 0o7000))
    }

    fn move_file(&mut self, above: &Level, name: &CStr, stat: &Stat) -> rustix::io::Result<()> {
        let (layer, directory) = (above.from.as_fd(), above.to.as_fd());
        let file = open_to_read(layer, name)?;
        for attribute in attributes::overlays(&file)? {
            let removed = match rustix::fs::fremovexattr(&file, &attribute) {
                Err(Errno::ACCESS) => {
                    // Its owner may not write it; it gets its mode below.
                    rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
                    rustix::fs::fremovexattr(&file, &attribute)
                }
                other => other,
            };
            match removed {
                Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
                Err(error) => return Err(error),
            }
        }
        let permissions = Permissions::of(&file, stat, self.names)?;
        own(&file, self.owner)?;
        permissions.give(&file)?;
        make_room(directory, name)?;
        match rustix::fs::renameat(layer, name, directory, name) {
            Err(Errno::XDEV) => {
                let (owner, passing) = (self.owner, self.passing);
                let copy = || copy_file(&file, directory, name, stat, owner, &permissions, passing);
                self.links.put(above, name, stat, passing, copy)
            }
            other => other,
        }
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

/// Sets a mode where it is another. To set the same is no less a change: it is not everybody's
/// to do, and takes away what the kernel does not let one set.
fn set_mode(directory: &OwnedFd, mode: Mode) -> rustix::io::Result<()> {
    if rustix::fs::fstat(directory)?.st_mode & 0o7777 == mode.as_raw_mode() {
        return Ok(());
    }
    rustix::fs::fchmod(directory, mode)
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

/// The directory that the contents of one of a layer go to.
fn replace_directory(
    from: &OwnedFd,
    parent: BorrowedFd<'_>,
    name: &CStr,
) -> Result<Target, Failure> {
    if is_opaque(from) {
        remove(parent, name)
            // Once: at the next try, what this one lays there is to stay.
            .and_then(|()| rustix::fs::fremovexattr(from, OPAQUE))
            .reached(name, "replace")?;
    }
    make_directory(parent, name).reached(name, "make the directory")
}

/// What was to be done to a name of the directory, which may be where something is mounted.
trait Reached<T> {
    /// Names the step and, where that is why it failed, what is mounted.
    fn reached(self, name: &CStr, step: &str) -> Result<T, Failure>;
}

impl<T> Reached<T> for rustix::io::Result<T> {
    fn reached(self, name: &CStr, step: &str) -> Result<T, Failure> {
        self.map_err(|error| {
            let name = name.to_string_lossy();
            let mounted = format!("another file system is mounted at {name} or below it");
            match error {
                Errno::XDEV => Failure::new(format!("{step} {name}: {mounted}")),
                // That is what the kernel says of a place where something is mounted, and
                // hardly of anything else.
                Errno::BUSY => Failure {
                    step: format!("{step} {name}: {mounted}"),
                    errno: error.raw_os_error(),
                },
                _ => Failure { step: format!("{step} {name}"), errno: error.raw_os_error() },
            }
        })
    }
}

fn make_directory(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Target> {
    let found = match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => None,
        Err(Errno::EXIST) => {
            // Before it is entered, which may change its mode.
            let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                Some(stat)
            } else {
                remove(parent, name)?;
                rustix::fs::mkdirat(parent, name, Mode::RWXU)?;
                None
            }
        }
        Err(error) => return Err(error),
    };
    Ok(Target { directory: enter_to_change(parent, name)?, found })
}

/// Whether a directory is as one is that was just made, by a try that was cut short.
fn is_unfinished(found: &Stat) -> bool {
    found.st_uid == rustix::process::geteuid().as_raw() && found.st_mode & 0o7777 == 0o700
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

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "tree_host_tests.rs"]
mod host_tests;

#[cfg(test)]
#[path = "tree_link_tests.rs"]
mod link_tests;

#[cfg(test)]
#[path = "tree_attribute_tests.rs"]
mod attribute_tests;
