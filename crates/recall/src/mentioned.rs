//! The files that a call is about, as its arguments name them.

use serde_json::{Map, Value};

use crate::words::head;

/// Files of one call.
const MOST: usize = 64;

/// Bytes of a path.
const LONGEST: usize = 512;

/// Bytes of a command or a patch that are looked through.
const READ: usize = 256 << 10;

/// Where the workspace is in a sandbox.
const WORKSPACE: &str = "/workspace/";

/// Arguments that are paths, whatever they look like.
const PATHS: &[&str] =
    &["path", "paths", "file", "files", "file_path", "filename", "from", "to", "source", "target"];

/// What stands before a path in a patch.
const MARKS: &[&str] = &[
    "*** Add File: ",
    "*** Update File: ",
    "*** Delete File: ",
    "*** Move to: ",
    "+++ b/",
    "--- a/",
];

/// The files, each once, in the order they come up.
pub(crate) fn files(arguments: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in arguments {
        let is_path = PATHS.contains(&name.as_str());
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for text in values.iter().filter_map(Value::as_str) {
            if is_path && !text.contains('\n') {
                add(&mut found, text);
            } else {
                in_text(&mut found, head(text, READ));
            }
        }
    }
    found
}

/// A path as the workspace has it.
pub(crate) fn in_workspace(path: &str) -> &str {
    let path = path.trim();
    let mut path = path.strip_prefix(WORKSPACE).unwrap_or(path);
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    path
}

fn add(found: &mut Vec<String>, path: &str) {
    let path = in_workspace(path);
    let fits = !path.is_empty() && path != "." && path.len() <= LONGEST && found.len() < MOST;
    if fits && !found.iter().any(|known| known == path) {
        found.push(path.to_owned());
    }
}

/// Those of a patch by its marks; those of a command by what they look like.
fn in_text(found: &mut Vec<String>, text: &str) {
    let is_patch = text.lines().any(|line| MARKS.iter().any(|mark| line.starts_with(mark)));
    for line in text.lines() {
        if is_patch {
            MARKS.iter().filter_map(|mark| line.strip_prefix(mark)).for_each(|path| {
                add(found, path);
            });
            continue;
        }
        for word in line.split(|c: char| !is_in_path(c)) {
            if looks_like_a_file(word) {
                add(found, word);
            }
        }
    }
}

fn is_in_path(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '@')
}

/// `src/login.rs` and `Cargo.toml`, not `--flag=1.5`, `v1.2.3` or `a.b()`.
fn looks_like_a_file(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    !stem.is_empty()
        && !word.starts_with('-')
        && !word.starts_with("//")
        && (1..=5).contains(&ending.len())
        && ending.starts_with(|c: char| c.is_ascii_lowercase())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &str) -> Vec<String> {
        files(&serde_json::from_str(arguments).unwrap())
    }

    #[test]
    fn paths_are_found_by_name_by_mark_and_by_look() {
        assert_eq!(of(r#"{"path":"/workspace/src/a b.rs"}"#), ["src/a b.rs"]);
        assert_eq!(of(r#"{"paths":["./a","b/c","a"]}"#), ["a", "b/c"]);
        let patch = r#"{"input":"*** Begin Patch\n*** Update File: src/x.py\n*** Move to: src/y.py\n@@\n-see other.md\n*** Add File: Makefile\n+all:\n*** End Patch"}"#;
        assert_eq!(of(patch), ["src/x.py", "src/y.py", "Makefile"]);
        let command = r#"{"command":"cat ./src/auth/login.rs Cargo.toml | grep -n 'v1.2.3' --max=1.5 2>/tmp/log.txt"}"#;
        assert_eq!(of(command), ["src/auth/login.rs", "Cargo.toml", "/tmp/log.txt"]);
        assert!(of(r#"{"path":null,"n":3,"text":"no file here. At all"}"#).is_empty());
    }

    #[test]
    fn there_are_never_too_many() {
        let many: Vec<String> = (0..500).map(|number| format!("f{number}.rs")).collect();
        let arguments = serde_json::json!({"command": many.join(" ")}).to_string();
        assert_eq!(of(&arguments).len(), MOST);
    }
}
