//! The rest of outputs that were too long to show: files of the host, in a
//! directory that the product owns, named by the call.
//!
//! A kept output is byte for byte what came, up to [`MOST`] bytes; of a longer one
//! the beginning and the end are kept, with a line between them that says what is
//! missing. It is on disk before anybody is told of it. Until a call's result is in safe
//! hands there is also what another process needs to go on with it, under names that no
//! handle has: `17.taken`, `17.records`.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cofferdam_types::CallId;

/// Bytes kept of one output from its beginning.
pub(crate) const BEGINNING: u64 = 15 << 20;

/// Bytes kept of one output from its end, at least half of this, once it is
/// longer than its beginning.
pub(crate) const END: usize = 1 << 20;

/// How a model names a kept output.
const PREFIX: &str = "output:";

/// Keeps outputs.
#[derive(Debug)]
pub struct Outputs {
    directory: PathBuf,
}

impl Outputs {
    /// Keeps them in this directory of the host, which is made when it is needed.
    #[must_use]
    pub fn in_directory(path: PathBuf) -> Self {
        Self { directory: path }
    }

    /// What a model reads an output by.
    pub(crate) fn handle(name: &str) -> String {
        format!("{PREFIX}{name}")
    }

    /// The name in a handle; `None` when it is none. Names hold digits and dots
    /// only, so none leads anywhere else.
    pub(crate) fn name(handle: &str) -> Option<&str> {
        let name = handle.strip_prefix(PREFIX)?;
        let sound = name.split('.').all(|part| {
            !part.is_empty() && part.len() < 24 && part.bytes().all(|byte| byte.is_ascii_digit())
        });
        sound.then_some(name)
    }

    /// Makes the directory, unless it is there.
    pub(crate) fn make_directory(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)
    }

    /// Begins to keep an output.
    pub(crate) fn create(&self, name: &str) -> io::Result<Kept> {
        self.make_directory()?;
        let path = self.directory.join(name);
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(Kept { file, directory: self.directory.clone(), written: 0 })
    }

    /// Goes on with an output that an earlier process began to keep, behind this many bytes
    /// of it, which `held` is given. What it had written after them is cut off.
    pub(crate) fn reopen(
        &self,
        name: &str,
        written: u64,
        mut held: impl FnMut(&[u8]),
    ) -> io::Result<Kept> {
        let path = self.directory.join(name);
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut buffer = vec![0; 256 << 10];
        let mut left = written;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let piece = buffer.get_mut(..most).unwrap_or_default();
            file.read_exact(piece)?;
            held(piece);
            left -= piece.len() as u64;
        }
        file.set_len(written)?;
        Ok(Kept { file, directory: self.directory.clone(), written })
    }

    /// Where it is said how far the recording of this name is.
    pub(crate) fn taken(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.taken"))
    }

    /// Where the records of a call are kept.
    pub(crate) fn records(&self, call: CallId) -> PathBuf {
        self.directory.join(format!("{call}.records"))
    }

    /// Nobody goes on with a call any more. What cannot be removed takes room, no more.
    pub(crate) fn forget(&self, call: CallId) {
        std::fs::remove_file(self.taken(&call.to_string())).ok();
        std::fs::remove_file(self.records(call)).ok();
    }

    /// Opens what was kept under a handle, as an output's `rest` has it.
    ///
    /// # Errors
    /// When that is no handle, or nothing is kept under it.
    pub fn kept(&self, handle: &str) -> io::Result<File> {
        let name = Self::name(handle);
        self.open(name.ok_or_else(|| io::Error::other(format!("{handle:?} names no output")))?)
    }

    /// Opens an output that was kept.
    pub(crate) fn open(&self, name: &str) -> io::Result<File> {
        File::open(self.directory.join(name))
    }
}

/// An output that is being kept.
#[derive(Debug)]
pub(crate) struct Kept {
    file: File,
    directory: PathBuf,
    written: u64,
}

impl Kept {
    /// How many more bytes the beginning may have.
    pub(crate) fn room(&self) -> usize {
        usize::try_from(BEGINNING.saturating_sub(self.written)).unwrap_or(usize::MAX)
    }

    /// Adds to it. It goes into the page cache, which takes microseconds: not
    /// worth a thread of its own.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Puts it on disk, its name included; its length.
    pub(crate) async fn finish(self) -> io::Result<u64> {
        let Self { file, directory, written } = self;
        let sync = move || {
            file.sync_all()?;
            sync_directory(&directory)
        };
        tokio::task::spawn_blocking(sync).await.map_err(io::Error::other)??;
        Ok(written)
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A part of a file of ours.
pub(crate) fn read_part(mut file: &File, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_nothing_but_an_output() {
        assert_eq!(Outputs::name("output:17"), Some("17"));
        assert_eq!(Outputs::name("output:17.2"), Some("17.2"));
        for handle in [
            "17",
            "output:",
            "output:../17",
            "output:1/2",
            "output:.",
            "output:1..2",
            "output:17.taken",
            "output:17.records",
        ] {
            assert_eq!(Outputs::name(handle), None, "{handle}");
        }
    }
}
