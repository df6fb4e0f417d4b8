//! Kinds of characters, as the tokenizers of BERT's family tell them apart.

use regex_syntax::hir::{Class, HirKind};

/// A set of characters.
pub(crate) struct Kind(Vec<(char, char)>);

impl Kind {
    /// By its name in Unicode; one that is not known holds nothing.
    fn named(pattern: &str) -> Self {
        let hir = regex_syntax::parse(pattern).ok();
        let ranges = match hir.as_ref().map(regex_syntax::hir::Hir::kind) {
            Some(HirKind::Class(Class::Unicode(class))) => {
                class.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            _ => Vec::new(),
        };
        Self(ranges)
    }

    fn has(&self, wanted: char) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= wanted);
        let range = after.checked_sub(1).and_then(|place| self.0.get(place));
        range.is_some_and(|(_, last)| wanted <= *last)
    }
}

/// The kinds that are told apart.
pub(crate) struct Kinds {
    punctuation: Kind,
    /// Control, format and private use.
    unseen: Kind,
    accents: Kind,
}

impl Kinds {
    pub(crate) fn new() -> Self {
        Self {
            punctuation: Kind::named(r"\p{P}"),
            unseen: Kind::named(r"[\p{Cc}\p{Cf}\p{Co}]"),
            accents: Kind::named(r"\p{Mn}"),
        }
    }

    /// Stands alone, even in the middle of a word.
    pub(crate) fn is_punctuation(&self, character: char) -> bool {
        character.is_ascii_punctuation() || self.punctuation.has(character)
    }

    /// Is no part of any text.
    pub(crate) fn is_unseen(&self, character: char) -> bool {
        match character {
            '\t' | '\n' | '\r' => false,
            '\0' | '\u{fffd}' => true,
            _ => self.unseen.has(character),
        }
    }

    /// Is put upon the character before it.
    pub(crate) fn is_accent(&self, character: char) -> bool {
        self.accents.has(character)
    }
}

/// Is a word alone.
pub(crate) fn is_ideograph(character: char) -> bool {
    matches!(
        u32::from(character),
        0x4E00..=0x9FFF
            | 0x3400..=0x4DBF
            | 0x2_0000..=0x2_A6DF
            | 0x2_A700..=0x2_B73F
            | 0x2_B740..=0x2_B81F
            | 0x2_B920..=0x2_CEAF
            | 0xF900..=0xFAFF
            | 0x2_F800..=0x2_FA1F
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_unicode() {
        let kinds = Kinds::new();
        for character in ['.', '$', '`', '«', '…', '、'] {
            assert!(kinds.is_punctuation(character), "{character:?}");
        }
        for character in ['a', '€', '→', ' ', 'é', '中'] {
            assert!(!kinds.is_punctuation(character), "{character:?}");
        }
        for character in ['\0', '\u{7}', '\u{200b}', '\u{fffd}', '\u{e000}'] {
            assert!(kinds.is_unseen(character), "{character:?}");
        }
        for character in ['\n', '\t', ' ', 'x', '\u{301}'] {
            assert!(!kinds.is_unseen(character), "{character:?}");
        }
        assert!(kinds.is_accent('\u{301}') && !kinds.is_accent('e'));
        assert!(is_ideograph('中') && !is_ideograph('か') && !is_ideograph('한'));
    }
}
