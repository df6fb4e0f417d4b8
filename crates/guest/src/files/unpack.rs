//! Unpacking a tar archive.
//!
//! Nothing in an archive is trusted. What leads out of the workspace, or is more
//! than files, directories and links, is left out with the reason; headers that
//! stand for others (long names) are read only up to a bound. What is there already
//! is lost only when all of its entry has come and is in its place.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cofferdam_guest_protocol::{CHUNK, FileError, FileReply};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::error::{self, LeftOut};
use super::resolve::{Relative, Workspace, stat_at};
use super::write::{NewFile, temporary_name};

/// Entries in an archive.
const MOST_ENTRIES: u64 = 1_000_000;

/// The longest header that stands for another, such as a long name.
const LONGEST_HEADER: u64 = 1 << 20;

type Input = std::io::BufReader<File>;

/// Unpacks the input into a directory.
pub(super) fn unpack(
    workspace: &Workspace,
    path: &[u8],
    input: BorrowedFd<'static>,
) -> Result<FileReply, FileError> {
    let start = workspace.relative(path)?;
    workspace.make_directories(&start)?;
    let input = File::from(input.try_clone_to_owned().map_err(|error| error::of_std(&error))?);
    let mut archive = Archive::new(std::io::BufReader::with_capacity(CHUNK, input));
    let mut unpack = Unpack {
        workspace,
        start,
        entries: 0,
        bytes: 0,
        left_out: LeftOut::default(),
        pending: Pending::default(),
    };
    let malformed = |error: std::io::Error| FileError::Archive(error.to_string());
    // Raw, because the library would read a long name of any length.
    for (entry, count) in archive.entries().map_err(malformed)?.raw(true).zip(0..) {
        if count == MOST_ENTRIES {
            return Err(FileError::Archive(format!("it has more than {MOST_ENTRIES} entries")));
        }
        unpack.take(entry.map_err(malformed)?)?;
    }
    // What is after the end of the archive is of no interest, but its sender is
    // not to fail.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).map_err(malformed)?;
    let Unpack { entries, bytes, left_out, .. } = unpack;
    Ok(FileReply::Archived { entries, bytes, skipped: left_out.into_list() })
}

/// What headers before an entry said of it.
#[derive(Debug, Default)]
struct Pending {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

struct Unpack<'w> {
    workspace: &'w Workspace,
    start: Relative,
    entries: u64,
    bytes: u64,
    left_out: LeftOut,
    pending: Pending,
}

/// Why an entry was not unpacked.
enum Problem {
    /// It is left out.
    LeftOut(String),
    /// Nothing more can be unpacked.
    Fatal(FileError),
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Self {
        match error {
            FileError::NoSpace => Self::Fatal(error),
            other => Self::LeftOut(other.to_string()),
        }
    }
}

impl From<Errno> for Problem {
    fn from(errno: Errno) -> Self {
        error::of(errno).into()
    }
}

fn left_out<T>(reason: &str) -> Result<T, Problem> {
    Err(Problem::LeftOut(reason.to_owned()))
}

impl Unpack<'_> {
    fn take(&mut self, mut entry: Entry<'_, Input>) -> Result<(), FileError> {
        let malformed = |error: std::io::Error| FileError::Archive(error.to_string());
        let kind = entry.header().entry_type();
        match kind {
            EntryType::GNULongName => {
                self.pending.path = Some(until_nul(read_header(&mut entry)?));
                return Ok(());
            }
            EntryType::GNULongLink => {
                self.pending.link = Some(until_nul(read_header(&mut entry)?));
                return Ok(());
            }
            EntryType::XHeader => return self.take_pax(&read_header(&mut entry)?),
            EntryType::XGlobalHeader => {
                read_header(&mut entry)?;
                return Ok(());
            }
            _ => {}
        }
        let pending = std::mem::take(&mut self.pending);
        let size = entry.header().entry_size().map_err(malformed)?;
        if pending.size.is_some_and(|pending| pending != size) {
            return Err(FileError::Archive("an entry is larger than 8 GiB".to_owned()));
        }
        let path = pending.path.unwrap_or_else(|| entry.path_bytes().into_owned());
        let link = pending.link.or_else(|| entry.link_name_bytes().map(|l| l.into_owned()));
        match self.place(&path, &link.unwrap_or_default(), &mut entry) {
            Ok(()) => self.entries += 1,
            Err(Problem::LeftOut(reason)) => self.left_out.add(&path, reason),
            Err(Problem::Fatal(error)) => return Err(error),
        }
        Ok(())
    }

    fn take_pax(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        for extension in PaxExtensions::new(bytes) {
            let extension = extension.map_err(|error| FileError::Archive(error.to_string()))?;
            match extension.key_bytes() {
                b"path" => self.pending.path = Some(extension.value_bytes().to_vec()),
                b"linkpath" => self.pending.link = Some(extension.value_bytes().to_vec()),
                b"size" => {
                    self.pending.size = extension.value().ok().and_then(|v| v.parse().ok());
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(FileError::Archive("it has sparse entries".to_owned()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Unpacks one entry.
    fn place(
        &mut self,
        path: &[u8],
        link: &[u8],
        entry: &mut Entry<'_, Input>,
    ) -> Result<(), Problem> {
        let names = inner_names(path)?;
        let mode = entry.header().mode().unwrap_or(0o644);
        let kind = entry.header().entry_type();
        let Some((name, above)) = names.split_last() else {
            // The directory itself.
            return if kind == EntryType::Directory { Ok(()) } else { left_out("it has no name") };
        };
        let parent = self.below(above)?;
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                let parent = self.workspace.make_directories(&parent)?;
                self.bytes += write_file(parent, name, mode, entry)?;
            }
            EntryType::Directory => {
                let directory = self.below(&names)?;
                let directory = self.workspace.make_directories(&directory)?;
                // Its owner must still be able to unpack into it.
                let mode = Mode::from_raw_mode(mode & 0o777 | 0o700);
                super::resolve::change_mode(directory.as_fd(), mode)?;
            }
            EntryType::Symlink => {
                if !stays_inside(&parent, link) {
                    return left_out("the link leads out of the workspace");
                }
                let parent = self.workspace.make_directories(&parent)?;
                put(parent.as_fd(), name, |name| rustix::fs::symlinkat(link, &parent, name))?;
            }
            EntryType::Link => self.hard_link(&parent, name, link)?,
            EntryType::Char | EntryType::Block => return left_out("a device"),
            EntryType::Fifo => return left_out("a pipe"),
            EntryType::GNUSparse => {
                if entry.header().as_gnu().is_some_and(tar::GnuHeader::is_extended) {
                    let reason = "it has sparse entries".to_owned();
                    return Err(Problem::Fatal(FileError::Archive(reason)));
                }
                return left_out("sparse");
            }
            _ => return left_out("an entry of an unknown kind"),
        }
        if mode & 0o7000 != 0 && kind != EntryType::Symlink {
            self.left_out.add(path, "its set-user-id, set-group-id or sticky bit");
        }
        Ok(())
    }

    /// The path of names below where the archive is unpacked.
    fn below(&self, names: &[&[u8]]) -> Result<Relative, FileError> {
        let mut path = self.start.prefix().to_vec();
        for name in names {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        self.workspace.relative(&path)
    }

    fn hard_link(&self, parent: &Relative, name: &[u8], target: &[u8]) -> Result<(), Problem> {
        let names = inner_names(target)?;
        let Some((target, above)) = names.split_last() else {
            return left_out("the link names nothing");
        };
        let source = self.below(above)?;
        let source =
            self.workspace.open_at(&source, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        let stat = stat_at(&source, target)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return left_out("the link is not to a file");
        }
        let parent = self.workspace.make_directories(parent)?;
        if stat_at(&parent, name).is_ok_and(|there| there.st_ino == stat.st_ino) {
            return Ok(());
        }
        let link =
            |name: &[u8]| rustix::fs::linkat(&source, *target, &parent, name, AtFlags::empty());
        put(parent.as_fd(), name, link)
    }
}

/// The names of a path in an archive, when it stays inside.
fn inner_names(path: &[u8]) -> Result<Vec<&[u8]>, Problem> {
    if path.starts_with(b"/") {
        return left_out("its path is absolute");
    }
    if path.contains(&0) {
        return left_out("its path is malformed");
    }
    let parts = path.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = parts.filter(|name| !matches!(*name, b"" | b".")).collect();
    if names.contains(&b"..".as_slice()) {
        return left_out("its path leads out");
    }
    Ok(names)
}

/// Whether a link in a directory of the workspace leads to a place inside it.
fn stays_inside(parent: &Relative, target: &[u8]) -> bool {
    if target.starts_with(b"/") || target.is_empty() || target.contains(&0) {
        return false;
    }
    let names = |path: &[u8]| {
        path.split(|byte| *byte == b'/')
            .filter(|name| !matches!(*name, b"" | b"."))
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    let mut depth = 0_usize;
    for name in names(parent.as_bytes()).into_iter().chain(names(target)) {
        if name == b".." {
            let Some(less) = depth.checked_sub(1) else { return false };
            depth = less;
        } else {
            depth += 1;
        }
    }
    true
}

/// Whether something that may be replaced has the name of an entry.
fn is_there(parent: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Problem> {
    match stat_at(parent, name) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            left_out("a directory of that name exists")
        }
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes something of a name, in the place of what may be there.
fn put(
    parent: BorrowedFd<'_>,
    name: &[u8],
    make: impl Fn(&[u8]) -> Result<(), Errno>,
) -> Result<(), Problem> {
    if !is_there(parent, name)? {
        return Ok(make(name)?);
    }
    let temporary = temporary_name()?;
    make(&temporary)?;
    let placed = rustix::fs::renameat(parent, temporary.as_slice(), parent, name);
    // It is still there when it was not renamed, or was another name of the same file.
    rustix::fs::unlinkat(parent, temporary.as_slice(), AtFlags::empty()).ok();
    Ok(placed?)
}

fn write_file(
    parent: OwnedFd,
    name: &[u8],
    mode: u32,
    entry: &mut Entry<'_, Input>,
) -> Result<u64, Problem> {
    let torn = |reason: String| Problem::Fatal(FileError::Archive(reason));
    let overwrite = is_there(parent.as_fd(), name)?;
    let size = entry.header().entry_size().map_err(|error| torn(error.to_string()))?;
    // Half a file is worse than none: it is gone again unless it is placed. Where there is
    // nothing to lose it has its name at once, which is sooner done.
    let mut new =
        if overwrite { NewFile::create(parent)? } else { NewFile::create_as(parent, name)? };
    let mut written = 0;
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = entry.read(&mut buffer).map_err(|error| torn(error.to_string()))?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        new.file.write_all(bytes).map_err(|error| error::of_std(&error))?;
        written += count as u64;
    }
    if written < size {
        return Err(torn("it ends in the middle of a file".to_owned()));
    }
    rustix::fs::fchmod(&new.file, Mode::from_raw_mode(mode & 0o777))?;
    if let Ok(modified) = entry.header().mtime() {
        let time = Timespec { tv_sec: i64::try_from(modified).unwrap_or(0), tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        // A time that the file system cannot hold is no reason to fail.
        rustix::fs::futimens(&new.file, &times).ok();
    }
    new.place(name, overwrite)?;
    Ok(written)
}

/// Reads an entry that stands for a header.
fn read_header(entry: &mut Entry<'_, Input>) -> Result<Vec<u8>, FileError> {
    let malformed = |error: std::io::Error| FileError::Archive(error.to_string());
    if entry.header().entry_size().map_err(malformed)? > LONGEST_HEADER {
        return Err(FileError::Archive("it has a name that is too long".to_owned()));
    }
    let mut bytes = Vec::new();
    entry.take(LONGEST_HEADER).read_to_end(&mut bytes).map_err(malformed)?;
    Ok(bytes)
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = memchr::memchr(0, &bytes) {
        bytes.truncate(end);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_stay_inside_are_taken() {
        let names = |path: &str| {
            inner_names(path.as_bytes())
                .ok()
                .map(|names| names.iter().map(|name| name.to_vec()).collect::<Vec<_>>())
        };
        assert_eq!(names("a/./b//c"), Some(vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]));
        assert_eq!(names("./"), Some(vec![]));
        assert_eq!(names("/etc/passwd"), None);
        assert_eq!(names("a/../../b"), None);
        assert_eq!(names("a\0b"), None);
    }
}
