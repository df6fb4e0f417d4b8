//! The tables, and how a file of an earlier release gets them.
//!
//! Ids are their 16 bytes; times are milliseconds since 1970. A migration that
//! was released is never changed: what is new is appended.

use cofferdam_store::StoreError;
use rusqlite::Connection;

use crate::error::failed;

/// Marks the file as ours.
pub(crate) const APPLICATION: i32 = 0x636f_6666;

/// What leads from each schema to the next; the first makes the tables.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];

/// The schema that this release writes.
pub(crate) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The schema of the file.
pub(crate) fn found(connection: &Connection) -> Result<i64, StoreError> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)
}

/// Refuses what a later release, or another program, has made.
pub(crate) fn check(connection: &Connection) -> Result<(), StoreError> {
    // The mark is read last: another process may make the file between two steps.
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    let found = found(connection)?;
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    if application != APPLICATION && (found != 0 || tables != 0 || application != 0) {
        return Err(StoreError::Unusable {
            cause: "the file is the database of another program".to_owned(),
            remedy: "name another file, or move this one away".to_owned(),
        });
    }
    if found > known() {
        return Err(StoreError::Newer { found, known: known() });
    }
    Ok(())
}

/// Brings the tables up to date, all or nothing.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(failed)?;
    // Another process may have been faster.
    check(&transaction)?;
    let done = usize::try_from(found(&transaction)?).unwrap_or(usize::MAX);
    for migration in MIGRATIONS.iter().skip(done) {
        transaction.execute_batch(migration).map_err(failed)?;
    }
    transaction.pragma_update(None, "user_version", known()).map_err(failed)?;
    transaction.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
    transaction.commit().map_err(failed)
}
