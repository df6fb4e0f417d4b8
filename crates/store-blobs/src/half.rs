//! A file that is being written and is not yet in its place.
//!
//! It is locked as long as its writer lives. A lock goes with its process, however
//! that ends, so what nobody has locked was left behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::checked::hexadecimal;
use crate::shelf::{Shelf, make_directories};

/// How a half file's name ends.
const END: &str = ".part";

/// Tries to be in time where somebody removes empty directories meanwhile.
const TRIES: u32 = 100;

/// A half file. Dropping it removes it.
pub(crate) struct Half {
    file: File,
    path: PathBuf,
    hash: Sha256,
    bytes: u64,
    published: bool,
}

impl Half {
    /// A new one in a directory.
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        loop {
            let path = directory.join(format!("{}{END}", Uuid::now_v7()));
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let file = made?;
            let half = Self { file, path, hash: Sha256::new(), bytes: 0, published: false };
            half.file.lock()?;
            // Somebody may have swept it away before it was locked.
            if half.file.metadata()?.nlink() > 0 {
                return Ok(half);
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes it durable and puts it at a path in a shelf; returns its length and hash.
    pub(crate) fn publish(mut self, shelf: &Shelf, inner: &Path) -> io::Result<(u64, String)> {
        self.file.sync_all()?;
        let target = shelf.root().join(inner);
        let parent = target.parent().unwrap_or(shelf.root());
        let mut tries = 0;
        loop {
            make_directories(parent)?;
            match fs::rename(&self.path, &target) {
                Ok(()) => break,
                // Whoever removed the last blob of a directory removed that too.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    tries += 1
                }
                Err(error) => return Err(error),
            }
        }
        self.published = true;
        shelf.settle(parent)?;
        Ok((self.bytes, hexadecimal(std::mem::take(&mut self.hash))))
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if !self.published {
            // What cannot be removed now is left to the next sweep.
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Removes half files that nobody writes any more; says how many.
pub(crate) fn sweep(directory: &Path) -> io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != "part") {
            continue;
        }
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if file.try_lock().is_ok() && fs::remove_file(&path).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}
