//! Where definitions begin in a file, by the grammar of its language.

use std::ops::ControlFlow;

use tree_sitter::{Language, Node, ParseOptions, Parser};

/// Bytes of a file that is parsed.
const LARGEST: usize = 1 << 20;

/// How often a parser may report, for each byte and at all. It reports every hundred
/// steps; what needs more than this is no program in that language.
const REPORTS_PER_BYTES: usize = 40;
const REPORTS_AT_LEAST: usize = 1000;

/// How deep definitions are looked for: in a class in a module, say.
const DEPTH: usize = 4;

/// Lines of a definition that is looked into.
const LARGE: usize = 40;

/// A line that begins a definition.
pub(crate) struct Begin {
    /// Which, from 0.
    pub(crate) line: usize,
    /// How deep it is; 0 at the top.
    pub(crate) depth: usize,
}

/// The lines that begin a definition of several lines, with the comments and
/// attributes above it; `None` where there is no grammar for the file, or it fails.
pub(crate) fn begins(path: &str, text: &str) -> Option<Vec<Begin>> {
    if text.len() > LARGEST {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&language(path)?).ok()?;
    let mut left = REPORTS_AT_LEAST + text.len() / REPORTS_PER_BYTES;
    let mut report = |_: &tree_sitter::ParseState| {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let bytes = text.as_bytes();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let options = ParseOptions::new().progress_callback(&mut report);
    let tree = parser.parse_with_options(&mut read, None, Some(options))?;
    let mut found = Vec::new();
    look_into(tree.root_node(), 0, &mut found);
    Some(found)
}

fn language(path: &str) -> Option<Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (_, ending) = name.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "rs" => tree_sitter_rust::LANGUAGE.into(),
        "py" | "pyi" => tree_sitter_python::LANGUAGE.into(),
        "js" | "jsx" | "mjs" | "cjs" => tree_sitter_javascript::LANGUAGE.into(),
        "ts" | "mts" | "cts" => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        "tsx" => tree_sitter_typescript::LANGUAGE_TSX.into(),
        _ => return None,
    })
}

/// What a definition is called differs between grammars; that it has several lines
/// does not.
fn look_into(node: Node<'_>, depth: usize, found: &mut Vec<Begin>) {
    let mut cursor = node.walk();
    // The first line of the comments and attributes that belong to what follows.
    let mut above: Option<(usize, usize)> = None;
    for child in node.named_children(&mut cursor) {
        let (first, last) = (child.start_position().row, child.end_position().row);
        let joined = above.filter(|(_, end)| end + 1 >= first);
        if is_about_the_next(child.kind()) {
            above = Some((joined.map_or(first, |(begin, _)| begin), last_line(child)));
            continue;
        }
        above = None;
        if last > first {
            found.push(Begin { line: joined.map_or(first, |(begin, _)| begin), depth });
        }
        if last - first >= LARGE && depth < DEPTH {
            look_into_body(child, depth + 1, found);
        }
    }
}

/// A body is a node of its own, which is no definition.
fn look_into_body(node: Node<'_>, depth: usize, found: &mut Vec<Begin>) {
    let mut cursor = node.walk();
    let rows = |node: &Node<'_>| node.end_position().row - node.start_position().row;
    let body = node.named_children(&mut cursor).max_by_key(rows);
    match body {
        Some(body) if rows(&body) >= LARGE => look_into(body, depth, found),
        _ => {}
    }
}

/// A comment to the end of its line may count the line break as its own.
fn last_line(node: Node<'_>) -> usize {
    let end = node.end_position();
    if end.column == 0 { end.row.saturating_sub(1) } else { end.row }
}

fn is_about_the_next(kind: &str) -> bool {
    kind.contains("comment") || kind == "attribute_item" || kind == "decorator"
}
