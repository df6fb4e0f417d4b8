//! The head of a skill's file: its name and when to use it.
//!
//! It is a few lines of `key: value` between two lines of dashes. Only the two
//! keys that count here are read; the rest of YAML is not.

/// The longest name and the longest description.
const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;

/// The description of a skill in a directory of this name, if its file is sound.
pub(super) fn description(text: &str, directory: &str) -> Option<String> {
    let name = value(text, "name")?;
    let description = value(text, "description")?;
    let sound = name == directory
        && (1..=LONGEST_NAME).contains(&name.chars().count())
        && (1..=LONGEST_DESCRIPTION).contains(&description.chars().count());
    sound.then_some(description)
}

/// The value of a key in the head of a file, on one line.
fn value(text: &str, wanted: &str) -> Option<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let mut head = lines.take_while(|line| line.trim_end() != "---");
    let first = head.by_ref().find_map(|line| line.strip_prefix(wanted)?.strip_prefix(':'))?;
    let mut words = unquoted(first.trim());
    if words.starts_with(['>', '|']) {
        words = "";
    }
    // A value may go on in lines that are indented.
    let more = head.take_while(|line| line.is_empty() || line.starts_with([' ', '\t']));
    let parts = std::iter::once(words).chain(more.map(str::trim)).filter(|part| !part.is_empty());
    let value: Vec<&str> = parts.collect();
    Some(value.join(" "))
}

fn unquoted(text: &str) -> &str {
    let inner = |quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_a_name_and_a_description() {
        let cases = [
            ("---\nname: a\ndescription: Do it.\n---\n# A", Some("Do it.")),
            ("---\r\nname: \"a\"\r\ndescription: 'x: y'\r\n---\r\n", Some("x: y")),
            ("---\nlicense: MIT\ndescription: >-\n  one\n  two\n\nname: a\n---\n", Some("one two")),
            ("---\ndescription: one\n  two\nname: a\n---\n", Some("one two")),
            ("---\nname: b\ndescription: other directory\n---\n", None),
            ("---\nname: a\n---\ndescription: in the body\n", None),
            ("name: a\ndescription: no head\n", None),
            ("---\nname: a\ndescription:\n---\n", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(description(text, "a").as_deref(), expected, "{text:?}");
        }
        let long = format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1025));
        assert_eq!(description(&long, "a"), None);
    }
}
