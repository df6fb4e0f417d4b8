//! The ZIP as it is written: entries one after the other into anything that takes
//! bytes, none of which is ever gone back to.
//!
//! The library completes an archive when it is dropped, which would make a whole
//! one of half of it. Here nothing is written any more once an [`Archive`] is
//! dropped: only [`Archive::finish`] ends one.

use std::cell::Cell;
use std::io::{self, Write};

use sha2::{Digest, Sha256};
use zip::result::ZipError;
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

use crate::error::BundleError;
use crate::moment;

/// From this size on an entry is written with sizes of 64 bits. A little below
/// 4 GiB, because what cannot be compressed becomes longer.
const LARGE: u64 = 0xff00_0000;

/// A ZIP that is being written.
pub(crate) struct Archive<W: Write> {
    writer: Option<ZipWriter<StreamWriter<Counted<W>>>>,
}

/// A ZIP that is complete.
pub(crate) struct Finished<W> {
    pub(crate) out: W,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        let counted = Counted { out, silent: Cell::new(false), bytes: 0, hash: Sha256::new() };
        Self { writer: Some(ZipWriter::new_stream(counted)) }
    }

    pub(crate) fn directory(
        &mut self,
        path: &str,
        mode: u32,
        changed: u64,
    ) -> Result<(), BundleError> {
        // Its owner must be able to unpack into it.
        let options = options(mode | 0o700, changed);
        self.writer()?.add_directory(path, options).map_err(failed)
    }

    pub(crate) fn link(
        &mut self,
        path: &str,
        target: &str,
        changed: u64,
    ) -> Result<(), BundleError> {
        self.writer()?.add_symlink(path, target, options(0o777, changed)).map_err(failed)
    }

    /// Begins a file, whose content is then written to what this returns.
    pub(crate) fn file(
        &mut self,
        path: &str,
        mode: u32,
        changed: u64,
        size: u64,
    ) -> Result<&mut impl Write, BundleError> {
        let options = options(mode, changed).large_file(size >= LARGE);
        let writer = self.writer()?;
        writer.start_file(path, options).map_err(failed)?;
        Ok(writer)
    }

    /// Writes the archive's directory; after that it is complete.
    pub(crate) fn finish(mut self, comment: &str) -> Result<Finished<W>, BundleError> {
        self.writer()?.set_comment(comment).map_err(failed)?;
        let Some(writer) = self.writer.take() else { return Err(BundleError::Ended) };
        let counted = writer.finish().map_err(failed)?.into_inner();
        let mut out = counted.out;
        out.flush().map_err(BundleError::Output)?;
        let sha256 = counted.hash.finalize().into();
        Ok(Finished { out, bytes: counted.bytes, sha256 })
    }

    fn writer(&mut self) -> Result<&mut ZipWriter<StreamWriter<Counted<W>>>, BundleError> {
        self.writer.as_mut().ok_or(BundleError::Ended)
    }
}

impl<W: Write> Drop for Archive<W> {
    fn drop(&mut self) {
        if let Some(out) = self.writer.as_ref().and_then(ZipWriter::get_ref) {
            out.get_ref().silent.set(true);
        }
    }
}

fn options(mode: u32, changed: u64) -> SimpleFileOptions {
    SimpleFileOptions::DEFAULT
        .unix_permissions(mode & 0o777)
        .last_modified_time(moment::of(changed))
}

fn failed(error: ZipError) -> BundleError {
    BundleError::Output(match error {
        ZipError::Io(error) => error,
        other => other.into(),
    })
}

/// Counts and hashes what goes through, and can be told to let nothing through.
struct Counted<W> {
    out: W,
    silent: Cell<bool>,
    bytes: u64,
    hash: Sha256,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.silent.get() {
            return Ok(buffer.len());
        }
        let count = self.out.write(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.silent.get() { Ok(()) } else { self.out.flush() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_is_given_up_gets_no_end() {
        let mut out = Vec::new();
        let mut archive = Archive::new(&mut out);
        archive.file("a", 0o644, 0, 1).unwrap().write_all(b"a").unwrap();
        archive.file("b", 0o644, 0, 1).unwrap().write_all(b"b").unwrap();
        drop(archive);
        assert!(out.len() > 30, "the first file is there");
        let end = out.windows(4).any(|bytes| bytes == b"PK\x05\x06" || bytes == b"PK\x01\x02");
        assert!(!end, "{}", out.escape_ascii());
    }

    #[test]
    fn what_is_finished_is_counted_and_hashed() {
        let mut archive = Archive::new(Vec::new());
        archive.file("a", 0o644, 0, 1).unwrap().write_all(b"a").unwrap();
        let finished = archive.finish("comment").unwrap();
        assert_eq!(finished.bytes, finished.out.len() as u64);
        let sha256: [u8; 32] = Sha256::digest(&finished.out).into();
        assert_eq!(finished.sha256, sha256);
    }
}
