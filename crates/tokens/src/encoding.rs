//! Which models read which tokens.

use std::sync::OnceLock;

use crate::merge::Merge;
use crate::split::{CL100K_WORDS, O200K_WORDS, Splitter};
use crate::table::Table;

/// A table that the build script has packed.
macro_rules! packed {
    ($file:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $file))
    };
}

/// How a family of models reads text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Of OpenAI's GPT-3.5 and GPT-4.
    Cl100k,
    /// Of OpenAI's models since GPT-4o.
    O200k,
}

/// How the names of models begin that read text so. A longer one goes before a shorter
/// one that it begins with.
const FAMILIES: &[(&str, Encoding)] = &[
    ("gpt-3.5", Encoding::Cl100k),
    ("gpt-35", Encoding::Cl100k),
    ("gpt-4o", Encoding::O200k),
    ("gpt-4.1", Encoding::O200k),
    ("gpt-4.5", Encoding::O200k),
    ("gpt-4", Encoding::Cl100k),
    ("gpt-5", Encoding::O200k),
    ("gpt-oss", Encoding::O200k),
    ("chatgpt-4o", Encoding::O200k),
    ("codex-mini", Encoding::O200k),
    ("o1", Encoding::O200k),
    ("o3", Encoding::O200k),
    ("o4", Encoding::O200k),
];

/// Models whose versions have numbers of their own and read alike.
const NUMBERED: &[&str] = &["gpt-5"];

impl Encoding {
    /// How a model of this name reads text, with or without its provider before it; `None`
    /// if that is not known.
    #[must_use]
    pub fn of(model: &str) -> Option<Self> {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        // One that was trained further reads as before.
        let name = name.strip_prefix("ft:").unwrap_or(&name);
        FAMILIES.iter().find_map(|(family, encoding)| {
            let rest = name.strip_prefix(family)?;
            let ends = match rest.chars().next() {
                None | Some('-' | ':' | '@') => true,
                Some('.') => NUMBERED.contains(family),
                Some(_) => false,
            };
            ends.then_some(*encoding)
        })
    }

    /// Its name, as its makers call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cl100k => "cl100k_base",
            Self::O200k => "o200k_base",
        }
    }

    /// How many tokens a text is. Words that are special to a model are text here, as they
    /// are where somebody merely says them.
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        // A test unpacks every table. No text has more tokens than bytes.
        let Some(tokenizer) = self.tokenizer() else { return text.len() as u64 };
        let mut merge = Merge::default();
        let pieces = tokenizer.splitter.split(text);
        pieces.map(|piece| merge.count(&tokenizer.table, piece.as_bytes())).sum()
    }

    pub(crate) fn tokenizer(self) -> Option<&'static Tokenizer> {
        static CL100K: OnceLock<Option<Tokenizer>> = OnceLock::new();
        static O200K: OnceLock<Option<Tokenizer>> = OnceLock::new();
        let (tokenizer, packed, words): (_, &[u8], _) = match self {
            Self::Cl100k => (&CL100K, packed!("cl100k.zst"), CL100K_WORDS),
            Self::O200k => (&O200K, packed!("o200k.zst"), O200K_WORDS),
        };
        let load =
            || Some(Tokenizer { table: Table::unpack(packed)?, splitter: Splitter::new(words)? });
        tokenizer.get_or_init(load).as_ref()
    }
}

/// What a text is counted with.
pub(crate) struct Tokenizer {
    pub(crate) table: Table,
    pub(crate) splitter: Splitter,
}

#[cfg(test)]
#[path = "encoding_tests.rs"]
mod tests;
