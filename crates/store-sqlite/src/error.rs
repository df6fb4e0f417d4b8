//! What SQLite's errors mean to whoever called.

use cofferdam_store::StoreError;
use rusqlite::{ErrorCode, ffi};

/// Why a statement failed, as the seam says it.
pub(crate) fn from_sqlite(error: &rusqlite::Error) -> StoreError {
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(reason),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted,
        ) => StoreError::Unavailable(reason),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::Unusable {
            cause: format!("the database cannot be written: {reason}"),
            remedy: "make the file and its directory writable for this user".to_owned(),
        },
        Some(ErrorCode::TooBig) => StoreError::Full(reason),
        _ => StoreError::Broken(reason),
    }
}

/// The same for what must not be there yet.
pub(crate) fn unless_taken(what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| match error.sqlite_extended_error_code() {
        Some(ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY) => {
            StoreError::Taken(what)
        }
        _ => from_sqlite(&error),
    }
}

/// For `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "this is what map_err hands over")]
pub(crate) fn failed(error: rusqlite::Error) -> StoreError {
    from_sqlite(&error)
}

/// What is stored makes no sense.
pub(crate) fn broken(reason: impl Into<String>) -> StoreError {
    StoreError::Broken(reason.into())
}

/// A number for SQLite, which has no larger ones.
pub(crate) fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| broken(format!("{value} is too large a number to store")))
}
