//! ONNX Runtime: the library that runs models.
//!
//! It is the user's, not ours: one beside the model goes first, then one of the
//! system. It stays loaded as long as the process lives; nothing of it is loaded before
//! somebody opens a model.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;

use crate::error::OpenError;
use crate::files::is_file;
use crate::trust::Guard;

/// How its file is called; often a version follows.
const NAME: &str = "libonnxruntime.so";
/// As the system knows it: with the version of its interface, and without.
const OF_THE_SYSTEM: [&str; 2] = ["libonnxruntime.so.1", NAME];

/// The library, once it is loaded. A process has one, whichever model came first.
static LOADED: Mutex<Option<Environment>> = Mutex::new(None);

/// Loads the library, if it is not loaded yet.
///
/// # Errors
/// When there is none, an old one, or one that cannot be trusted.
pub(crate) fn load(directory: &Path, guard: &Guard) -> Result<Environment, OpenError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*loaded {
        Some(environment) => Ok(environment.clone()),
        None => Ok(loaded.insert(find(directory, guard)?).clone()),
    }
}

fn find(directory: &Path, guard: &Guard) -> Result<Environment, OpenError> {
    let candidates: Vec<PathBuf> = match beside(directory) {
        // What somebody has put there is meant. The very file that was looked at is
        // loaded.
        Some(path) => {
            let real = guard.follow(&path)?;
            is_file(&real)?;
            vec![real]
        }
        None => OF_THE_SYSTEM.iter().map(PathBuf::from).collect(),
    };
    let mut causes = Vec::new();
    for candidate in candidates {
        match ort::init_from(&candidate) {
            Ok(environment) => {
                let environment = environment.with_name("cofferdam").with_telemetry(false).build();
                return environment.map_err(|error| OpenError::Library(error.to_string()));
            }
            Err(error) => causes.push(error.to_string()),
        }
    }
    Err(OpenError::Library(causes.join("; ")))
}

/// The library in a directory; the newest version where there are several.
fn beside(directory: &Path) -> Option<PathBuf> {
    let plain = directory.join(NAME);
    if plain.exists() {
        return Some(plain);
    }
    let entries = directory.read_dir().ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let versions = names.filter_map(|name| Some((version(&name)?, name)));
    let (_, newest) = versions.max()?;
    Some(directory.join(newest))
}

/// The numbers after the library's name; a backup has other things there.
fn version(name: &str) -> Option<Vec<u64>> {
    let numbers = name.strip_prefix(NAME)?.strip_prefix('.')?;
    numbers.split('.').map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_beside_the_model_is_found_with_and_without_a_version() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        assert_eq!(beside(place.path()), None);
        std::fs::write(path("libonnxruntime_providers_shared.so"), "").unwrap();
        assert_eq!(beside(place.path()), None);
        for name in ["libonnxruntime.so.1.24.0", "libonnxruntime.so.1.31.1", "libonnxruntime.so"] {
            std::fs::write(path(name), "").unwrap();
            assert_eq!(beside(place.path()), Some(path(name)));
        }
    }

    #[test]
    fn the_newest_version_goes_first_and_versions_are_numbers() {
        let place = tempfile::tempdir().unwrap();
        let path = |version: &str| place.path().join(format!("{NAME}.{version}"));
        // Each is newer than those before, however they are spelled.
        for version in ["1", "1.9.0", "1.9.1", "1.24.0", "1.100.0", "2", "10.0.0"] {
            std::fs::write(path(version), "").unwrap();
            assert_eq!(beside(place.path()), Some(path(version)));
        }
        for other in ["99.bak", "old", "", "99.", "99999999999999999999"] {
            std::fs::write(path(other), "").unwrap();
            assert_eq!(beside(place.path()), Some(path("10.0.0")), "{other:?}");
        }
    }
}
