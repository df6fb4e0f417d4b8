//! One at a time: whoever changes a place of the product's has its lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the lock is tried.
const TICK: Duration = Duration::from_millis(50);

/// Why a place was not locked.
#[derive(Debug)]
pub enum NotLocked {
    /// Somebody wanted a stop meanwhile.
    Stopped,
    /// Somebody else has had it for as long as we waited.
    Busy(PathBuf),
    /// The system refused.
    System {
        /// What was tried.
        doing: &'static str,
        /// The lock.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Waits until nobody else is at work in a place, and keeps others away while the file is open,
/// here or in a program that inherited it. That it has to wait is told once.
///
/// # Errors
/// When it takes too long, or is stopped, or there can be no lock.
pub fn lock(
    place: &Path,
    patience: Duration,
    stop: &AtomicBool,
    waits: &mut dyn FnMut(),
) -> Result<File, NotLocked> {
    let path = place.join(".lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = match options.open(&path) {
        Ok(file) => file,
        Err(source) => return Err(NotLocked::System { doing: "open", path, source }),
    };
    let begun = Instant::now();
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => {
                return Err(NotLocked::System { doing: "lock", path, source });
            }
            Err(TryLockError::WouldBlock) => {}
        }
        if stop.load(Ordering::Relaxed) {
            return Err(NotLocked::Stopped);
        }
        if begun.elapsed() >= patience {
            return Err(NotLocked::Busy(path));
        }
        if !told {
            waits();
            told = true;
        }
        std::thread::sleep(TICK);
    }
}
