//! ONNX Runtime: the library that runs models.
//!
//! It is the user's, not ours: one beside the model goes first, then one of the
//! system. It stays loaded as long as the process lives; nothing of it is loaded before
//! somebody opens a model.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;

use crate::error::OpenError;

/// How its file is called; often a version follows.
const NAME: &str = "libonnxruntime.so";
/// As the system knows it: with the version of its interface, and without.
const OF_THE_SYSTEM: [&str; 2] = ["libonnxruntime.so.1", NAME];

/// The library, once it is loaded. A process has one, whichever model came first.
static LOADED: Mutex<Option<Environment>> = Mutex::new(None);

/// Loads the library, if it is not loaded yet.
///
/// # Errors
/// When there is none, or an old one.
pub(crate) fn load(directory: &Path) -> Result<Environment, OpenError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*loaded {
        Some(environment) => Ok(environment.clone()),
        None => Ok(loaded.insert(find(directory)?).clone()),
    }
}

fn find(directory: &Path) -> Result<Environment, OpenError> {
    let beside = beside(directory);
    let candidates: Vec<PathBuf> = match beside {
        // What somebody has put there is meant.
        Some(path) => vec![path],
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

/// The library in a directory; the newest by its name where there are several.
fn beside(directory: &Path) -> Option<PathBuf> {
    let plain = directory.join(NAME);
    if plain.exists() {
        return std::path::absolute(plain).ok();
    }
    let versioned = format!("{NAME}.");
    let entries = directory.read_dir().ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let newest = names.filter(|name| name.starts_with(&versioned)).max()?;
    std::path::absolute(directory.join(newest)).ok()
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
}
