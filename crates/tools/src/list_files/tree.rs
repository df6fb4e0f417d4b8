//! Paths as a tree: some levels of it, with what is below them counted.

use std::collections::BTreeMap;

use cofferdam_guest_protocol::{Entry, EntryKind};

use crate::lines::size;

/// A directory.
#[derive(Debug, Default)]
pub(super) struct Tree {
    entries: BTreeMap<String, Node>,
    files: u64,
    bytes: u64,
}

#[derive(Debug)]
enum Node {
    Directory(Tree),
    /// With what stands after its name.
    Leaf(String),
}

impl Tree {
    /// Adds a file by its path.
    pub(super) fn add(&mut self, path: &str, described: String, bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        match path.split_once('/') {
            None => {
                self.entries.insert(path.to_owned(), Node::Leaf(described));
            }
            Some((name, rest)) => {
                let node = self.entries.entry(name.to_owned());
                let node = node.or_insert_with(|| Node::Directory(Self::default()));
                if let Node::Directory(tree) = node {
                    tree.add(rest, described, bytes);
                }
            }
        }
    }

    /// Adds an entry that the walk before has left out: it is ignored, or a
    /// directory in which there is nothing else.
    pub(super) fn add_first_level(&mut self, name: &str, entry: &Entry, described: &str) {
        if self.entries.contains_key(name) {
            return;
        }
        let (name, note) = match entry.stat.kind {
            EntryKind::Directory => (format!("{name}/"), "(empty or ignored)".to_owned()),
            _ => (name.to_owned(), format!("{described} (ignored)")),
        };
        self.entries.insert(name, Node::Leaf(note));
    }

    /// So many levels of it, in so many lines.
    pub(super) fn show(&self, depth: usize, most: usize) -> String {
        let mut lines = Vec::new();
        self.lines(depth, 0, &mut lines);
        let more = lines.len().saturating_sub(most);
        lines.truncate(most);
        if more > 0 {
            lines.push(format!("… and {more} more; list a directory of it, or use a pattern"));
        }
        lines.join("\n") + "\n"
    }

    fn lines(&self, depth: usize, indent: usize, lines: &mut Vec<String>) {
        let space = "  ".repeat(indent);
        for (name, node) in &self.entries {
            match node {
                Node::Leaf(note) if note.is_empty() => lines.push(format!("{space}{name}")),
                Node::Leaf(note) => lines.push(format!("{space}{name}  {note}")),
                Node::Directory(tree) => {
                    let (files, bytes) = (tree.files, size(tree.bytes));
                    let word = if files == 1 { "file" } else { "files" };
                    lines.push(format!("{space}{name}/  {files} {word}, {bytes}"));
                    if depth > 1 {
                        tree.lines(depth - 1, indent + 1, lines);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_levels_are_counted_and_not_shown() {
        let mut tree = Tree::default();
        for path in ["a.txt", "src/b.rs", "src/deep/c.rs", "src/deep/er/d.rs"] {
            tree.add(path, "1 B".to_owned(), 1);
        }
        assert_eq!(
            tree.show(2, 99),
            "a.txt  1 B\nsrc/  3 files, 3 B\n  b.rs  1 B\n  deep/  2 files, 2 B\n"
        );
        assert_eq!(
            tree.show(1, 1),
            "a.txt  1 B\n… and 1 more; list a directory of it, or use a pattern\n"
        );
    }
}
