//! Cutting a text into the pieces that tokens never cross: words with the space before
//! them, up to three digits, marks, and white space.

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

/// Words and marks of `cl100k_base`.
pub(crate) const CL100K_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+$";

/// Words and marks of `o200k_base`.
pub(crate) const O200K_WORDS: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+$";

/// Space before a word, of which the last belongs to the word. The original says that by
/// looking ahead, which takes an engine that goes back and forth; here the last one is
/// matched too, and given back.
const SPACE_BEFORE: &str = r"\s+\s";
const SPACE: &str = r"\s+";

/// The place of [`SPACE_BEFORE`] among the patterns.
const GIVES_BACK: usize = 1;

/// Cuts texts.
pub(crate) struct Splitter(Regex);

impl Splitter {
    pub(crate) fn new(words: &str) -> Option<Self> {
        Regex::new_many(&[words, SPACE_BEFORE, SPACE]).ok().map(Self)
    }

    /// The pieces of a text, in their order, all of it.
    pub(crate) fn split<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let found = self.0.find(Input::new(rest).anchored(Anchored::Yes))?;
            let mut end = found.end();
            if found.pattern().as_usize() == GIVES_BACK {
                end = rest.get(..end)?.char_indices().next_back()?.0;
            }
            let (piece, after) = rest.split_at_checked(end)?;
            rest = after;
            Some(piece)
        })
    }
}
