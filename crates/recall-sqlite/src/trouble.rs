//! What SQLite's errors mean for an index.

use std::path::Path;

use cofferdam_recall::RecallError;
use rusqlite::ErrorCode;

/// Why something was not done.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// What was given makes no sense.
    Senseless(String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// What an error says of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is broken.
    Broken,
    /// It may be; a look at all of it tells.
    Doubtful,
    /// It is the disk, a lock, or memory.
    Outside,
}

pub(crate) fn verdict(error: &rusqlite::Error) -> Verdict {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Verdict::Broken,
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::TooBig,
        ) => Verdict::Outside,
        _ => Verdict::Doubtful,
    }
}

/// The file cannot be used as it is, for a reason outside of it.
pub(crate) fn unusable(path: &Path, reason: impl std::fmt::Display) -> RecallError {
    RecallError::Unusable(format!("{}: {reason}", path.display()))
}
