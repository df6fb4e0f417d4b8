//! The records of an aide's command as they came, kept until their call's result is in safe
//! hands: for whoever goes on with the call after this process. They are made into the same
//! outputs again from their beginning.
//!
//! The file has the bytes of stdout and nothing else, so that its length says how many were
//! taken, whenever the process dies. Few bytes, which the guest keeps by itself, are in none.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;

use cofferdam_sandbox::Offsets;
use cofferdam_types::CallId;

use crate::outputs::Outputs;

/// Bytes held before anything is put on disk, fewer than a guest is told of as taken.
const HELD: usize = 48_000;

/// Bytes kept of one call. What comes of more than these cannot be taken up.
const MOST: u64 = 64 << 20;

/// Bytes that are read again at once.
const PIECE: u64 = 256 << 10;

/// Records that are being kept.
pub(crate) struct Spool {
    outputs: Arc<Outputs>,
    call: CallId,
    held: Vec<u8>,
    file: Option<File>,
    /// Bytes in the file, and how many of them were read again.
    length: u64,
    read: u64,
    /// Nothing more is kept.
    over: bool,
}

impl Spool {
    /// For a call that begins.
    pub(crate) fn new(outputs: &Arc<Outputs>, call: CallId) -> Self {
        let (outputs, held) = (Arc::clone(outputs), Vec::new());
        Self { outputs, call, held, file: None, length: 0, read: 0, over: false }
    }

    /// With what an earlier process had taken of a call.
    pub(crate) fn resume(outputs: &Arc<Outputs>, call: CallId) -> Self {
        let mut spool = Self::new(outputs, call);
        let options = OpenOptions::new().read(true).write(true).open(outputs.records(call));
        let found = options.and_then(|file| Ok((file.metadata()?.len(), file)));
        if let Ok((length, file)) = found {
            (spool.length, spool.file) = (length, Some(file));
        }
        spool
    }

    /// What of the command's output is here. Of stderr nothing is, nor is any of it missed.
    pub(crate) fn offsets(&self) -> Offsets {
        Offsets { stdout: self.length, stderr: 0 }
    }

    /// Some more of what an earlier process had taken; `None` once there is no more of it.
    pub(crate) fn again(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file.as_ref().filter(|_| self.read < self.length) else {
            return Ok(None);
        };
        let length = (self.length - self.read).min(PIECE);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut bytes, self.read)?;
        self.read += length;
        Ok(Some(bytes))
    }

    /// Keeps what was just taken.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.over {
            return;
        }
        let kept = match &self.file {
            Some(_) => self.write(bytes),
            None => {
                self.held.extend_from_slice(bytes);
                if self.held.len() <= HELD {
                    return;
                }
                self.create()
            }
        };
        // What is in the file is a beginning, also where it was written only in part.
        self.over = kept.is_err() || self.length >= MOST;
    }

    fn create(&mut self) -> io::Result<()> {
        self.outputs.make_directory()?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true).mode(0o600);
        self.file = Some(options.open(self.outputs.records(self.call))?);
        let held = std::mem::take(&mut self.held);
        self.write(&held)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(bytes, self.length)?;
        self.length += bytes.len() as u64;
        self.read = self.length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_taken_is_read_again_whenever_the_process_died() {
        let directory = tempfile::tempdir().unwrap();
        let outputs = Arc::new(Outputs::in_directory(directory.path().join("outputs")));
        let whole: Vec<u8> = (0..900_000_u32).map(|at| (at % 251) as u8).collect();
        let mut taken = 0;
        for life in 0..5 {
            let mut spool = Spool::resume(&outputs, CallId(7));
            let mut read = Vec::new();
            while let Some(bytes) = spool.again().unwrap() {
                read.extend(bytes);
            }
            assert_eq!(read, whole[..taken], "life {life}");
            assert_eq!(spool.offsets().stdout, taken as u64);
            for piece in whole[taken..].chunks(30_000).take(6) {
                spool.push(piece);
                assert_eq!(spool.again().unwrap(), None);
            }
            taken += 180_000;
        }
        outputs.forget(CallId(7));
        assert_eq!(Spool::resume(&outputs, CallId(7)).offsets(), Offsets::default());
    }

    #[test]
    fn little_is_kept_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let outputs = Arc::new(Outputs::in_directory(directory.path().join("outputs")));
        let mut spool = Spool::new(&outputs, CallId(7));
        spool.push(&[0; HELD]);
        assert!(!directory.path().join("outputs").exists());
    }
}
