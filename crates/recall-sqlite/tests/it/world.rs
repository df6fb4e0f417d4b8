//! What the tests have in common.

use std::path::PathBuf;

use cofferdam_recall::{Document, Documents, Hit, Index, Kind, Question, Source};
use cofferdam_recall_sqlite::SqliteIndex;
use cofferdam_testkit::needles::Session;
use cofferdam_types::Timestamp;
use tempfile::TempDir;

/// A directory with the file of an index.
pub(crate) struct World {
    directory: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("recall.db")
    }

    pub(crate) async fn open(&self) -> SqliteIndex {
        SqliteIndex::open(self.path()).await.unwrap()
    }
}

/// A document of an event.
pub(crate) fn said(seq: u64, text: &str) -> Document {
    Document {
        source: Source::Event { seq, part: 0, kind: Kind::Answer },
        at: Timestamp(seq * 1000),
        files: Vec::new(),
        text: text.to_owned(),
        before: String::new(),
    }
}

/// Lines of a file.
pub(crate) fn lines(path: &str, first: u32, text: &str) -> Document {
    Document {
        source: Source::File { path: path.to_owned(), first, last: first + 9 },
        at: Timestamp(500),
        files: vec![path.to_owned()],
        text: text.to_owned(),
        before: String::new(),
    }
}

/// A question of words alone.
pub(crate) fn about(words: &str) -> Question {
    Question {
        words: words.to_owned(),
        file: None,
        from: None,
        to: None,
        through: None,
        workspace: true,
        limit: 10,
    }
}

/// The numbers of the events that were found, 0 for a file.
pub(crate) fn seqs(hits: &[Hit]) -> Vec<u64> {
    let seq = |hit: &Hit| match hit.source {
        Source::Event { seq, .. } => seq,
        Source::File { .. } => 0,
    };
    hits.iter().map(seq).collect()
}

pub(crate) async fn find(index: &SqliteIndex, question: Question) -> Vec<u64> {
    seqs(&index.find(question).await.unwrap())
}

/// The documents of a whole log.
pub(crate) fn documents(session: &Session) -> Vec<Document> {
    let mut documents = Documents::new();
    session.records.iter().flat_map(|record| documents.of(record)).collect()
}
