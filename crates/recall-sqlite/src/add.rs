//! Putting documents in, and taking those of files out.

use cofferdam_recall::{Document, Source, indexed};
use rusqlite::{Connection, OptionalExtension, params};

use crate::rows;
use crate::trouble::Trouble;

/// Files of one document that are kept.
const MOST_FILES: usize = 256;

/// A document with its words: splitting takes longer than writing, and is done before
/// anybody has to wait.
pub(crate) struct Prepared {
    document: Document,
    names: String,
    words: String,
    before: String,
    files: String,
}

impl Prepared {
    pub(crate) fn new(document: Document) -> Self {
        let own = indexed(&document.text);
        let before = indexed(&document.before);
        let files = indexed(&document.files.join(" "));
        let joined = |words: cofferdam_recall::Words| [words.names, words.words].concat().join(" ");
        Self {
            names: own.names.join(" "),
            words: own.words.join(" "),
            before: joined(before),
            files: joined(files),
            document,
        }
    }
}

/// The last event that is in the index.
pub(crate) fn reaches(connection: &Connection) -> Result<u64, Trouble> {
    let mut statement = connection.prepare_cached("SELECT reaches FROM state")?;
    let reaches: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(reaches).unwrap_or(0))
}

/// Adds what is not there yet.
pub(crate) fn add(
    connection: &Connection,
    through: u64,
    documents: &[Prepared],
) -> Result<(), Trouble> {
    let reaches = reaches(connection)?;
    let mut added = 0;
    for prepared in documents {
        let Source::Event { seq, part, .. } = &prepared.document.source else {
            return Err(Trouble::Senseless("a file's text is no event's".to_owned()));
        };
        let id = rows::id(*seq, *part)?;
        if *seq > reaches && !is_there(connection, id)? {
            insert(connection, id, None, prepared)?;
            added += 1;
        }
    }
    let through = i64::try_from(through.max(reaches)).unwrap_or(i64::MAX);
    let mut state =
        connection.prepare_cached("UPDATE state SET reaches = ?1, documents = documents + ?2")?;
    state.execute([through, added])?;
    Ok(())
}

/// Puts these in the place of all that is from the files.
pub(crate) fn replace_files(
    connection: &Connection,
    files: &[(String, Vec<Prepared>)],
) -> Result<(), Trouble> {
    let mut fewer = 0;
    let mut more = 0;
    let mut ids = Vec::with_capacity(files.len());
    for (path, documents) in files {
        let is_of_it = |prepared: &Prepared| matches!(&prepared.document.source, Source::File { path: of, .. } if of == path);
        if !documents.iter().all(is_of_it) {
            return Err(Trouble::Senseless(format!("not everything is from {path}")));
        }
        let file = file_id(connection, path)?;
        fewer += remove(connection, file)?;
        more += count(documents);
        ids.push(file);
    }
    let mut lowest = connection.prepare_cached("SELECT min(id) FROM documents")?;
    let lowest: Option<i64> = lowest.query_row([], |row| row.get(0))?;
    // Upwards: whenever an id is below the one before it, the words collected so far are
    // written out as a part of their own, which has to be merged with the others later.
    let mut id = lowest.unwrap_or(0).min(0) - more;
    for ((_, documents), file) in files.iter().zip(ids) {
        for prepared in documents {
            insert(connection, id, Some(file), prepared)?;
            id += 1;
        }
    }
    let mut state =
        connection.prepare_cached("UPDATE state SET documents = documents + ?1 - ?2")?;
    state.execute([more, fewer])?;
    Ok(())
}

/// Takes out what is from a file; how much that was.
fn remove(connection: &Connection, file: i64) -> Result<i64, Trouble> {
    let mut statement = connection.prepare_cached("SELECT id FROM documents WHERE file = ?1")?;
    let old: Vec<i64> = statement.query_map([file], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for id in &old {
        connection.prepare_cached("DELETE FROM terms WHERE rowid = ?1")?.execute([id])?;
        connection.prepare_cached("DELETE FROM about WHERE document = ?1")?.execute([id])?;
        connection.prepare_cached("DELETE FROM documents WHERE id = ?1")?.execute([id])?;
    }
    Ok(count(&old))
}

fn count<T>(list: &[T]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}

fn is_there(connection: &Connection, id: i64) -> Result<bool, Trouble> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM documents WHERE id = ?1")?;
    Ok(statement.exists([id])?)
}

fn insert(
    connection: &Connection,
    id: i64,
    file: Option<i64>,
    prepared: &Prepared,
) -> Result<(), Trouble> {
    let document = &prepared.document;
    let lines = match document.source {
        Source::File { first, last, .. } => Some((first, last)),
        Source::Event { .. } => None,
    };
    connection
        .prepare_cached("INSERT INTO documents VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            id,
            rows::moment(document.at),
            rows::kind(&document.source),
            file,
            lines.map(|lines| lines.0),
            lines.map(|lines| lines.1),
            document.before,
            document.text,
        ])?;
    connection
        .prepare_cached(
            "INSERT INTO terms (rowid, names, words, before, files) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![id, prepared.names, prepared.words, prepared.before, prepared.files])?;
    for (place, path) in document.files.iter().take(MOST_FILES).enumerate() {
        let file = file_id(connection, path)?;
        let place = i64::try_from(place).unwrap_or(i64::MAX);
        connection
            .prepare_cached("INSERT INTO about (document, place, file) VALUES (?1, ?2, ?3)")?
            .execute(params![id, place, file])?;
    }
    Ok(())
}

fn file_id(connection: &Connection, path: &str) -> Result<i64, Trouble> {
    let known = connection
        .prepare_cached("SELECT id FROM files WHERE path = ?1")?
        .query_row([path], |row| row.get(0))
        .optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    connection.prepare_cached("INSERT INTO files (path) VALUES (?1)")?.execute([path])?;
    Ok(connection.last_insert_rowid())
}
