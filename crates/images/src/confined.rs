//! A directory that layers are written into, and that no path leads out of.
//!
//! Every path is resolved by the kernel with the directory as its root: what links say, absolute
//! or with dots, is what it means to those who will live in it. Owners stay whoever unpacks, and
//! nothing gets a privilege of its files.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::Errno;

use crate::entries::{Fault, shown};
use crate::error::ImageError;

/// How deep directories may lie, links followed, and how long the path to one may be: what is
/// deeper could not be removed again by everybody.
const DEEPEST: usize = 200;
const LONGEST_PATH: usize = 3_000;

/// So often a path is resolved anew when the kernel saw a race, and a directory is read again that
/// is to be empty.
const TRIES: u32 = 100;

/// A path inside: no dots, no slash at its ends. The directory itself is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Inside(Vec<u8>);

impl Inside {
    /// What an archive's path means, if it means something inside.
    pub(crate) fn new(path: &[u8]) -> Result<Self, Fault> {
        if path.contains(&0) {
            return Err(Fault::entry(path, "its name has a zero in it"));
        }
        let mut parts = Vec::new();
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(Fault::entry(path, "its name leads out of the image")),
                part => parts.push(part),
            }
        }
        Ok(Self(parts.join(&b'/')))
    }

    /// The directory it is in and its name there; `None` for the root.
    pub(crate) fn split(&self) -> Option<(&[u8], &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        let slash = self.0.iter().rposition(|byte| *byte == b'/');
        Some(match slash {
            Some(slash) => (
                self.0.get(..slash).unwrap_or_default(),
                self.0.get(slash + 1..).unwrap_or_default(),
            ),
            None => (&[], &self.0),
        })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a name is given.
pub(crate) enum New<'a> {
    /// A directory, unless it is one already.
    Directory { mode: u32 },
    /// A file with this content.
    File { mode: u32, mtime: u64, size: u64, content: &'a mut dyn Read },
    /// A link with this text, which is for those who will live here.
    Symlink { text: &'a [u8] },
    /// Another name of a file.
    Link { to: &'a Inside },
}

/// The directory.
pub(crate) struct Confined {
    directory: OwnedFd,
    path: PathBuf,
    /// The parent that was used last: entries of one directory follow each other.
    last: Option<(Vec<u8>, Rc<OwnedFd>)>,
    buffer: Vec<u8>,
}

impl Confined {
    /// Opens an existing directory.
    pub(crate) fn open(path: &Path) -> Result<Self, ImageError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| ImageError::system("open", path)(error.into()))?;
        // As the kernel names it, without links.
        let path = name_of(&directory).map_err(ImageError::system("look at", path))?;
        Ok(Self { directory, path, last: None, buffer: vec![0; 64 << 10] })
    }

    /// Gives a name something new. What had the name is gone, unless both are directories.
    pub(crate) fn put(&mut self, path: &Inside, new: New<'_>) -> Result<(), Fault> {
        // The root is there, and stays as it is.
        let Some((parent, name)) = path.split() else { return Ok(()) };
        let parent = self.parent(parent)?;
        let parent = parent.as_fd();
        match new {
            New::Directory { mode } => {
                if !is_directory(parent, name) {
                    self.replacing(path, parent, || rustix::fs::mkdirat(parent, name, Mode::RWXU))?;
                }
                // Its owner can always look in, and remove what is in it.
                let mode = Mode::from_raw_mode(mode & 0o1777 | 0o700);
                rustix::fs::chmodat(parent, name, mode, AtFlags::empty())
                    .map_err(|error| self.failed("set the mode of", path, error))
            }
            New::File { mode, mtime, size, content } => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let open = || rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR);
                let file = File::from(self.replacing(path, parent, open)?);
                self.fill(path, &file, size, content)?;
                // Neither setuid nor setgid; its owner can always read it.
                rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777 | 0o400))
                    .and_then(|()| rustix::fs::futimens(&file, &changed(mtime)))
                    .map_err(|error| self.failed("set the mode of", path, error))
            }
            New::Symlink { text } => {
                if text.is_empty() || text.contains(&0) {
                    return Err(Fault::entry(path.as_bytes(), "it is a link to nothing"));
                }
                self.replacing(path, parent, || rustix::fs::symlinkat(text, parent, name))?;
                // Paths may go another way now.
                self.last = None;
                Ok(())
            }
            New::Link { to } => self.link(path, parent, name, to),
        }
    }

    fn link(
        &mut self,
        path: &Inside,
        parent: BorrowedFd<'_>,
        name: &[u8],
        to: &Inside,
    ) -> Result<(), Fault> {
        let nothing = || Fault::entry(path.as_bytes(), "it is a link to a file that is not there");
        let (directory, target) = to.split().ok_or_else(nothing)?;
        let directory = self.find(directory)?.ok_or_else(nothing)?;
        let about = rustix::fs::statat(&directory, target, AtFlags::SYMLINK_NOFOLLOW);
        let about = about.map_err(|_| nothing())?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile | FileType::Symlink => {}
            _ => return Err(Fault::entry(path.as_bytes(), "it is a link to what is no file")),
        }
        let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|there| there.st_ino == about.st_ino && there.st_dev == about.st_dev) {
            return Ok(());
        }
        self.replacing(path, parent, || {
            rustix::fs::linkat(&directory, target, parent, name, AtFlags::empty())
        })
    }

    /// Does something that needs a name to be free, and frees it if it is not.
    fn replacing<T>(
        &mut self,
        path: &Inside,
        parent: BorrowedFd<'_>,
        act: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Fault> {
        let done = match (act(), path.split()) {
            (Err(Errno::EXIST), Some((_, name))) => {
                self.last = None;
                remove(parent, name).map_err(|error| self.failed("replace", path, error))?;
                act()
            }
            (done, _) => done,
        };
        done.map_err(|error| self.failed("make", path, error))
    }

    fn fill(
        &mut self,
        path: &Inside,
        mut file: &File,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), Fault> {
        let mut left = size;
        while left > 0 {
            let read = content.read(&mut self.buffer)?;
            if read == 0 {
                return Err(Fault::bad("it was cut off"));
            }
            let bytes = self.buffer.get(..read).unwrap_or_default();
            file.write_all(bytes).map_err(|error| {
                Fault::Other(ImageError::system("write", &self.outside(path.as_bytes()))(error))
            })?;
            left = left.saturating_sub(read as u64);
        }
        Ok(())
    }

    /// Removes a name, if it is there.
    pub(crate) fn remove(&mut self, path: &Inside) -> Result<(), Fault> {
        let Some((parent, name)) = path.split() else { return Ok(()) };
        let Some(parent) = self.seek(parent)? else { return Ok(()) };
        self.last = None;
        remove(parent.as_fd(), name).map_err(|error| self.failed("remove", path, error))
    }

    /// Removes everything in a directory, if it is there.
    pub(crate) fn empty(&mut self, path: &Inside) -> Result<(), Fault> {
        let Some(directory) = self.seek(path.as_bytes())? else { return Ok(()) };
        self.last = None;
        empty(directory.as_fd(), b".").map_err(|error| self.failed("empty", path, error))
    }

    /// Whether a name is that of a file, and of no link to one.
    pub(crate) fn is_file(&mut self, path: &Inside) -> Result<bool, Fault> {
        let Some((parent, name)) = path.split() else { return Ok(false) };
        let Some(parent) = self.seek(parent)? else { return Ok(false) };
        let about = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let kind = about.map(|about| FileType::from_raw_mode(about.st_mode));
        Ok(kind.is_ok_and(|kind| kind == FileType::RegularFile))
    }

    /// When a directory was changed last, according to the archive. Programs keep lists of what
    /// is in directories and believe them by that.
    pub(crate) fn date(&mut self, path: &Inside, mtime: u64) -> Result<(), Fault> {
        let Some((parent, name)) = path.split() else { return Ok(()) };
        let Some(parent) = self.seek(parent)? else { return Ok(()) };
        if !is_directory(parent.as_fd(), name) {
            return Ok(());
        }
        rustix::fs::utimensat(&parent, name, &changed(mtime), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| self.failed("set the time of", path, error))
    }

    /// The directory with this path, made if it is not there.
    fn parent(&mut self, path: &[u8]) -> Result<Rc<OwnedFd>, Fault> {
        if let Some(found) = self.find(path)? {
            return Ok(found);
        }
        let mut above = self.find(b"")?;
        let mut so_far = Vec::new();
        for part in path.split(|byte| *byte == b'/') {
            if !so_far.is_empty() {
                so_far.push(b'/');
            }
            so_far.extend_from_slice(part);
            let mut found = self.find(&so_far)?;
            if let (None, Some(above)) = (&found, &above) {
                let mode = Mode::from_raw_mode(0o755);
                rustix::fs::mkdirat(above, part, mode)
                    .and_then(|()| rustix::fs::chmodat(above, part, mode, AtFlags::empty()))
                    // One that leads nowhere is still a name.
                    .map_err(|error| self.failed("make", &Inside(so_far.clone()), error))?;
                found = self.find(&so_far)?;
            }
            above = found;
        }
        above.ok_or_else(|| Fault::entry(path, "its directory cannot be made"))
    }

    /// The directory with this path, if it is there or could be.
    fn seek(&mut self, path: &[u8]) -> Result<Option<Rc<OwnedFd>>, Fault> {
        match self.find(path) {
            Err(Fault::Bad(_)) => Ok(None),
            found => found,
        }
    }

    /// The directory with this path, if it is there.
    fn find(&mut self, path: &[u8]) -> Result<Option<Rc<OwnedFd>>, Fault> {
        if let Some((_, found)) = self.last.as_ref().filter(|(last, _)| last == path) {
            return Ok(Some(Rc::clone(found)));
        }
        let asked = if path.is_empty() { b"." } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        let found = loop {
            let found = rustix::fs::openat2(&self.directory, asked, flags, Mode::empty(), resolve);
            match found {
                // Something on the machine was renamed meanwhile.
                Err(Errno::AGAIN | Errno::INTR) if tries < TRIES => tries += 1,
                found => break found,
            }
        };
        let found = match found {
            Ok(found) => Rc::new(found),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.failed("find", &Inside(path.to_vec()), error)),
        };
        self.check_depth(path, &found)?;
        self.last = Some((path.to_vec(), Rc::clone(&found)));
        Ok(Some(found))
    }

    /// Whether a directory lies neither too deep nor, against all rules, elsewhere.
    fn check_depth(&self, path: &[u8], found: &OwnedFd) -> Result<(), Fault> {
        let name = name_of(found);
        let real = name.as_deref().ok().and_then(|name| name.strip_prefix(&self.path).ok());
        let fits = real.is_some_and(|real| {
            real.components().count() <= DEEPEST && real.as_os_str().len() <= LONGEST_PATH
        });
        if fits { Ok(()) } else { Err(Fault::entry(path, "it lies too deep")) }
    }

    fn outside(&self, path: &[u8]) -> PathBuf {
        self.path.join(String::from_utf8_lossy(path).as_ref())
    }

    /// Who is to blame for what the system refused.
    fn failed(&self, doing: &'static str, path: &Inside, error: Errno) -> Fault {
        match error {
            Errno::LOOP
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::NAMETOOLONG
            | Errno::EXIST
            | Errno::NOENT
            | Errno::MLINK
            | Errno::ILSEQ
            | Errno::INVAL => {
                let source = io::Error::from(error);
                Fault::bad(format!("cannot {doing} {}: {source}", shown(path.as_bytes())))
            }
            error => {
                let path = self.outside(path.as_bytes());
                Fault::Other(ImageError::system(doing, &path)(error.into()))
            }
        }
    }
}

/// What the kernel calls an open file.
fn name_of(file: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn changed(mtime: u64) -> Timestamps {
    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let seconds = i64::try_from(mtime).unwrap_or(0);
    Timestamps { last_access: omitted, last_modification: Timespec { tv_sec: seconds, tv_nsec: 0 } }
}

fn is_directory(parent: BorrowedFd<'_>, name: &[u8]) -> bool {
    let about = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    about.is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::Directory)
}

/// Removes a name and all that is in it. Links are removed and not followed.
fn remove(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        Err(Errno::NOENT) => return Ok(()),
        done => return done,
    }
    empty(parent, name)?;
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Removes everything in a directory, without a list of it: it may be millions.
fn empty(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut listed = Dir::new(rustix::fs::openat(parent, name, flags, Mode::empty())?)?;
    // What is removed may hide something else from whoever is reading.
    for _ in 0..TRIES {
        let mut found = false;
        while let Some(entry) = listed.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                found = true;
                remove(listed.fd()?, name)?;
            }
        }
        if !found {
            return Ok(());
        }
        listed.rewind();
    }
    Err(Errno::NOTEMPTY)
}
