//! An archive as it is written: entries one after the other into anything that
//! takes bytes, none of which is ever gone back to.
//!
//! There are two formats with the same entries. Nothing is written any more once
//! an [`Archive`] is dropped: only [`Archive::finish`] ends one, so that no reader
//! takes half an archive for a whole one.

use std::cell::Cell;
use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::error::BundleError;
use crate::tar_zst::TarZst;
use crate::zip_form::ZipForm;

/// What kind of archive is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A ZIP.
    #[default]
    Zip,
    /// A tar archive, compressed with Zstandard.
    TarZst,
}

/// An archive that is being written.
pub(crate) enum Archive<W: Write> {
    Zip(Box<ZipForm<W>>),
    TarZst(TarZst<W>),
}

/// An archive that is complete.
pub(crate) struct Finished<W> {
    pub(crate) out: W,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(format: Format, out: W) -> Result<Self, BundleError> {
        let counted = Counted { out, silent: Cell::new(false), bytes: 0, hash: Sha256::new() };
        Ok(match format {
            Format::Zip => Self::Zip(Box::new(ZipForm::new(counted))),
            Format::TarZst => Self::TarZst(TarZst::new(counted).map_err(BundleError::Output)?),
        })
    }

    pub(crate) fn directory(
        &mut self,
        path: &str,
        mode: u32,
        changed: u64,
    ) -> Result<(), BundleError> {
        // Its owner must be able to unpack into it.
        let mode = mode | 0o700;
        match self {
            Self::Zip(zip) => zip.directory(path, mode, changed),
            Self::TarZst(tar) => tar.directory(path, mode, changed),
        }
        .map_err(BundleError::Output)
    }

    pub(crate) fn link(
        &mut self,
        path: &str,
        target: &str,
        changed: u64,
    ) -> Result<(), BundleError> {
        match self {
            Self::Zip(zip) => zip.link(path, target, changed),
            Self::TarZst(tar) => tar.link(path, target, changed),
        }
        .map_err(BundleError::Output)
    }

    /// Begins a file, whose content of just this size is then written to what
    /// this returns.
    pub(crate) fn file(
        &mut self,
        path: &str,
        mode: u32,
        changed: u64,
        size: u64,
    ) -> Result<&mut dyn Write, BundleError> {
        match self {
            Self::Zip(zip) => zip.file(path, mode, changed, size),
            Self::TarZst(tar) => tar.file(path, mode, changed, size),
        }
        .map_err(BundleError::Output)
    }

    /// Ends the archive; after that it is complete. The comment is for formats
    /// that know one.
    pub(crate) fn finish(self, comment: &str) -> Result<Finished<W>, BundleError> {
        let counted = match self {
            Self::Zip(zip) => zip.finish(comment),
            Self::TarZst(tar) => tar.finish(),
        };
        let Counted { mut out, bytes, hash, .. } = counted.map_err(BundleError::Output)?;
        out.flush().map_err(BundleError::Output)?;
        Ok(Finished { out, bytes, sha256: hash.finalize().into() })
    }
}

/// Counts and hashes what goes through, and can be told to let nothing through.
pub(crate) struct Counted<W> {
    out: W,
    silent: Cell<bool>,
    bytes: u64,
    hash: Sha256,
}

impl<W> Counted<W> {
    /// Lets nothing through from here on.
    pub(crate) fn silence(&self) {
        self.silent.set(true);
    }
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
        for format in [Format::Zip, Format::TarZst] {
            let mut out = Vec::new();
            let mut archive = Archive::new(format, &mut out).unwrap();
            let noise: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
            archive.file("a", 0o644, 0, noise.len() as u64).unwrap().write_all(&noise).unwrap();
            archive.file("b", 0o644, 0, 1).unwrap().write_all(b"b").unwrap();
            drop(archive);
            assert!(out.len() > 1000, "the first file is there");
            match format {
                Format::Zip => {
                    let ends = [b"PK\x05\x06", b"PK\x01\x02"];
                    let end = out.windows(4).any(|bytes| ends.iter().any(|end| *end == bytes));
                    assert!(!end);
                }
                Format::TarZst => {
                    assert!(zstd::decode_all(out.as_slice()).is_err());
                }
            }
        }
    }

    #[test]
    fn what_is_finished_is_counted_and_hashed() {
        for format in [Format::Zip, Format::TarZst] {
            let mut archive = Archive::new(format, Vec::new()).unwrap();
            archive.file("a", 0o644, 0, 1).unwrap().write_all(b"a").unwrap();
            let finished = archive.finish("comment").unwrap();
            assert_eq!(finished.bytes, finished.out.len() as u64);
            let sha256: [u8; 32] = Sha256::digest(&finished.out).into();
            assert_eq!(finished.sha256, sha256);
        }
    }
}
