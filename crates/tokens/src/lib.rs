//! How many tokens a text is, for the models whose tables are public.
//!
//! A table is part of the binary, packed, and is unpacked when the first text is counted
//! with it; who uses no such model pays nothing for it. The time that counting takes grows
//! with the length of a text and no faster, whatever the text is.

mod encoding;
mod merge;
mod split;
mod table;

pub use encoding::Encoding;
