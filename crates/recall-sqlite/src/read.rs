//! Documents as they were given.

use cofferdam_recall::{Document, Source};
use cofferdam_types::Timestamp;
use rusqlite::{Connection, Row};

use crate::rows;
use crate::trouble::Trouble;

/// A document as its row has it.
pub(crate) struct Stored {
    pub(crate) source: Source,
    pub(crate) at: Timestamp,
    pub(crate) before: String,
    pub(crate) text: String,
}

/// The columns of a [`Stored`], of `documents AS d` and, on the left, `files AS f`.
pub(crate) const COLUMNS: &str = "d.id, d.at, d.kind, d.first, d.last, f.path, d.before, d.text";

pub(crate) fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let (first, last): (Option<u32>, Option<u32>) = (row.get(3)?, row.get(4)?);
    let path: Option<String> = row.get(5)?;
    let file = path.zip(first).zip(last).map(|((path, first), last)| (path, first, last));
    Ok(Stored {
        source: rows::source(row.get(0)?, row.get(2)?, file)?,
        at: rows::timestamp(row.get(1)?),
        before: row.get(6)?,
        text: row.get(7)?,
    })
}

/// The documents of an event, in their order.
pub(crate) fn read(connection: &Connection, seq: u64) -> Result<Vec<Document>, Trouble> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM documents AS d LEFT JOIN files AS f ON f.id = d.file
         WHERE d.id BETWEEN ?1 AND ?2 ORDER BY d.id"
    ))?;
    let range = [rows::first_id(seq), rows::last_id(seq)];
    let rows = statement.query_map(range, |row| Ok((row.get::<_, i64>(0)?, stored(row)?)))?;
    let mut documents = Vec::new();
    for row in rows {
        let (id, Stored { source, at, before, text }) = row?;
        documents.push(Document { source, at, files: files(connection, id)?, text, before });
    }
    Ok(documents)
}

fn files(connection: &Connection, id: i64) -> Result<Vec<String>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT f.path FROM about AS a JOIN files AS f ON f.id = a.file
         WHERE a.document = ?1 ORDER BY a.place",
    )?;
    let files = statement.query_map([id], |row| row.get(0))?;
    Ok(files.collect::<Result<_, _>>()?)
}
