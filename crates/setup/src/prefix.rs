//! The prefix: ours, written by nobody else, and by one set-up at a time.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::SetupError;
use crate::lock::NotLocked;
use crate::recipe::{Part, part_of};

/// The prefix of a product whose files are in `home`, after all links: what is installed knows
/// its own path, and sandboxes see it under that one.
#[must_use]
pub fn prefix_in(home: &Path) -> PathBuf {
    let prefix = home.join("prefix");
    let parent = || home.canonicalize().map(|home| home.join("prefix"));
    prefix.canonicalize().or_else(|_| parent()).unwrap_or(prefix)
}

/// Makes the prefix, or checks that it is as we would have made it.
pub(crate) fn make(prefix: &Path) -> Result<(), SetupError> {
    // Its path goes into scripts that are run from anywhere.
    if !prefix.is_absolute() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not an absolute path");
        return Err(SetupError::system("install into", prefix)(source));
    }
    // What is above it may be the product's home, which is for nobody else.
    let above = prefix.parent().unwrap_or(prefix);
    let private = fs::DirBuilder::new().mode(0o700).recursive(true).create(above);
    private
        .and_then(|()| fs::create_dir_all(prefix))
        .map_err(SetupError::system("make", prefix))?;
    let about = prefix.metadata().map_err(SetupError::system("look at", prefix))?;
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(SetupError::NotOurs { path: prefix.to_owned() });
    }
    if about.permissions().mode() & 0o7777 != 0o755 {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(prefix, mode)
            .map_err(SetupError::system("set the permissions of", prefix))?;
    }
    Ok(())
}

/// Waits until no other set-up is under way, and keeps others away while the file is open, here
/// or in a program that inherited it.
pub(crate) fn lock(
    prefix: &Path,
    patience: Duration,
    stop: &AtomicBool,
    waits: &mut dyn FnMut(),
) -> Result<File, SetupError> {
    crate::lock::lock(prefix, patience, stop, waits).map_err(|failure| match failure {
        NotLocked::Stopped => SetupError::Stopped,
        NotLocked::Busy(lock) => SetupError::Busy { lock, waited: patience },
        NotLocked::System { doing, path, source } => SetupError::System { doing, path, source },
    })
}

/// The directories of parts, whole or not, in the order of their names.
pub(crate) fn places(prefix: &Path) -> Vec<(Part, PathBuf)> {
    // No prefix: no parts.
    let Ok(entries) = prefix.read_dir() else { return Vec::new() };
    let mut places: Vec<(Part, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| Some((part_of(entry.file_name().to_str()?)?, entry.path())))
        .collect();
    places.sort();
    places
}
