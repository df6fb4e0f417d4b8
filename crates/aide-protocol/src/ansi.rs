//! Takes away the codes that colour text on a terminal.

use std::borrow::Cow;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// The text without terminal escapes: colours, cursor movements, titles, links.
#[must_use]
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == ESCAPE { skip_sequence(&mut letters) } else { out.push(letter) }
    }
    Cow::Owned(out)
}

/// Goes past what follows an escape. One that is cut off takes nothing more with it.
fn skip_sequence(letters: &mut std::str::Chars<'_>) {
    let mut ahead = letters.clone();
    match ahead.next() {
        // Control sequence: parameters, then one letter.
        Some('[') => {
            if ahead.find(|letter| !(' '..='?').contains(letter)).is_none() {
                return;
            }
        }
        // A string (a title, a link): up to BEL or ESC \.
        Some(']' | 'P' | 'X' | '^' | '_') => loop {
            match ahead.next() {
                Some(BELL) => break,
                Some(ESCAPE) if ahead.clone().next() == Some('\\') => {
                    ahead.next();
                    break;
                }
                Some(_) => {}
                None => return,
            }
        },
        // Two letters, such as a choice of character set.
        Some(' '..='/') => {
            ahead.next();
        }
        Some(_) => {}
        None => return,
    }
    *letters = ahead;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn colours_go_and_the_text_stays() {
        let cases = [
            ("plain", "plain"),
            ("\u{1b}[0;31mZeroDivisionError\u{1b}[0m: x", "ZeroDivisionError: x"),
            ("\u{1b}[38;5;28;01mä\u{1b}[39m", "ä"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7}!", "link!"),
            ("\u{1b}(Bx", "x"),
            ("cut\u{1b}[3", "cut[3"),
            ("end\u{1b}", "end"),
        ];
        for (with, without) in cases {
            assert_eq!(strip_ansi(with), without, "{with:?}");
        }
    }

    proptest! {
        #[test]
        fn no_escape_is_left(text in ".*") {
            prop_assert!(!strip_ansi(&text).contains(ESCAPE));
        }
    }
}
