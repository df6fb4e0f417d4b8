//! Where definitions begin in a file, by how lines of its language begin.
//!
//! No parser: the files are whatever a sandbox wrote, and this runs where the keys are. A
//! real grammar would be a few hundred thousand lines of C. Indentation and first words
//! find nearly the same lines, and a wrong guess only cuts a piece elsewhere.

/// Bytes of a file that is looked at.
const LARGEST: usize = 1 << 20;

/// A line that begins a definition.
pub(crate) struct Begin {
    /// Which, from 0.
    pub(crate) line: usize,
    /// How deep it is; 0 at the top.
    pub(crate) depth: usize,
}

/// Words that may stand before the one that tells a definition.
const BEFORE: &[&str] = &[
    "abstract",
    "async",
    "const",
    "declare",
    "default",
    "export",
    "extern",
    "final",
    "internal",
    "private",
    "protected",
    "pub",
    "public",
    "readonly",
    "static",
    "unsafe",
    "virtual",
];

/// Words that a definition begins with.
const DEFINES: &[&str] = &[
    "class",
    "def",
    "enum",
    "fn",
    "func",
    "function",
    "impl",
    "interface",
    "macro_rules!",
    "mod",
    "module",
    "namespace",
    "record",
    "struct",
    "trait",
    "type",
    "union",
];

/// Words that one at the top begins with as well.
const DEFINES_AT_THE_TOP: &[&str] = &["const", "let", "var", "static", "export", "module.exports"];

/// What a line about the next one begins with.
const ABOUT_THE_NEXT: &[&str] = &["//", "#[", "@", "/*", "* ", "*/"];

/// The lines that begin a definition, with the comments and attributes above it; `None`
/// where the language is not known.
pub(crate) fn begins(path: &str, text: &str) -> Option<Vec<Begin>> {
    if text.len() > LARGEST {
        return None;
    }
    let marks = comments(path)?;
    let mut found = Vec::new();
    // The first line of the comments and attributes that belong to what follows.
    let mut above: Option<usize> = None;
    for (number, line) in text.lines().enumerate() {
        let words = line.trim_start();
        let depth = depth(line);
        if words.is_empty() {
            above = None;
        } else if marks.iter().any(|mark| words.starts_with(mark)) {
            above = above.or(Some(number));
        } else {
            if defines(words, depth) {
                found.push(Begin { line: above.unwrap_or(number), depth });
            }
            above = None;
        }
    }
    Some(found)
}

/// What lines about the next one begin with in the language of a file.
fn comments(path: &str) -> Option<Vec<&'static str>> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (_, ending) = name.rsplit_once('.')?;
    let hash = matches!(ending, "py" | "pyi" | "rb");
    let known = matches!(
        ending,
        "rs" | "js"
            | "jsx"
            | "mjs"
            | "cjs"
            | "ts"
            | "mts"
            | "cts"
            | "tsx"
            | "go"
            | "java"
            | "kt"
            | "c"
            | "h"
            | "cc"
            | "cpp"
            | "hpp"
            | "cs"
            | "swift"
            | "php"
            | "scala"
    );
    match (hash, known) {
        (true, _) => Some(vec!["#", "@"]),
        (_, true) => Some(ABOUT_THE_NEXT.to_vec()),
        _ => None,
    }
}

/// How deep a line is indented, by tabs or fours of spaces.
fn depth(line: &str) -> usize {
    let indent = line.len() - line.trim_start().len();
    if line.starts_with('\t') { indent } else { indent.div_ceil(4) }
}

fn defines(line: &str, depth: usize) -> bool {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '(' | '<' | '{' | '*');
    let mut words = line.split(is_end).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    if depth == 0 && DEFINES_AT_THE_TOP.contains(&first) {
        return true;
    }
    let mut word = first;
    for _ in 0..4 {
        if DEFINES.contains(&word) {
            return true;
        }
        // `pub(crate) fn`: what stands in brackets is not a word of its own.
        if !BEFORE.contains(&word) && !word.ends_with(')') {
            return false;
        }
        word = words.next().unwrap_or_default();
    }
    false
}
