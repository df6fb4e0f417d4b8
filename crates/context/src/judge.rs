//! Whether a summary may take the place of what it is about.

use std::collections::BTreeSet;

/// Different words that a summary has at least, if what it replaces is no trifle.
const FEWEST_WORDS: usize = 8;

/// What replaces less text than this may be a few words.
const TRIFLE: u64 = 2_000;

/// Why a summary is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is empty.
    Empty,
    /// It is as long as what it replaces, or longer than it may be.
    TooLong,
    /// It is no text that says anything.
    Nonsense,
    /// It leaves these out.
    Missing(Vec<String>),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => formatter.write_str("it was empty"),
            Self::TooLong => formatter.write_str("it was too long"),
            Self::Nonsense => formatter.write_str("it said nothing that makes sense"),
            Self::Missing(what) => write!(formatter, "it left out {}", what.join(", ")),
        }
    }
}

/// Judges a summary of `replaced` bytes that may have `longest` bytes and must name all of
/// `names`.
///
/// # Errors
/// What is wrong with it.
pub fn judge(summary: &str, replaced: u64, longest: u64, names: &[String]) -> Result<(), Fault> {
    let summary = summary.trim();
    if summary.is_empty() {
        return Err(Fault::Empty);
    }
    let bytes = summary.len() as u64;
    if bytes >= replaced || bytes > longest {
        return Err(Fault::TooLong);
    }
    let words: BTreeSet<&str> = summary.split_whitespace().collect();
    // Some languages have no spaces between words.
    let signs: BTreeSet<char> =
        summary.chars().filter(|c| !c.is_ascii() && c.is_alphabetic()).collect();
    let letters = summary.chars().filter(|c| c.is_alphanumeric() || c.is_whitespace()).count();
    let few = words.len().max(signs.len()) < FEWEST_WORDS && replaced > TRIFLE;
    if few || letters * 2 < summary.chars().count() {
        return Err(Fault::Nonsense);
    }
    let missing: Vec<String> =
        names.iter().filter(|name| !summary.contains(name.as_str())).cloned().collect();
    if missing.is_empty() { Ok(()) } else { Err(Fault::Missing(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_summary_is_found() {
        let names = ["src/a.rs".to_owned()];
        let good = "The parser in src/a.rs was rewritten by hand and all of its tests pass now.";
        assert_eq!(judge(good, 10_000, 1_000, &names), Ok(()));
        assert_eq!(judge(" \n", 10_000, 1_000, &names), Err(Fault::Empty));
        assert_eq!(judge(good, 50, 1_000, &names), Err(Fault::TooLong));
        assert_eq!(judge(good, 10_000, 50, &names), Err(Fault::TooLong));
        assert_eq!(judge(&"ha ".repeat(99), 10_000, 1_000, &[]), Err(Fault::Nonsense));
        assert_eq!(judge(&"}{;".repeat(99), 10_000, 1_000, &[]), Err(Fault::Nonsense));
        let japanese = "構文解析器は手で書き直され、試験はすべて通った。";
        assert_eq!(judge(japanese, 10_000, 1_000, &[]), Ok(()));
        let other = "The parser was rewritten by hand and all of its many tests pass now.";
        assert_eq!(judge(other, 10_000, 1_000, &names), Err(Fault::Missing(names.to_vec())));
    }
}
