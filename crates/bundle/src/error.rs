//! Why there is no archive. Each error says what failed, and its source why.

use std::io;
use std::path::{Path, PathBuf};

use cofferdam_sandbox::FilesError;

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The sandbox did not send the workspace, or not all of it.
    #[error("cannot read the workspace")]
    Workspace(#[from] FilesError),
    /// What the sandbox sent cannot be understood.
    #[error("the sandbox sent a broken archive: {what}")]
    Broken {
        /// What is wrong with it.
        what: String,
    },
    /// The workspace has more in it than is handed over at once.
    #[error(
        "the workspace has more than {limit} {what}; leave some out with a .gitignore, or take \
         parts of it"
    )]
    TooMuch {
        /// How many are handed over.
        limit: u64,
        /// Of what.
        what: &'static str,
    },
    /// What receives the archive takes no more of it.
    #[error("cannot write the archive")]
    Output(#[source] io::Error),
    /// The archive's file cannot be written. What was there before is still there.
    #[error("cannot write {}", path.display())]
    Target {
        /// The file that was asked for.
        path: PathBuf,
        /// What the system says, in words.
        source: io::Error,
    },
    /// There is no room for the manifest until the archive's end.
    #[error("cannot keep the manifest in {}", std::env::temp_dir().display())]
    Spool(#[source] io::Error),
    /// Nobody waits for the archive any more.
    #[error("the archive was given up before its end")]
    Abandoned,
    /// The thread that makes the archive ended with a panic, or its runtime did.
    #[error("the archive's writer ended unexpectedly")]
    Ended,
}

impl BundleError {
    pub(crate) fn target(path: &Path, source: &io::Error) -> Self {
        Self::Target { path: path.to_owned(), source: in_words(source) }
    }

    pub(crate) fn spool(source: &io::Error) -> Self {
        Self::Spool(in_words(source))
    }
}

/// The system's errors that people meet here, in words.
fn in_words(error: &io::Error) -> io::Error {
    let words = match error.kind() {
        io::ErrorKind::NotFound => "its directory does not exist".to_owned(),
        io::ErrorKind::NotADirectory => "its directory is not one".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not write there".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "its file system is read-only".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        io::ErrorKind::FileTooLarge => "the file would be too large for its file system".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), words)
}
