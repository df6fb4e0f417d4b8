//! A tar archive as it is written, entry by entry, without going back.
//!
//! The library ends an archive when it is dropped, which would make a whole one of
//! half of it. Here only [`TarForm::finish`] ends one.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tar::{Builder, EntryType, Header};

/// What a tar archive is made of.
const BLOCK: u64 = 512;

/// A tar archive that is being written.
pub(crate) struct TarForm<W: Write> {
    builder: Option<Builder<Valve<W>>>,
    /// Content of the file begun last: what is still to come, and what fills its
    /// last block.
    left: u64,
    padding: u64,
}

impl<W: Write> TarForm<W> {
    pub(crate) fn new(out: W) -> Self {
        let valve = Valve { out, closed: Cell::new(false) };
        Self { builder: Some(Builder::new(valve)), left: 0, padding: 0 }
    }

    pub(crate) fn directory(&mut self, path: &[u8], mode: u32, changed: u64) -> io::Result<()> {
        self.end_file()?;
        let mut header = header(EntryType::Directory, mode, changed, 0);
        self.builder()?.append_data(&mut header, as_path(path), io::empty())
    }

    pub(crate) fn link(&mut self, path: &[u8], target: &[u8], changed: u64) -> io::Result<()> {
        self.end_file()?;
        let mut header = header(EntryType::Symlink, 0o777, changed, 0);
        self.builder()?.append_link(&mut header, as_path(path), as_path(target))
    }

    /// Begins a file, whose content of just this size is then written to this.
    pub(crate) fn file(
        &mut self,
        path: &[u8],
        mode: u32,
        changed: u64,
        size: u64,
    ) -> io::Result<()> {
        self.end_file()?;
        let mut header = header(EntryType::Regular, mode, changed, size);
        // The library writes the header alone, and the content comes after it.
        self.builder()?.append_data(&mut header, as_path(path), io::empty())?;
        self.left = size;
        self.padding = size.next_multiple_of(BLOCK) - size;
        Ok(())
    }

    /// Writes the end.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.end_file()?;
        let builder = self.builder.take().ok_or_else(ended)?;
        Ok(builder.into_inner()?.out)
    }

    fn builder(&mut self) -> io::Result<&mut Builder<Valve<W>>> {
        self.builder.as_mut().ok_or_else(ended)
    }

    fn end_file(&mut self) -> io::Result<()> {
        if self.left > 0 {
            return Err(io::Error::other("a file is shorter than was said"));
        }
        let zeros = [0; BLOCK as usize];
        let padding = usize::try_from(std::mem::take(&mut self.padding)).unwrap_or(0);
        self.builder()?.get_mut().write_all(zeros.get(..padding).unwrap_or_default())
    }
}

impl<W: Write> Write for TarForm<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if buffer.len() as u64 > self.left {
            return Err(io::Error::other("a file is longer than was said"));
        }
        let count = self.builder()?.get_mut().write(buffer)?;
        self.left -= count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.builder()?.get_mut().flush()
    }
}

impl<W: Write> Drop for TarForm<W> {
    fn drop(&mut self) {
        if let Some(builder) = &self.builder {
            builder.get_ref().closed.set(true);
        }
    }
}

/// Can be told to let nothing through.
struct Valve<W> {
    out: W,
    closed: Cell<bool>,
}

impl<W: Write> Write for Valve<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.closed.get() { Ok(buffer.len()) } else { self.out.write(buffer) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.closed.get() { Ok(()) } else { self.out.flush() }
    }
}

fn ended() -> io::Error {
    io::Error::other("the archive has ended")
}

fn header(kind: EntryType, mode: u32, changed: u64, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode & 0o777);
    header.set_mtime(changed);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
