//! The seam: what goes into an index, and what can be asked of it.

use std::collections::BTreeMap;

use cofferdam_types::Timestamp;
use futures_util::future::BoxFuture;

use crate::error::RecallError;

/// A piece of text that can be found again, and read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it is from.
    pub source: Source,
    /// When it came up; that of the last change for a file.
    pub at: Timestamp,
    /// The files it is about, as paths in the workspace.
    pub files: Vec<String>,
    /// The text, whole.
    pub text: String,
    /// What was said or done just before it. Found by that too, with less weight.
    pub before: String,
}

/// Where a document is from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An event of the job's log.
    Event {
        /// Its number, which is also what it is recalled by.
        seq: u64,
        /// Which part of it, where one event holds several texts.
        part: u32,
        /// What it is.
        kind: Kind,
    },
    /// Lines of a file of the workspace.
    File {
        /// Its path.
        path: String,
        /// The first line, from 1.
        first: u32,
        /// The last line.
        last: u32,
    },
}

/// What a document of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The task, or what the user said since.
    User,
    /// What a model said.
    Answer,
    /// What a tool was called with.
    Call,
    /// What came of a call.
    Output,
    /// What a check found.
    Check,
}

/// What is looked for. Whatever is given narrows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Words that it is about, as somebody would say them; empty for all.
    pub words: String,
    /// Only what is about this file.
    pub file: Option<String>,
    /// Only what came up at this moment or later.
    pub from: Option<Timestamp>,
    /// Only what came up at this moment or earlier.
    pub to: Option<Timestamp>,
    /// Only events up to this number: later ones are before the model anyway.
    pub through: Option<u64>,
    /// Whether files of the workspace are looked through too.
    pub workspace: bool,
    /// So many at most.
    pub limit: usize,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Where it is from.
    pub source: Source,
    /// When it came up.
    pub at: Timestamp,
    /// How well it fits: higher is better, and only comparable within one answer.
    pub score: f64,
    /// The part of the text that fits best, cut to a few lines.
    pub excerpt: String,
    /// Bytes of the whole text.
    pub bytes: u64,
}

/// An index of one job.
pub trait Index: Send + Sync {
    /// The last event that is in it; 0 for a new one.
    fn reaches(&self) -> BoxFuture<'_, Result<u64, RecallError>>;

    /// Adds documents of the log, all or none. With them every event up to `through`
    /// is in it. What it has already is not added again.
    fn add(&self, through: u64, documents: Vec<Document>)
    -> BoxFuture<'_, Result<(), RecallError>>;

    /// Puts these, by their paths, in the place of everything from these files of the
    /// workspace, all or none; no documents for a file that is gone.
    fn replace_files(
        &self,
        files: BTreeMap<String, Vec<Document>>,
    ) -> BoxFuture<'_, Result<(), RecallError>>;

    /// Finds what fits best, the best first. Without words: the latest first.
    fn find(&self, question: Question) -> BoxFuture<'_, Result<Vec<Hit>, RecallError>>;

    /// The documents of an event, in their order, whole.
    fn read(&self, seq: u64) -> BoxFuture<'_, Result<Vec<Document>, RecallError>>;
}
