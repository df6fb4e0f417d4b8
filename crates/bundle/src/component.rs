//! One name of a path: made such that it is a plain name on every system an
//! archive may be unpacked on, and the form in which two names are the same to
//! some of them.

use unicode_normalization::UnicodeNormalization;

/// The longest name, in bytes: what file systems take.
pub(crate) const LONGEST: usize = 255;

/// Bytes kept free for a number that tells two names apart.
pub(crate) const ROOM: usize = 9;

/// The longest ending that stays behind such a number.
const LONGEST_ENDING: usize = 16;

/// A name without anything that some system takes for more than a name. Each
/// thing that is not allowed becomes `_`, so that a name never grows but by one.
pub(crate) fn safe(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.extend(chunk.valid().chars().map(|found| if allowed(found) { found } else { '_' }));
        if !chunk.invalid().is_empty() {
            text.push('_');
        }
    }
    if is_device(&text) || is_git(&text) {
        text.insert(0, '_');
    }
    cut(&mut text, LONGEST);
    // Windows drops dots and spaces at the end, which makes `..` of `.. `, and
    // one name of two. Last, because a cut may bring new ones to the end.
    let kept = text.trim_end_matches(['.', ' ']).len();
    let dropped = text.len() - kept;
    text.truncate(kept);
    text.extend(std::iter::repeat_n('_', dropped));
    if text.is_empty() {
        text.push('_');
    }
    text
}

/// The two parts of a name that a number can be put between: the second is its
/// ending. Together with the number they are never too long.
pub(crate) fn parts(name: &str) -> (String, &str) {
    let ending = name.rfind('.').filter(|at| *at > 0 && name.len() - at <= LONGEST_ENDING);
    let (stem, ending) = name.split_at(ending.unwrap_or(name.len()));
    let mut stem = stem.to_owned();
    cut(&mut stem, LONGEST - ROOM - ending.len());
    (stem, ending)
}

/// The form in which names are compared: whatever some system takes for the same
/// name has the same form. Case, the two ways to write an accent, and characters
/// that are not seen make no difference.
pub(crate) fn folded(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let seen = name.chars().filter(|found| !unseen(*found));
    // There and back: some characters have the same capital and not the same
    // small letter, and the other way round.
    let lower: String = seen.nfd().flat_map(char::to_lowercase).collect();
    let upper: String = lower.nfd().flat_map(char::to_uppercase).collect();
    upper.nfd().flat_map(char::to_lowercase).nfd().collect()
}

fn allowed(found: char) -> bool {
    let separates = matches!(found, '/' | '\\' | ':');
    // Windows knows no such names.
    let refused = matches!(found, '<' | '>' | '"' | '|' | '?' | '*');
    !(separates || refused || commands_terminal(found))
}

/// Characters that a terminal obeys instead of showing them.
pub(crate) fn commands_terminal(found: char) -> bool {
    found.is_control() || turns_text(found)
}

/// Characters that turn the text around them, or end a line.
fn turns_text(found: char) -> bool {
    matches!(found, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// Characters that some systems leave out when they compare names.
fn unseen(found: char) -> bool {
    matches!(found, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}')
        || turns_text(found)
}

/// Names that Windows takes for a device, whatever their ending.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let stem = stem.to_ascii_uppercase();
    if matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" | "CLOCK$") {
        return true;
    }
    let number = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    let mut digits = number.unwrap_or_default().chars();
    let digit = |found: char| found.is_ascii_digit() || matches!(found, '¹' | '²' | '³');
    digits.next().is_some_and(digit) && digits.next().is_none()
}

/// Names that some system takes for git's own directory, in which files are
/// programs that git runs.
fn is_git(name: &str) -> bool {
    matches!(folded(name).as_str(), ".git" | "git~1")
}

/// Shortens a text to so many bytes, between two characters.
pub(crate) fn cut(text: &mut String, longest: usize) {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_plain() {
        for (name, expected) in [
            (b"plain.txt".as_slice(), "plain.txt"),
            (b"-rf", "-rf"),
            (b".env", ".env"),
            (b".gitignore", ".gitignore"),
            ("naïve ☃.md".as_bytes(), "naïve ☃.md"),
            (b"[id].tsx", "[id].tsx"),
            (b"", "_"),
            (b".", "_"),
            (b"..", "__"),
            (b"..\\..\\evil", ".._.._evil"),
            (b"a/b", "a_b"),
            (b"C:evil", "C_evil"),
            (b"file:stream", "file_stream"),
            (b"a\nb\rc\x00d\x1b]0;x\x07", "a_b_c_d_]0;x_"),
            (b"\xff\xfe", "__"),
            (b"a\xf0\x9f\x98", "a_"),
            ("c1\u{9b}2J".as_bytes(), "c1_2J"),
            ("photo\u{202e}gpj.exe".as_bytes(), "photo_gpj.exe"),
            (b"<img src=x>.html", "_img src=x_.html"),
            (b"what?*|\"", "what____"),
            (b"trailing.", "trailing_"),
            (b"trailing. . ", "trailing____"),
            (b"CON", "_CON"),
            (b"con.txt", "_con.txt"),
            (b"NUL. ", "_NUL__"),
            (b"Aux .c", "_Aux .c"),
            (b"com1", "_com1"),
            ("LPT²".as_bytes(), "_LPT²"),
            (b"com", "com"),
            (b"com10", "com10"),
            (b"console", "console"),
            (b".git", "_.git"),
            (b".GIT", "_.GIT"),
            ("\u{2e}g\u{200c}it".as_bytes(), "_.g\u{200c}it"),
            (b"GIT~1", "_GIT~1"),
        ] {
            assert_eq!(safe(name), expected, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn names_stay_short_enough() {
        assert_eq!(safe(&[b'a'; 255]).len(), 255);
        let device = [b"con.".as_slice(), &[b'x'; 251]].concat();
        assert_eq!(safe(&device).len(), 255);
        let cut_at_a_space = [b"con.".as_slice(), &[b'x'; 249], b" y"].concat();
        assert!(safe(&cut_at_a_space).ends_with("x_"));
        let name = "é".repeat(127);
        let (stem, ending) = parts(&name);
        assert!(stem.len() <= LONGEST - ROOM && ending.is_empty());
        assert_eq!(parts("a.tar.gz"), ("a.tar".to_owned(), ".gz"));
        assert_eq!(parts(".env"), (".env".to_owned(), ""));
    }

    #[test]
    fn what_is_one_name_somewhere_has_one_form() {
        for (one, other) in [
            ("Makefile", "makefile"),
            ("\u{e9}", "e\u{301}"),
            ("É", "e\u{301}"),
            ("STRASSE", "straße"),
            ("STRASSE", "straẞe"),
            ("\u{212a}", "k"),
            ("ΣΑΣ", "σας"),
            ("a\u{200d}b", "ab"),
        ] {
            assert_eq!(folded(one), folded(other), "{one} {other}");
        }
        assert_ne!(folded("a"), folded("b"));
    }
}
