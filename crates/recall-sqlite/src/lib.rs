//! An index in a SQLite file, by its full-text search.
//!
//! The file is a copy of what the job's log and workspace hold. One that is broken,
//! or that another release made, is removed and made anew; what was in it has to be
//! given again then, which [`Index::reaches`](cofferdam_recall::Index::reaches) shows.

mod file;
mod schema;
mod trouble;

mod rows;

mod add;
mod choose;
mod find;
mod read;

mod index;

pub use index::SqliteIndex;
