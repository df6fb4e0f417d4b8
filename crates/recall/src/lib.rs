//! Finding again what a job has let go: the seam to an index, and how text is cut
//! and split into words for one.
//!
//! An index is a copy: everything in it can be read again from the job's log and
//! its workspace, so one that is lost or broken is made anew.
//!
//! [`Documents`] makes the documents of a log, [`of_file`] those of a file;
//! [`indexed`] and [`asked`] are the words that both sides of a search agree on.
//! Nothing here reads, writes or looks at a clock.

mod error;
mod index;

mod words;

mod excerpt;

mod documents;
mod mentioned;

mod chunk;
mod grammar;

mod fuse;

pub use chunk::{LARGEST_FILE, Piece, of_file, pieces};
pub use documents::Documents;
pub use error::RecallError;
pub use excerpt::excerpt;
pub use fuse::{Embed, MEANING_WEIGHT, find, fuse};
pub use index::{Document, Hit, Index, Kind, Question, Source};
pub use words::{MOST_ASKED, Words, asked, indexed};
