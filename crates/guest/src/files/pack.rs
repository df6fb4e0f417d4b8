//! Packing a tree into a tar archive.
//!
//! Paths in it are relative to what is packed, so that unpacking into the same
//! directory is the reverse.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cofferdam_guest_protocol::{FileError, FileReply};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use super::error::{self, LeftOut};
use super::records::Output;
use super::resolve::{Workspace, stat_at};
use super::walk::{Scope, Walk};

/// A file that claims to be this large, and so many times larger than what it
/// takes on disk, is nearly all holes.
const LARGE: u64 = 1 << 30;
const HOLLOW: u64 = 64;

/// Sends an archive of a directory or a file.
pub(super) fn pack(
    workspace: &Workspace,
    path: &[u8],
    respect_ignore: bool,
    output: BorrowedFd<'static>,
) -> Result<FileReply, FileError> {
    let start = workspace.relative(path)?;
    let mut pack = Pack {
        builder: Builder::new(Output::new(output)),
        entries: 0,
        bytes: 0,
        left_out: LeftOut::default(),
    };
    let scope = if respect_ignore { Scope::NotIgnored } else { Scope::Everything };
    let mut left_out = LeftOut::default();
    match Walk::new(workspace, &start, scope, &mut left_out) {
        Ok(mut walk) => {
            while let Some(found) = walk.step(&mut left_out) {
                let place = walk.place().map_err(error::of)?;
                pack.add(place, found.name.to_bytes(), &found.path, &mut left_out)?;
            }
        }
        Err(FileError::NotDirectory) => {
            let (place, name) = workspace.open_parent(&start)?;
            pack.add(place.as_fd(), name, name, &mut left_out)?;
        }
        Err(other) => return Err(other),
    }
    pack.left_out = left_out;
    pack.finish().map_err(|error| error::of_std(&error))
}

struct Pack {
    builder: Builder<Output>,
    entries: u64,
    bytes: u64,
    left_out: LeftOut,
}

impl Pack {
    /// Adds something; what cannot be added is left out with the reason.
    fn add(
        &mut self,
        place: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        left_out: &mut LeftOut,
    ) -> Result<(), FileError> {
        match self.try_add(place, name, path, left_out) {
            Ok(()) => Ok(()),
            Err(Problem::Entry(Errno::NOENT)) => Ok(()),
            Err(Problem::Entry(errno)) => {
                left_out.add(path, errno);
                Ok(())
            }
            Err(Problem::Output(error)) => Err(error::of_std(&error)),
        }
    }

    fn try_add(
        &mut self,
        place: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        left_out: &mut LeftOut,
    ) -> Result<(), Problem> {
        let in_archive = Path::new(OsStr::from_bytes(path));
        let stat = stat_at(place, name).map_err(Problem::Entry)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let mut header = header_of(&stat);
        match kind {
            FileType::RegularFile => return self.add_file(place, name, path, left_out),
            FileType::Directory => {
                header.set_entry_type(EntryType::Directory);
                self.builder.append_data(&mut header, in_archive, io::empty())?;
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(place, name, Vec::new());
                let target = target.map_err(Problem::Entry)?.into_bytes();
                header.set_entry_type(EntryType::Symlink);
                let target = Path::new(OsStr::from_bytes(&target));
                self.builder.append_link(&mut header, in_archive, target)?;
            }
            other => {
                left_out.add(path, what(other));
                return Ok(());
            }
        }
        self.entries += 1;
        Ok(())
    }

    fn add_file(
        &mut self,
        place: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        left_out: &mut LeftOut,
    ) -> Result<(), Problem> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(place, name, flags, Mode::empty()).map_err(Problem::Entry)?;
        let stat = rustix::fs::fstat(&file).map_err(Problem::Entry)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::RegularFile {
            left_out.add(path, what(kind));
            return Ok(());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        if size > LARGE && size / HOLLOW > allocated {
            left_out.add(path, "sparse");
            return Ok(());
        }
        let mut header = header_of(&stat);
        header.set_size(size);
        let mut content = Content { file: File::from(file), left: size, short: false };
        let in_archive = Path::new(OsStr::from_bytes(path));
        self.builder.append_data(&mut header, in_archive, &mut content)?;
        if content.short {
            left_out.add(path, "it became shorter while it was read; the rest is zeros");
        }
        self.entries += 1;
        self.bytes += size;
        Ok(())
    }

    fn finish(mut self) -> io::Result<FileReply> {
        self.builder.finish()?;
        self.builder.get_mut().flush()?;
        let (entries, bytes) = (self.entries, self.bytes);
        Ok(FileReply::Archived { entries, bytes, skipped: self.left_out.into_list() })
    }
}

/// Why something was not added.
enum Problem {
    /// It cannot be read.
    Entry(Errno),
    /// The archive cannot be written.
    Output(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn header_of(stat: &Stat) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(stat.st_mode & 0o777);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}

fn what(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "not a file, directory or link",
    }
}

/// A file's content, of the length that the header has announced, whatever
/// happens to the file meanwhile.
struct Content {
    file: File,
    left: u64,
    short: bool,
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(room) = buffer.get_mut(..most) else { return Ok(0) };
        if room.is_empty() {
            return Ok(0);
        }
        let mut count = if self.short { 0 } else { self.file.read(room).unwrap_or(0) };
        if count == 0 {
            self.short = true;
            room.fill(0);
            count = room.len();
        }
        self.left -= count as u64;
        Ok(count)
    }
}
