//! What operations on files are asked with, and what they answer.

use bytes::Bytes;
use cofferdam_guest_protocol::FileStat;

/// Part of a file: `limit` bytes from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where to begin.
    pub offset: u64,
    /// How many bytes at most.
    pub limit: u64,
}

impl Range {
    /// From the beginning, at most so many bytes.
    #[must_use]
    pub const fn first(limit: u64) -> Self {
        Self { offset: 0, limit }
    }
}

/// What was read of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes.
    pub bytes: Bytes,
    /// The file as it was opened.
    pub stat: FileStat,
    /// SHA-256 of the whole content, when the whole content was read.
    pub sha256: Option<[u8; 32]>,
}

/// A file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its size now.
    pub size: u64,
    /// SHA-256 of its content now; `None` after something was added to its end.
    pub sha256: Option<[u8; 32]>,
    /// How many places were replaced.
    pub replaced: u32,
}

/// The records of a listing or a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<T> {
    /// The records.
    pub records: Vec<T>,
    /// Whether the limit left some out.
    pub more: bool,
    /// Places that could not be read, at most 100 of them, with the reason.
    pub unreadable: Vec<(Vec<u8>, String)>,
}

/// What an archive held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// How many entries.
    pub entries: u64,
    /// Bytes of file content.
    pub bytes: u64,
    /// What was left out, at most 100 of them, with the reason.
    pub skipped: Vec<(Vec<u8>, String)>,
}

/// Text to be replaced in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// What to look for.
    pub old: Vec<u8>,
    /// What to put there.
    pub new: Vec<u8>,
    /// Replace every occurrence; otherwise there must be exactly one.
    pub all: bool,
    /// SHA-256 the content must have.
    pub expected: Option<[u8; 32]>,
}

/// Whether files that version control ignores count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// They are left out.
    LeaveOut,
    /// They are like any other.
    Include,
}

/// What to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// A regular expression.
    pub pattern: String,
    /// Treat the pattern as plain text.
    pub literal: bool,
    /// Ignore upper and lower case.
    pub ignore_case: bool,
    /// Only files whose path matches this.
    pub glob: Option<String>,
    /// Whether ignored files are searched.
    pub ignored: Ignored,
    /// Lines before and after each match.
    pub context: u32,
    /// How many matches at most.
    pub limit: u32,
}

impl Search {
    /// A regular expression in all files that are not ignored, at most 1,000
    /// matches.
    #[must_use]
    pub fn pattern(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            literal: false,
            ignore_case: false,
            glob: None,
            ignored: Ignored::LeaveOut,
            context: 0,
            limit: 1000,
        }
    }
}
