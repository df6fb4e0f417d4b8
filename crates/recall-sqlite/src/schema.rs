//! The tables, and whether a file has them.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as ours.
const APPLICATION: i32 = 0x636f_6672;

/// The tables, and how text becomes words: whatever changes either counts it up, and
/// files of before are made anew.
const VERSION: i64 = 1;

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing yet.
    Nothing,
    /// What this release makes.
    Ours,
    /// What another release made, or another program.
    Other,
}

/// What is in the file.
pub(crate) fn found(connection: &Connection) -> rusqlite::Result<Found> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    // The marks are read last: another process may make the tables meanwhile.
    let marks = (number("application_id")?, number("user_version")?);
    Ok(match marks {
        (0, 0) if tables == 0 => Found::Nothing,
        marks if marks == (i64::from(APPLICATION), VERSION) => Found::Ours,
        _ => Found::Other,
    })
}

/// Makes the tables, unless another process was faster.
pub(crate) fn make(connection: &mut Connection) -> rusqlite::Result<Found> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = found(&transaction)?;
    if before != Found::Nothing {
        return Ok(before);
    }
    transaction.execute_batch(include_str!("schema.sql"))?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(Found::Ours)
}

/// What fails if a table is not as it should be.
const PROBES: &[&str] = &[
    "SELECT reaches, documents FROM state",
    "SELECT id, path FROM files",
    "SELECT id, at, kind, file, first, last, before, text FROM documents",
    "SELECT document, place, file FROM about",
    "SELECT rowid FROM terms WHERE terms MATCH 'a'",
];

/// Whether the file is as it should be. Reads all of it.
pub(crate) fn is_whole(connection: &Connection) -> bool {
    let check = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        .is_ok_and(|answer| answer == "ok");
    check
        && PROBES.iter().all(|probe| connection.prepare(probe).is_ok())
        && matches!(found(connection), Ok(Found::Ours))
}
