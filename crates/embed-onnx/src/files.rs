//! The files of a model: where they are, and what is in them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::trust::Guard;

/// Bytes of a model.
const LONGEST_MODEL: u64 = 1 << 30;
/// Bytes of a tokenizer.
const LONGEST_TOKENIZER: u64 = 64 << 20;

/// What is in the files of a model.
pub(crate) struct Files {
    /// Where they are; the library may be there too.
    pub(crate) directory: PathBuf,
    pub(crate) model: (PathBuf, Vec<u8>),
    pub(crate) tokenizer: (PathBuf, Vec<u8>),
}

impl Files {
    /// Reads a model and its tokenizer.
    ///
    /// # Errors
    /// When one is not there, or cannot be read or trusted.
    pub(crate) fn read(path: &Path, guard: &Guard) -> Result<Self, OpenError> {
        let (directory, model) = match (path.is_dir(), path.parent(), path.file_name()) {
            (false, Some(parent), Some(name)) => {
                let directory = guard.follow(parent)?;
                let model = directory.join(name);
                (directory, model)
            }
            _ => {
                let directory = guard.follow(path)?;
                let model = in_directory(&directory)?;
                (directory, model)
            }
        };
        let tokenizer = directory.join("tokenizer.json");
        // What a link leads to may have any name; the others are beside the link.
        let real = guard.follow(&model)?;
        is_file(&real)?;
        // The small one first: it is the one that is forgotten.
        let words = read(&guard.follow(&tokenizer)?, LONGEST_TOKENIZER)?;
        let content = read(&real, LONGEST_MODEL)?;
        Ok(Self { directory, model: (model, content), tokenizer: (tokenizer, words) })
    }
}

/// The model of a directory: `model.onnx`, else the only one there is.
fn in_directory(path: &Path) -> Result<PathBuf, OpenError> {
    let usual = path.join("model.onnx");
    if usual.exists() {
        return Ok(usual);
    }
    let unreadable = |source| OpenError::Unreadable { path: path.to_owned(), source };
    let mut found = Vec::new();
    for entry in path.read_dir().map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "onnx") {
            found.push(file);
        }
    }
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only),
        (found, _) => Err(OpenError::WhichModel { path: path.to_owned(), found }),
    }
}

/// Opening a pipe waits for somebody to write, and a device might never end.
pub(crate) fn is_file(path: &Path) -> Result<(), OpenError> {
    let unreadable = |source| OpenError::Unreadable { path: path.to_owned(), source };
    match std::fs::metadata(path).map_err(unreadable)?.is_file() {
        true => Ok(()),
        false => Err(unreadable(std::io::Error::other("it is no regular file"))),
    }
}

fn read(path: &Path, longest: u64) -> Result<Vec<u8>, OpenError> {
    let unreadable = |source| OpenError::Unreadable { path: path.to_owned(), source };
    is_file(path)?;
    let file = File::open(path).map_err(unreadable)?;
    let mut content = Vec::new();
    file.take(longest + 1).read_to_end(&mut content).map_err(unreadable)?;
    match content.len() as u64 > longest {
        true => Err(OpenError::TooLong { path: path.to_owned(), most_mib: longest >> 20 }),
        false => Ok(content),
    }
}
