//! How text is written down in a file: found by its bytes, kept when it is
//! changed.

use crate::cut::readable;

/// Bytes in which a NUL makes a file no text.
const LOOKED_AT: usize = 8 << 10;

/// How text is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8, or plain ASCII.
    Utf8,
    /// Two bytes a unit, the lower one first.
    Utf16Le,
    /// Two bytes a unit, the higher one first.
    Utf16Be,
    /// One byte a character.
    Latin1,
    /// None that is known.
    Unknown,
}

impl Encoding {
    /// What the bytes look like.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(b"\xff\xfe") {
            return Self::Utf16Le;
        }
        if bytes.starts_with(b"\xfe\xff") {
            return Self::Utf16Be;
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => Self::Utf8,
            // A character that is cut at the end of what was read.
            Err(error) if error.error_len().is_none() => Self::Utf8,
            Err(_) if bytes.iter().any(|byte| (0x80..0xa0).contains(byte)) => Self::Unknown,
            Err(_) => Self::Latin1,
        }
    }

    /// The text that bytes of a file stand for.
    pub(crate) fn decode(self, bytes: &[u8]) -> String {
        let pairs = |make: fn([u8; 2]) -> u16| {
            let units = bytes.as_chunks().0.iter().map(|pair| make(*pair));
            let text = char::decode_utf16(units);
            let text = text.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
            readable(text.collect::<String>().as_bytes())
        };
        match self {
            Self::Utf8 | Self::Unknown => readable(bytes),
            Self::Latin1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
            Self::Utf16Le => pairs(u16::from_le_bytes),
            Self::Utf16Be => pairs(u16::from_be_bytes),
        }
    }

    /// The bytes that stand for a text, if it can be written so.
    pub(crate) fn encode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 | Self::Unknown => Some(text.as_bytes().to_vec()),
            Self::Latin1 => text.chars().map(|one| u8::try_from(u32::from(one)).ok()).collect(),
            Self::Utf16Le => Some(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Self::Utf16Be => Some(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        }
    }

    /// What a reader should know of it.
    pub(crate) fn note(self) -> Option<&'static str> {
        match self {
            Self::Utf8 => None,
            Self::Utf16Le | Self::Utf16Be => Some("the file is UTF-16"),
            Self::Latin1 => Some("the file is not UTF-8; shown as Latin-1"),
            Self::Unknown => Some("the file is not UTF-8; other bytes are shown as \u{fffd}"),
        }
    }

    /// Whether a unit has two bytes.
    pub(crate) fn is_wide(self) -> bool {
        matches!(self, Self::Utf16Le | Self::Utf16Be)
    }
}

/// Whether the beginning of a file shows that it is no text.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let beginning = bytes.get(..LOOKED_AT).unwrap_or(bytes);
    !Encoding::of(beginning).is_wide() && memchr::memchr(0, beginning).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_is_found_decoded_and_written_back() {
        let cases: [(&[u8], Encoding, &str); 5] = [
            ("grün\n".as_bytes(), Encoding::Utf8, "grün\n"),
            (b"\xff\xfeg\0r\0\xfc\0n\0", Encoding::Utf16Le, "\u{feff}grün"),
            (b"\xfe\xff\0g\0r\0\xfc\0n", Encoding::Utf16Be, "\u{feff}grün"),
            (b"gr\xfcn", Encoding::Latin1, "grün"),
            (b"gr\x81n", Encoding::Unknown, "gr\u{fffd}n"),
        ];
        for (bytes, encoding, text) in cases {
            assert_eq!(Encoding::of(bytes), encoding);
            assert_eq!(encoding.decode(bytes), text);
            if encoding != Encoding::Unknown {
                assert_eq!(encoding.encode(text).as_deref(), Some(bytes));
            }
        }
        assert_eq!(Encoding::Latin1.encode("→"), None);
    }

    #[test]
    fn a_character_cut_at_the_end_is_still_utf8() {
        let text = "grü".as_bytes();
        assert_eq!(Encoding::of(text.get(..text.len() - 1).unwrap()), Encoding::Utf8);
    }

    #[test]
    fn a_nul_makes_a_file_binary_unless_it_is_half_of_a_character() {
        assert!(is_binary(b"a\0b"));
        assert!(!is_binary(b"\xff\xfea\0b\0"));
        assert!(!is_binary(b"plain"));
    }
}
