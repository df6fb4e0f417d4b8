//! Replacing text in the bytes of a file: everything outside the places that
//! match stays as it is, byte for byte.
//!
//! Text is looked for as the file would have it: with its line ends, and in its
//! encoding.

use memchr::memmem;

use crate::encoding::Encoding;

/// A file after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) bytes: Vec<u8>,
    /// The lines at which places were replaced.
    pub(super) lines: Vec<u64>,
}

/// Why nothing was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// The text is not there.
    NotThere,
    /// It is there more than once, at these lines.
    Several(Vec<u64>),
    /// The new text cannot be written in the file's encoding.
    Unwritable,
}

/// Which places are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The only one.
    One,
    /// All.
    All,
}

pub(super) fn replace(
    content: &[u8],
    old: &str,
    new: &str,
    which: Which,
) -> Result<Replaced, Miss> {
    let encoding = Encoding::of(content);
    let encodings: &[Encoding] = match encoding {
        // Some of it may be UTF-8 all the same.
        Encoding::Latin1 => &[Encoding::Latin1, Encoding::Utf8],
        Encoding::Unknown => &[Encoding::Utf8, Encoding::Latin1],
        _ => &[encoding],
    };
    for (old, new) in as_written(content, encoding, old, new) {
        for encoding in encodings {
            let Some(wanted) = encoding.encode(&old) else { continue };
            let places = places(content, &wanted, *encoding);
            if places.is_empty() {
                continue;
            }
            let lines = places.iter().map(|at| line_of(content, *at, *encoding)).collect();
            if places.len() > 1 && which == Which::One {
                return Err(Miss::Several(lines));
            }
            let new = encoding.encode(&new).ok_or(Miss::Unwritable)?;
            return Ok(Replaced { bytes: put(content, &places, wanted.len(), &new), lines });
        }
    }
    Err(Miss::NotThere)
}

/// The old and the new text with the line ends of the file, in the order in which
/// they are tried.
fn as_written(content: &[u8], encoding: Encoding, old: &str, new: &str) -> Vec<(String, String)> {
    let count = |text: &str| {
        let wanted = encoding.encode(text).unwrap_or_default();
        places(content, &wanted, encoding).len()
    };
    let (ends, crlf) = (count("\n"), count("\r\n"));
    let with_lf = (lf(old), lf(new));
    let with_crlf = (with_lf.0.replace('\n', "\r\n"), with_lf.1.replace('\n', "\r\n"));
    let given = (old.to_owned(), new.to_owned());
    if crlf == 0 {
        vec![given, with_lf]
    } else if crlf == ends {
        vec![with_crlf, given]
    } else {
        vec![given, with_crlf, with_lf]
    }
}

fn lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Where the bytes are, without overlap.
fn places(content: &[u8], wanted: &[u8], encoding: Encoding) -> Vec<usize> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = content.get(from..).and_then(|rest| memmem::find(rest, wanted)) {
        let at = from + at;
        if encoding.is_wide() && at % 2 == 1 {
            // In the middle of a unit.
            from = at + 1;
            continue;
        }
        found.push(at);
        from = at + wanted.len();
    }
    found
}

fn line_of(content: &[u8], at: usize, encoding: Encoding) -> u64 {
    let before = content.get(..at).unwrap_or_default();
    let newlines = match encoding.is_wide() {
        true => encoding.decode(before).matches('\n').count(),
        false => memchr::memchr_iter(b'\n', before).count(),
    };
    newlines as u64 + 1
}

fn put(content: &[u8], places: &[usize], length: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len());
    let mut done = 0;
    for at in places {
        bytes.extend_from_slice(content.get(done..*at).unwrap_or_default());
        bytes.extend_from_slice(new);
        done = at + length;
    }
    bytes.extend_from_slice(content.get(done..).unwrap_or_default());
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(content: &[u8], old: &str, new: &str) -> Result<Vec<u8>, Miss> {
        replace(content, old, new, Which::One).map(|replaced| replaced.bytes)
    }

    #[test]
    fn one_place_is_replaced_and_several_are_refused() {
        assert_eq!(one(b"a b c", "b", "x"), Ok(b"a x c".to_vec()));
        assert_eq!(one(b"a\nb\na", "a", "x"), Err(Miss::Several(vec![1, 3])));
        assert_eq!(one(b"a", "b", "x"), Err(Miss::NotThere));
        let all = replace(b"a\nb\na", "a", "x", Which::All).unwrap();
        assert_eq!((all.bytes, all.lines), (b"x\nb\nx".to_vec(), vec![1, 3]));
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        assert_eq!(one(b"a\r\nb\r\n", "a\nb", "a\nx\nb"), Ok(b"a\r\nx\r\nb\r\n".to_vec()));
        assert_eq!(one(b"a\r\nb\r\n", "a", "x\ny"), Ok(b"x\r\ny\r\nb\r\n".to_vec()));
        assert_eq!(one(b"a\nb\n", "a\r\nb", "x\r\ny"), Ok(b"x\ny\n".to_vec()));
        assert_eq!(one(b"a\nb\r\nc\r\n", "b\nc", "x"), Ok(b"a\nx\r\n".to_vec()));
    }

    #[test]
    fn encodings_and_marks_are_kept() {
        assert_eq!(one(b"\xef\xbb\xbfa", "a", "b"), Ok(b"\xef\xbb\xbfb".to_vec()));
        assert_eq!(one(b"gr\xfcn \xe9", "gr\u{fc}n", "blau"), Ok(b"blau \xe9".to_vec()));
        assert_eq!(one(b"gr\xfcn", "gr\u{fc}n", "\u{2192}"), Err(Miss::Unwritable));
        assert_eq!(one(b"a \xfc", "a", "\u{e9}"), Ok(b"\xe9 \xfc".to_vec()));
        assert_eq!(one(b"\xff a \x80", "a", "\u{e9}"), Ok(b"\xff \xc3\xa9 \x80".to_vec()));
        let wide = |text: &str| Encoding::Utf16Le.encode(text).unwrap();
        assert_eq!(
            one(&wide("\u{feff}one\r\ntwo\r\n"), "one\ntwo", "1\n2"),
            Ok(wide("\u{feff}1\r\n2\r\n"))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bytes_outside_the_place_are_untouched(
            before in prop::collection::vec(any::<u8>(), 0..64),
            after in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let content = [before.as_slice(), b"<<place>>", &after].concat();
            prop_assume!(!Encoding::of(&content).is_wide());
            let expected = [before.as_slice(), b"<<new>>", &after].concat();
            prop_assert_eq!(one(&content, "<<place>>", "<<new>>"), Ok(expected));
        }
    }
}
