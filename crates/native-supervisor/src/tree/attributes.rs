//! What a file has besides its contents: who may do what with it, and attributes of its user's.
//!
//! All of it is data that a sandbox chose. Of attributes, those of its user pass (`user.`) and
//! no others: none that the kernel heeds, and none of the overlay's. Of access control lists,
//! names pass that mean the same outside. What a file system does not take is left out, and
//! nobody gets more by that. The kernel bounds a value, and the names of all, at 64 KiB.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno;

use super::acl::{List, Named};
use super::enter::{by_descriptor, find};
use super::plain_mode;

/// Who may do what with a file.
const ACCESS: &CStr = c"system.posix_acl_access";

/// Who may do what with what is made in a directory.
const DEFAULT: &CStr = c"system.posix_acl_default";

/// How attributes begin that are their user's.
const USERS: &[u8] = b"user.";

/// How those begin that are the overlay's, who keeps what a sandbox calls so by such names, too.
const OVERLAYS: &[u8] = b"user.overlay.";

/// What the kernel has at most of a value, and of names.
const MOST: usize = 64 << 10;

/// Whom the lists of a layer may name.
#[derive(Clone, Copy)]
pub(super) enum Names {
    /// All whom they do: ids are the same on both sides.
    Same,
    /// Nobody but who wrote the layer (a user and a group), and that is somebody else outside.
    /// All other ids were chosen inside.
    Writer {
        /// Who that is in the layer.
        inside: (u32, u32),
        /// Who that is where it goes to.
        outside: (u32, u32),
    },
}

impl Names {
    fn whom(self, named: Named) -> Option<u32> {
        match (self, named) {
            (Self::Same, Named::User(id) | Named::Group(id)) => Some(id),
            // The latter is so already where an earlier try, or another name, came before.
            (Self::Writer { inside, outside }, Named::User(id)) => {
                [inside.0, outside.0].contains(&id).then_some(outside.0)
            }
            (Self::Writer { inside, outside }, Named::Group(id)) => {
                [inside.1, outside.1].contains(&id).then_some(outside.1)
            }
        }
    }
}

/// Who may do what with a file or a directory.
pub(super) struct Permissions {
    list: Option<List>,
    /// What a mode alone can say of it.
    pub(super) mode: Mode,
}

impl Permissions {
    /// Those of something in a layer. The mode is that of `stat`: it may have been opened since.
    pub(super) fn of(file: &OwnedFd, stat: &Stat, names: Names) -> rustix::io::Result<Self> {
        let bytes = get(|value| rustix::fs::fgetxattr(file, ACCESS, value))?;
        let Some(bytes) = bytes else {
            return Ok(Self { list: None, mode: plain_mode(stat) });
        };
        let Some(list) = List::parse(&bytes) else {
            // Whatever that is, it is not for everybody.
            return Ok(Self { list: None, mode: plain_mode(stat) & Mode::RWXU });
        };
        let list = list.with_mode(stat.st_mode).with_names(|name| names.whom(name));
        let mode = Mode::from_raw_mode(list.without_names().mode());
        Ok(Self { list: Some(list), mode })
    }

    /// Gives them to a file. At no moment has anybody more than in the end.
    pub(super) fn give(&self, to: &OwnedFd) -> rustix::io::Result<()> {
        rustix::fs::fchmod(to, self.mode)?;
        match &self.list {
            Some(list) => match set(to, ACCESS, &list.bytes())? {
                Taken::Yes => Ok(()),
                Taken::No => take_away(to, ACCESS),
            },
            None => take_away(to, ACCESS),
        }
    }
}

/// Whether somebody is named by a file's or a directory's permissions, or could be.
pub(super) fn has_list(file: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(get(|value| rustix::fs::fgetxattr(file, ACCESS, value))?.is_some())
}

/// Takes a new file what it has from the directory that it was made in: it is to have what it
/// had in the layer, where directories have lists of their own.
pub(super) fn disinherit(file: &OwnedFd) -> rustix::io::Result<()> {
    take_away(file, ACCESS)
}

/// Gives a new directory what is for whatever will be made in there.
pub(super) fn copy_default(from: &OwnedFd, to: &OwnedFd, names: Names) -> rustix::io::Result<()> {
    take_away(to, DEFAULT)?;
    let bytes = get(|value| rustix::fs::fgetxattr(from, DEFAULT, value))?;
    match bytes.as_deref().and_then(List::parse) {
        Some(list) => set(to, DEFAULT, &list.with_names(|name| names.whom(name)).bytes()).map(drop),
        None => Ok(()),
    }
}

/// The mode of something in a layer that is not opened, as far as a mode can say it.
pub(super) fn mode_of(parent: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Mode {
    let list = find(parent, name, OFlags::empty())
        .and_then(|found| get(|value| rustix::fs::getxattr(by_descriptor(&found), ACCESS, value)));
    match list {
        // In a sandbox's namespaces no path leads to it.
        Ok(None) | Err(Errno::NOENT) => plain_mode(stat),
        Ok(Some(bytes)) => match List::parse(&bytes) {
            Some(list) => Mode::from_raw_mode(list.with_mode(stat.st_mode).without_names().mode()),
            None => plain_mode(stat) & Mode::RWXU,
        },
        Err(_) => plain_mode(stat) & Mode::RWXU,
    }
}

/// Copies the attributes that are a user's, as far as they are taken.
pub(super) fn copy_users(from: &OwnedFd, to: &OwnedFd) -> rustix::io::Result<()> {
    let all = names_of(from)?;
    for name in all.iter().filter(|name| is_users(name)) {
        let read = || get(|value| rustix::fs::fgetxattr(from, name.as_c_str(), value));
        let value = match read() {
            Err(Errno::ACCESS) => {
                // Its owner may not read it; that is as it was a moment later.
                let stat = rustix::fs::fstat(from)?;
                rustix::fs::fchmod(from, Mode::RUSR | Mode::WUSR)?;
                let value = read();
                rustix::fs::fchmod(from, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
                value?
            }
            other => other?,
        };
        if let Some(value) = value {
            set(to, name, &value)?;
        }
    }
    Ok(())
}

/// The attributes of a file that are the overlay's.
pub(super) fn overlays(file: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    let mut names = names_of(file)?;
    names.retain(|name| name.to_bytes().starts_with(OVERLAYS));
    Ok(names)
}

fn is_users(name: &CStr) -> bool {
    name.to_bytes().starts_with(USERS) && !name.to_bytes().starts_with(OVERLAYS)
}

/// The names of a file's attributes; none, where there are more than the kernel tells.
fn names_of(file: impl AsFd) -> rustix::io::Result<Vec<CString>> {
    let names = get(|names| match rustix::fs::flistxattr(file.as_fd(), names) {
        Err(Errno::TOOBIG) => Ok(0),
        other => other,
    })?;
    let names = names.unwrap_or_default();
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

/// Reads an attribute, or their names; `None` where there is none or can be none.
fn get(
    read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Option<Vec<u8>>> {
    // Few files have any, and most of those have short ones.
    let mut short = [0; 256];
    match read(&mut short) {
        Ok(length) => Ok(Some(short.get(..length).unwrap_or_default().to_vec())),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(Errno::RANGE) => {
            let mut long = vec![0; MOST];
            let length = read(&mut long)?;
            long.truncate(length);
            Ok(Some(long))
        }
        Err(error) => Err(error),
    }
}

/// Whether a file system has taken an attribute.
enum Taken {
    Yes,
    No,
}

fn set(to: &OwnedFd, name: &CStr, value: &[u8]) -> rustix::io::Result<Taken> {
    match rustix::fs::fsetxattr(to, name, value, XattrFlags::empty()) {
        Ok(()) => Ok(Taken::Yes),
        // It has none, none so large (a full disk looks the same), or knows nobody by that id.
        Err(Errno::NOTSUP | Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG | Errno::RANGE) => {
            Ok(Taken::No)
        }
        Err(Errno::INVAL | Errno::OVERFLOW | Errno::PERM | Errno::ACCESS) => Ok(Taken::No),
        Err(error) => Err(error),
    }
}

fn take_away(file: &OwnedFd, name: &CStr) -> rustix::io::Result<()> {
    match rustix::fs::fremovexattr(file, name) {
        Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error),
    }
}
