//! The output of a request: bytes gathered into long writes, and records.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;

use cofferdam_guest_protocol::{Entry, EntryKind, FileReply, FileStat, encode_record};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::error::LeftOut;

/// Bytes gathered before they are written.
const GATHERED: usize = 64 << 10;

/// The output.
pub(super) struct Output {
    fd: BorrowedFd<'static>,
    buffer: Vec<u8>,
}

impl Output {
    pub(super) fn new(fd: BorrowedFd<'static>) -> Self {
        Self { fd, buffer: Vec::new() }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() >= GATHERED {
            self.flush()?;
            write_all(self.fd, bytes)?;
            return Ok(bytes.len());
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= GATHERED {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        write_all(self.fd, &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Writes all of it.
pub(super) fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Records on their way out, up to a limit.
pub(super) struct Records {
    output: Output,
    limit: u32,
    sent: u32,
    /// What counts towards the limit: not the lines around a match.
    counted: u32,
    more: bool,
    pub(super) left_out: LeftOut,
}

impl Records {
    pub(super) fn new(fd: BorrowedFd<'static>, limit: u32) -> Self {
        let output = Output::new(fd);
        Self { output, limit, sent: 0, counted: 0, more: false, left_out: LeftOut::default() }
    }

    /// How many more may be sent.
    pub(super) fn room(&self) -> u32 {
        self.limit.saturating_sub(self.counted)
    }

    /// The limit left some out.
    pub(super) fn cut(&mut self) {
        self.more = true;
    }

    /// Sends an entry; false when the limit is reached.
    pub(super) fn send(&mut self, entry: &Entry) -> io::Result<bool> {
        if self.room() == 0 {
            self.more = true;
            return Ok(false);
        }
        let mut bytes = Vec::new();
        if encode_record(entry, &mut bytes).is_err() {
            self.left_out.add(&entry.path, "its path is too long");
            return Ok(true);
        }
        self.send_matches(&bytes, 1, 1)?;
        Ok(true)
    }

    /// Sends records that are encoded already; so many of them count.
    pub(super) fn send_matches(
        &mut self,
        bytes: &[u8],
        count: u32,
        counted: u32,
    ) -> io::Result<()> {
        self.sent = self.sent.saturating_add(count);
        self.counted = self.counted.saturating_add(counted);
        self.output.write_all(bytes)
    }

    pub(super) fn finish(mut self) -> io::Result<FileReply> {
        self.output.flush()?;
        let (records, more) = (self.sent, self.more);
        Ok(FileReply::Listed { records, more, unreadable: self.left_out.into_list() })
    }
}

/// What a file is, for the host.
pub(super) fn file_stat(stat: &Stat) -> FileStat {
    FileStat {
        kind: entry_kind(FileType::from_raw_mode(stat.st_mode)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        allocated: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
        permissions: stat.st_mode & 0o7777,
        modified_ns: i64::try_from(modified_ns(stat)).unwrap_or(i64::MAX),
    }
}

fn modified_ns(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

fn entry_kind(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}
