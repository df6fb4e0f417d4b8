//! The file that an archive goes into: it appears whole, or stays as it was.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::draft::Draft;
use crate::error::BundleError;

/// Finds out whether an archive could be written to a file, for those who would
/// rather know it before the work. Nothing is left there.
///
/// # Errors
/// When there is no directory for it or this user may not write there, or when
/// something else than a file is in its place.
pub fn check_target(path: &Path) -> Result<(), BundleError> {
    Target::new(path).map(drop)
}

/// A file that is being written.
pub(crate) struct Target {
    path: PathBuf,
    draft: Draft,
}

impl Target {
    pub(crate) fn new(path: &Path) -> Result<Self, BundleError> {
        let error = |source| BundleError::target(path, &source);
        let Some(name) = path.file_name() else {
            return Err(error(io::Error::other("it has no file name")));
        };
        // Putting a file in the place of a device or a pipe helps nobody.
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(error(io::Error::other("something is there that is not a file")));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new("."));
        let draft = Draft::new(directory, name).map_err(error)?;
        Ok(Self { path: path.to_owned(), draft })
    }

    /// What is written to.
    pub(crate) fn file(&self) -> &File {
        self.draft.file()
    }

    /// Puts the file in its place.
    pub(crate) fn publish(self) -> Result<(), BundleError> {
        let Self { path, draft } = self;
        draft.publish(&path).map_err(|source| BundleError::target(&path, &source))
    }

    /// Why it cannot be written.
    pub(crate) fn error(&self, source: &io::Error) -> BundleError {
        BundleError::target(&self.path, source)
    }
}
