//! What the index is measured against: SQLite's full-text search as it comes, with
//! whole texts, its own words and no neighbours; and simply the latest.
//!
//! Depends on nothing else here, so that a benchmark can take it in by its path.

use cofferdam_recall::{Document, Source};
use rusqlite::Connection;

/// SQLite's full-text search as it comes.
pub(crate) struct Plain {
    connection: Connection,
}

impl Plain {
    pub(crate) fn new(documents: &[Document]) -> rusqlite::Result<Self> {
        let mut connection = Connection::open_in_memory()?;
        connection.execute_batch("CREATE VIRTUAL TABLE plain USING fts5 (text, seq UNINDEXED)")?;
        let all = connection.transaction()?;
        for document in documents {
            let Source::Event { seq, .. } = document.source else { continue };
            let row = (document.text.as_str(), i64::try_from(seq).unwrap_or(i64::MAX));
            all.execute("INSERT INTO plain VALUES (?1, ?2)", row)?;
        }
        all.commit()?;
        Ok(Self { connection })
    }

    /// The events that fit best: any of the words, each in quotes.
    pub(crate) fn find(&self, question: &str, limit: usize) -> rusqlite::Result<Vec<u64>> {
        let words = question.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words: Vec<String> =
            words.filter(|word| !word.is_empty()).map(|word| format!("\"{word}\"")).collect();
        let mut statement = self
            .connection
            .prepare_cached("SELECT seq FROM plain WHERE plain MATCH ?1 ORDER BY rank LIMIT ?2")?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map((words.join(" OR "), limit), |row| row.get(0))?;
        rows.map(|seq: rusqlite::Result<i64>| Ok(u64::try_from(seq?).unwrap_or(0))).collect()
    }
}

/// The last events that have documents.
pub(crate) fn latest(documents: &[Document], limit: usize) -> Vec<u64> {
    let seqs = documents.iter().rev().filter_map(|document| match document.source {
        Source::Event { seq, .. } => Some(seq),
        Source::File { .. } => None,
    });
    seqs.take(limit).collect()
}
