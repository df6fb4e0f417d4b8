//! `.env` files.
//!
//! A parser of our own, because those at hand replace `$NAME` by the value of the
//! *process's* variable. In a repository's file that is a leak:
//! `OPENAI_BASE_URL=https://example.net/${ANTHROPIC_API_KEY}`. Here a `$` is a `$`.

use std::collections::BTreeMap;

/// The variables of a file, and the numbers of the lines that make no sense. Of
/// two lines for one name the last one counts. A line is never shown: it may hold
/// a secret.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DotEnv {
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) bad_lines: Vec<usize>,
}

impl DotEnv {
    pub(crate) fn parse(text: &str) -> Self {
        let mut parsed = Self::default();
        let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut number = 1;
        while !rest.is_empty() {
            let (line, next_line) = rest.split_once('\n').unwrap_or((rest, ""));
            let after = match parse_entry(line, next_line) {
                Entry::Nothing => next_line,
                Entry::Nonsense => {
                    parsed.bad_lines.push(number);
                    next_line
                }
                Entry::Variable { name, value, after } => {
                    parsed.variables.insert(name.to_owned(), value);
                    after
                }
            };
            let read = rest.strip_suffix(after).unwrap_or(rest);
            number += read.matches('\n').count();
            rest = after;
        }
        parsed
    }
}

enum Entry<'a> {
    Nothing,
    Nonsense,
    Variable { name: &'a str, value: String, after: &'a str },
}

/// What begins with a line. A value in quotes may go on in the lines after it.
fn parse_entry<'a>(line: &'a str, next_line: &'a str) -> Entry<'a> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Entry::Nothing;
    }
    let Some((name, value)) = line.split_once('=') else { return Entry::Nonsense };
    let name = name.trim();
    let name = name.strip_prefix("export ").map_or(name, str::trim);
    let legal = |(index, c): (usize, char)| {
        c == '_' || c.is_ascii_alphabetic() || (index > 0 && c.is_ascii_digit())
    };
    if name.is_empty() || !name.char_indices().all(legal) {
        return Entry::Nonsense;
    }
    match parse_value(value.trim_start(), next_line) {
        Some((value, after)) => Entry::Variable { name, value, after },
        None => Entry::Nonsense,
    }
}

fn parse_value<'a>(value: &str, next_line: &'a str) -> Option<(String, &'a str)> {
    let Some(quote @ ('"' | '\'')) = value.chars().next() else {
        return Some((without_comment(value).to_owned(), next_line));
    };
    let mut inside = String::new();
    let mut line = value.strip_prefix(quote)?;
    let mut next_line = next_line;
    loop {
        if let Some(after) = read_quoted(line, quote, &mut inside)? {
            let after = after.trim_start();
            return (after.is_empty() || after.starts_with('#')).then_some((inside, next_line));
        }
        if next_line.is_empty() {
            return None;
        }
        inside.push('\n');
        (line, next_line) = next_line.split_once('\n').unwrap_or((next_line, ""));
    }
}

/// Reads a line to its closing quote and gives what is after it; `Some(None)` if
/// there is no such quote, `None` if the line makes no sense.
fn read_quoted<'a>(line: &'a str, quote: char, inside: &mut String) -> Option<Option<&'a str>> {
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            found if found == quote => return Some(Some(characters.as_str())),
            '\\' if quote == '"' => match characters.next()? {
                'n' => inside.push('\n'),
                't' => inside.push('\t'),
                escaped @ ('\\' | '"' | '$' | '\'') => inside.push(escaped),
                _ => return None,
            },
            other => inside.push(other),
        }
    }
    Some(None)
}

/// Without quotes a comment needs a space before it: URLs may hold a `#`.
fn without_comment(value: &str) -> &str {
    if value.starts_with('#') {
        return "";
    }
    let end = value.find(" #").or_else(|| value.find("\t#")).unwrap_or(value.len());
    value.get(..end).unwrap_or(value).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_people_write_them() {
        for (line, name, value) in [
            ("A=1", "A", "1"),
            ("  export A = 1  ", "A", "1"),
            ("A=", "A", ""),
            ("A= # nothing", "A", ""),
            ("A=one two # comment", "A", "one two"),
            ("A=https://h/#part", "A", "https://h/#part"),
            ("A='it # is' # comment", "A", "it # is"),
            (r#"A="a \"b\" \\ \n" # comment"#, "A", "a \"b\" \\ \n"),
            ("A=x=y", "A", "x=y"),
            ("A1_b=z\r", "A1_b", "z"),
        ] {
            let parsed = DotEnv::parse(line);
            assert_eq!(parsed.variables.get(name).map(String::as_str), Some(value), "{line}");
            assert!(parsed.bad_lines.is_empty(), "{line}");
        }
    }

    #[test]
    fn a_dollar_is_never_replaced() {
        for value in ["$PATH", "${PATH}", "\"$PATH\"", "\"${PATH}\""] {
            let parsed = DotEnv::parse(&format!("A=http://h/{}", value.trim_matches('"')));
            let expected = format!("http://h/{}", value.trim_matches('"'));
            assert_eq!(parsed.variables["A"], expected);
            let parsed = DotEnv::parse(&format!("A={value}"));
            assert_eq!(parsed.variables["A"], value.trim_matches('"'));
        }
    }

    #[test]
    fn nonsense_is_counted_and_the_rest_is_read() {
        let text = "\u{feff}A=1\nnonsense\n1B=2\nE='x' y\nF=\"\\q\"\n\n#\nA=2\nC='open\nD=\"open\n";
        let parsed = DotEnv::parse(text);
        assert_eq!(parsed.bad_lines, [2, 3, 4, 5, 9, 10]);
        assert_eq!(parsed.variables, BTreeMap::from([("A".to_owned(), "2".to_owned())]));
    }

    #[test]
    fn a_value_in_quotes_may_have_several_lines() {
        let parsed = DotEnv::parse("A=\"one\ntwo\" # comment\nnonsense\nB='x\n\ny'\nC=3");
        assert_eq!(parsed.variables["A"], "one\ntwo");
        assert_eq!(parsed.variables["B"], "x\n\ny");
        assert_eq!(parsed.variables["C"], "3");
        assert_eq!(parsed.bad_lines, [3]);
    }
}
