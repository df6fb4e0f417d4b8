//! An archive as a tar archive that is compressed with Zstandard.

use std::io::{self, Write};

use zstd::stream::write::Encoder;

use crate::archive::Counted;
use crate::tar_form::TarForm;

/// How hard to compress: about as fast as the sandbox sends.
const LEVEL: i32 = 3;

/// A compressed tar archive that is being written. Neither of its layers gets an
/// end when it is dropped.
pub(crate) struct TarZst<W: Write>(TarForm<Encoder<'static, Counted<W>>>);

impl<W: Write> TarZst<W> {
    pub(crate) fn new(out: Counted<W>) -> io::Result<Self> {
        let mut encoder = Encoder::new(out, LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Self(TarForm::new(encoder)))
    }

    pub(crate) fn directory(&mut self, path: &str, mode: u32, changed: u64) -> io::Result<()> {
        self.0.directory(path.as_bytes(), mode, changed)
    }

    pub(crate) fn link(&mut self, path: &str, target: &str, changed: u64) -> io::Result<()> {
        self.0.link(path.as_bytes(), target.as_bytes(), changed)
    }

    pub(crate) fn file(
        &mut self,
        path: &str,
        mode: u32,
        changed: u64,
        size: u64,
    ) -> io::Result<&mut dyn Write> {
        self.0.file(path.as_bytes(), mode, changed, size)?;
        Ok(&mut self.0)
    }

    pub(crate) fn finish(self) -> io::Result<Counted<W>> {
        self.0.finish()?.finish()
    }
}
