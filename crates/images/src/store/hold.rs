//! Images in use: whoever makes a sandbox of one holds its directory, and nobody prunes it
//! meanwhile. The system lets go of what a killed process held.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Image, Store};
use crate::error::ImageError;

/// How often it is tried.
const TICK: Duration = Duration::from_millis(50);

/// How long somebody may take who is just removing an image: it is renamed, no more.
const REMOVING: Duration = Duration::from_secs(5);

/// What keeps an image from being pruned, while it lives.
#[derive(Debug)]
pub struct Hold {
    _directory: File,
}

impl Store {
    /// The image that [`Self::find`] finds, and what keeps it from being pruned.
    ///
    /// # Errors
    /// When there is none, or the store cannot be read.
    pub fn take(&self, name: &str) -> Result<(Image, Hold), ImageError> {
        let begun = Instant::now();
        loop {
            let image = self.find(name)?;
            let place = self.place.join(image.about.key.as_str());
            if let Some(directory) = shared(&place)? {
                return Ok((image, Hold { _directory: directory }));
            }
            if begun.elapsed() >= REMOVING {
                return Err(ImageError::Busy { lock: place, waited: REMOVING });
            }
            std::thread::sleep(TICK);
        }
    }
}

/// A directory that nobody prunes now; `None` if somebody does, or has.
fn shared(place: &Path) -> Result<Option<File>, ImageError> {
    let directory = match File::open(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(ImageError::system("open", place))?,
    };
    let locked = held(place, directory.try_lock_shared())?;
    // It may have been renamed before it was locked.
    Ok((locked && is_at(&directory, place)).then_some(directory))
}

/// A directory that nobody holds, and that nobody can hold while this lives; `None` if somebody
/// does.
pub(super) fn alone(place: &Path) -> Result<Option<File>, ImageError> {
    let directory = File::open(place).map_err(ImageError::system("open", place))?;
    Ok(held(place, directory.try_lock())?.then_some(directory))
}

fn held(place: &Path, locked: Result<(), TryLockError>) -> Result<bool, ImageError> {
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(ImageError::system("lock", place)(error)),
    }
}

fn is_at(directory: &File, place: &Path) -> bool {
    let known = |about: std::fs::Metadata| (about.dev(), about.ino());
    let here = directory.metadata().ok().map(known);
    here.is_some() && here == place.metadata().ok().map(known)
}
