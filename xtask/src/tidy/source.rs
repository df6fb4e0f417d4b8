//! Source: Rust text without what is no code.
//!
//! Checks look for words such as `unsafe`. In a comment or a string such a word
//! means nothing, so both are blanked first; lines keep their numbers.

/// The text with comments and literals replaced by spaces. It need not be
/// correct Rust: whatever is left open ends with the text.
pub(super) fn code_only(text: &str) -> String {
    let mut rest: Vec<char> = text.chars().rev().collect();
    let mut out = String::with_capacity(text.len());
    while let Some(length) = next_literal(&rest, out.chars().next_back()) {
        match length {
            0 => out.extend(rest.pop()),
            length => {
                let blanked = rest.drain(rest.len().saturating_sub(length)..).rev();
                out.extend(blanked.map(|c| if c == '\n' { '\n' } else { ' ' }));
            }
        }
    }
    out
}

/// How many characters the comment or literal at the top of the stack has: 0 if
/// what stands there is code, `None` at the end of the text.
fn next_literal(stack: &[char], before: Option<char>) -> Option<usize> {
    let at = |index: usize| stack.len().checked_sub(index + 1).and_then(|i| stack.get(i)).copied();
    let first = at(0)?;
    Some(match (first, at(1)) {
        ('/', Some('/')) => (0..).take_while(|index| at(*index).is_some_and(|c| c != '\n')).count(),
        ('/', Some('*')) => block_comment(&at),
        ('"', _) => quoted(&at, '"'),
        ('\'', Some('\\')) => quoted(&at, '\''),
        // Otherwise it is a lifetime.
        ('\'', Some(_)) if at(2) == Some('\'') => 3,
        ('r', Some('#' | '"')) if !continues_name(before) => raw_string(&at, 1),
        ('b' | 'c', Some('r')) if !continues_name(before) => raw_string(&at, 2),
        _ => 0,
    })
}

fn continues_name(before: Option<char>) -> bool {
    before.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn block_comment(at: &impl Fn(usize) -> Option<char>) -> usize {
    let mut depth = 0_usize;
    let mut index = 0;
    while let Some(first) = at(index) {
        match (first, at(index + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                index += 2;
            }
            ('*', Some('/')) => {
                depth = depth.saturating_sub(1);
                index += 2;
                if depth == 0 {
                    return index;
                }
            }
            _ => index += 1,
        }
    }
    index
}

fn quoted(at: &impl Fn(usize) -> Option<char>, quote: char) -> usize {
    let mut index = 1;
    while let Some(c) = at(index) {
        index += if c == '\\' { 2 } else { 1 };
        if c == quote {
            break;
        }
    }
    index
}

/// The length of a raw string whose `#` or quote is at `start`; 0 if it is none
/// (`r#match` is a name).
fn raw_string(at: &impl Fn(usize) -> Option<char>, start: usize) -> usize {
    let hashes = (start..).take_while(|index| at(*index) == Some('#')).count();
    if at(start + hashes) != Some('"') {
        return 0;
    }
    let mut index = start + hashes + 1;
    while let Some(c) = at(index) {
        index += 1;
        let closes = c == '"' && (0..hashes).all(|n| at(index + n) == Some('#'));
        if closes {
            return index + hashes;
        }
    }
    index
}

/// Where a word stands in a line as a whole word, as byte offsets.
pub(super) fn word_positions<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(word).map(|(start, _)| start).filter(move |start| {
        let before = line.get(..*start).and_then(|head| head.chars().next_back());
        let after = line.get(start + word.len()..).and_then(|tail| tail.chars().next());
        !continues_name(before) && !continues_name(after)
    })
}

/// Whether a word stands in a line as a whole word.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    word_positions(line, word).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let code = code_only(text);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected);
        assert_eq!(code.lines().count(), text.lines().count(), "lines keep their numbers");
    }

    #[test]
    fn comments_are_blanked() {
        check("a // unsafe\nb", "a b");
        check("a /* unsafe /* nested */ still */ b", "a b");
        check("a /* one\ntwo\n*/ b", "a b");
        check("//! unsafe", "");
    }

    #[test]
    fn strings_are_blanked_with_their_escapes() {
        check(r#"a("unsafe \" // not a comment"); b"#, "a( ); b");
        check("a(\"one\ntwo\"); b", "a( ); b");
        check(r#"a(b"unsafe") b"#, "a(b ) b");
    }

    #[test]
    fn raw_strings_end_where_their_hashes_say() {
        check("a(r#\"x \" unsafe \"#) b", "a( ) b");
        check("a(br##\"x \"# unsafe \"##) b", "a( ) b");
        check(r#"a(r"\") b"#, "a( ) b");
        check("r#match + bar\"x\" y", "r#match + bar y");
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        check("let q = '\"'; unsafe", "let q = ; unsafe");
        check(r"let q = '\''; unsafe", "let q = ; unsafe");
        check("fn f<'a>(x: &'a str) 'b: loop", "fn f<'a>(x: &'a str) 'b: loop");
    }

    #[test]
    fn what_is_left_open_ends_with_the_text() {
        for text in ["a \"b", "a /* b", "a r#\"b", "a '\\", "a \"\\"] {
            check(text, "a");
        }
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(has_word("(unsafe)", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
        assert!(has_word("unsafely unsafe", "unsafe"));
        assert!(has_word("é unsafe é", "unsafe"));
    }
}
