//! An archive as a ZIP.
//!
//! The library completes an archive when it is dropped, which would make a whole
//! one of half of it; what it then writes goes nowhere.

use std::io::{self, Write};

use zip::result::ZipError;
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

use crate::archive::Counted;
use crate::moment;

/// From this size on an entry is written with sizes of 64 bits. A little below
/// 4 GiB, because what cannot be compressed becomes longer.
const LARGE: u64 = 0xff00_0000;

type Writer<W> = ZipWriter<StreamWriter<Counted<W>>>;

/// A ZIP that is being written.
pub(crate) struct ZipForm<W: Write> {
    writer: Option<Writer<W>>,
}

impl<W: Write> ZipForm<W> {
    pub(crate) fn new(out: Counted<W>) -> Self {
        Self { writer: Some(ZipWriter::new_stream(out)) }
    }

    pub(crate) fn directory(&mut self, path: &str, mode: u32, changed: u64) -> io::Result<()> {
        self.writer()?.add_directory(path, options(mode, changed)).map_err(failed)
    }

    pub(crate) fn link(&mut self, path: &str, target: &str, changed: u64) -> io::Result<()> {
        self.writer()?.add_symlink(path, target, options(0o777, changed)).map_err(failed)
    }

    pub(crate) fn file(
        &mut self,
        path: &str,
        mode: u32,
        changed: u64,
        size: u64,
    ) -> io::Result<&mut dyn Write> {
        let options = options(mode, changed).large_file(size >= LARGE);
        let writer = self.writer()?;
        writer.start_file(path, options).map_err(failed)?;
        Ok(writer)
    }

    /// Writes the archive's directory.
    pub(crate) fn finish(mut self, comment: &str) -> io::Result<Counted<W>> {
        self.writer()?.set_comment(comment).map_err(failed)?;
        let writer = self.writer.take().ok_or_else(ended)?;
        Ok(writer.finish().map_err(failed)?.into_inner())
    }

    fn writer(&mut self) -> io::Result<&mut Writer<W>> {
        self.writer.as_mut().ok_or_else(ended)
    }
}

impl<W: Write> Drop for ZipForm<W> {
    fn drop(&mut self) {
        if let Some(out) = self.writer.as_ref().and_then(ZipWriter::get_ref) {
            out.get_ref().silence();
        }
    }
}

fn options(mode: u32, changed: u64) -> SimpleFileOptions {
    SimpleFileOptions::DEFAULT
        .unix_permissions(mode & 0o777)
        .last_modified_time(moment::of(changed))
}

fn failed(error: ZipError) -> io::Error {
    match error {
        ZipError::Io(error) => error,
        other => other.into(),
    }
}

fn ended() -> io::Error {
    io::Error::other("the archive has ended")
}
