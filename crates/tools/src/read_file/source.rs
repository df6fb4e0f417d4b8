//! Where bytes are read from: a file of the workspace, through the guest, or an
//! output that was kept here.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use cofferdam_guest_protocol::{EntryKind, FileError};
use cofferdam_sandbox::{Files, FilesError, Range};

use crate::outputs::{Outputs, read_part};
use crate::paths;
use crate::tools::Tools;
use crate::trouble::Trouble;

/// Where bytes are read from.
pub(super) enum Source {
    Workspace { files: Files, path: String },
    Kept { file: Arc<File>, path: String },
}

/// A part of a file.
pub(super) struct Part {
    pub(super) bytes: Bytes,
    /// The size of the whole.
    pub(super) size: u64,
}

impl Source {
    pub(super) fn open(tools: &Tools, path: &str) -> Result<Self, Trouble> {
        let Some(name) = Outputs::name(path) else {
            return Ok(Self::Workspace { files: tools.files(), path: path.to_owned() });
        };
        match tools.outputs.open(name) {
            Ok(file) => Ok(Self::Kept { file: Arc::new(file), path: path.to_owned() }),
            Err(error) => Err(Trouble::Failed(format!("{path}: no such output is kept: {error}"))),
        }
    }

    /// Reads a part.
    pub(super) async fn read(&self, offset: u64, limit: u64) -> Result<Part, Trouble> {
        match self {
            Self::Workspace { files, path } => {
                match files.read(path.as_str(), Range { offset, limit }).await {
                    Ok(content) => Ok(Part { bytes: content.bytes, size: content.stat.size }),
                    Err(error) => Err(explain(files, path, &error).await),
                }
            }
            Self::Kept { file, path } => {
                let reader = Arc::clone(file);
                let read = move || {
                    let bytes = read_part(&reader, offset, limit)?;
                    Ok((bytes, reader.metadata()?.len()))
                };
                let outcome = tokio::task::spawn_blocking(read).await;
                let outcome = outcome.unwrap_or_else(|error| Err(std::io::Error::other(error)));
                match outcome {
                    Ok((bytes, size)) => Ok(Part { bytes: bytes.into(), size }),
                    Err(error) => Err(Trouble::Failed(format!("{path}: {error}"))),
                }
            }
        }
    }
}

/// Says why a file cannot be read, and what to do instead.
pub(crate) async fn explain(files: &Files, path: &str, error: &FilesError) -> Trouble {
    match error {
        FilesError::File(FileError::NotFound) => Trouble::Failed(paths::missing(files, path).await),
        FilesError::File(FileError::NotFile) => {
            let kind = files.stat(path).await.map(|stat| stat.kind);
            Trouble::Failed(match kind {
                Ok(EntryKind::Directory) => {
                    format!("{path} is a directory; list_files shows what is in it")
                }
                Ok(EntryKind::Link) => format!("{path} is a link to something that is no file"),
                _ => format!("{path} is no regular file (a pipe, a socket or a device)"),
            })
        }
        other => Trouble::of_file(path, other),
    }
}
