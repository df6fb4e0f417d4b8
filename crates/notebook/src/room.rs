//! How much room texts take in a notebook's file, and texts that are cut to fit.
//!
//! A control character takes six bytes in JSON and each line has quotes, a comma and its
//! indentation, so bytes of text say little.

/// Around each line of a text.
const LINE: usize = 16;

/// The most that a text takes in the file.
pub(crate) fn room(text: &str) -> usize {
    text.chars().map(of_char).sum::<usize>().saturating_add(LINE)
}

fn of_char(c: char) -> usize {
    match c {
        '\n' => 2 + LINE,
        '"' | '\\' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8(),
    }
}

/// The text, or its beginning and its end with words between that say what is missing.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if room(text) <= most {
        return text.to_owned();
    }
    // The words take some as well.
    let half = most.saturating_sub(4 * LINE + 60) / 2;
    let head = within(text.chars(), half);
    let tail = within(text.chars().rev(), half);
    let tail = text.len().saturating_sub(tail).max(head);
    let missing = tail - head;
    let (start, end) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{start}\n[… {missing} bytes are left out here …]\n{end}")
}

/// How many bytes of text the first characters have that fit.
fn within(chars: impl Iterator<Item = char>, most: usize) -> usize {
    let (mut bytes, mut taken) = (0, 0);
    for c in chars {
        taken += of_char(c);
        if taken > most {
            break;
        }
        bytes += c.len_utf8();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_shortened_text_fits(text: String, times in 1..200usize, most in 200..2_000usize) {
            let short = shorten(&text.repeat(times), most);
            prop_assert!(room(&short) <= most, "{} of {most}", room(&short));
        }
    }

    #[test]
    fn both_ends_stay() {
        let text = format!("begin{}end", "\0".repeat(10_000));
        let short = shorten(&text, 300);
        assert!(short.starts_with("begin\0"), "{short:?}");
        assert!(short.ends_with("\0end"), "{short:?}");
        assert!(short.contains("bytes are left out here"), "{short:?}");
    }
}
