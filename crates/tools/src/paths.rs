//! Paths as models write them, and names that are near to one that is not there.
//!
//! Whether a path stays in the workspace the guest decides, when it opens it.

use cofferdam_sandbox::{Files, Ignored, WORKSPACE};

use crate::cut::readable;
use crate::trouble::Trouble;

/// Names looked at when one is missing.
const LOOKED_AT: u32 = 2_000;

/// Names suggested.
const SUGGESTED: usize = 5;

/// The longest path anybody means.
const LONGEST: usize = 4_096;

/// Refuses what cannot be a path.
pub(crate) fn check(path: &str) -> Result<(), Trouble> {
    if path.trim().is_empty() {
        return Err(Trouble::refused("`path` is empty; give a path relative to /workspace"));
    }
    if path.contains('\0') || path.len() > LONGEST {
        return Err(Trouble::refused("`path` holds a NUL byte or is too long"));
    }
    Ok(())
}

/// The path without what does not change its meaning, so that two ways to write
/// it are one. `None` when it leads out of the workspace by what it says.
pub(crate) fn plain(path: &str) -> Option<String> {
    let relative = match path.strip_prefix(WORKSPACE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ if path.starts_with('/') => return None,
        _ => path,
    };
    let mut parts = Vec::new();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// What to say about a path that is not there: names near to it, and the same
/// name elsewhere.
pub(crate) async fn missing(files: &Files, path: &str) -> String {
    let mut text = format!("{path}: no such file or directory");
    let Some(plain) = plain(path) else { return text };
    let (parent, name) = plain.rsplit_once('/').unwrap_or(("", &plain));
    let escaped: String = name.chars().flat_map(escape).collect();
    let (beside, elsewhere) = tokio::join!(
        files.list(if parent.is_empty() { "." } else { parent }, 1, LOOKED_AT),
        files.glob(".", format!("**/{escaped}"), Ignored::LeaveOut, 3),
    );
    let mut suggestions: Vec<String> = Vec::new();
    if let Ok(found) = elsewhere {
        suggestions.extend(found.records.iter().map(|entry| readable(&entry.path)));
    }
    match beside {
        Ok(found) => {
            let names = found.records.iter().map(|entry| readable(&entry.path));
            suggestions.extend(nearest(name, names));
        }
        Err(_) if !parent.is_empty() => {
            text.push_str(&format!("; there is no directory {parent} either"));
        }
        Err(_) => {}
    }
    suggestions.dedup();
    suggestions.truncate(SUGGESTED);
    if !suggestions.is_empty() {
        text.push_str(&format!(". Did you mean {}?", suggestions.join(", ")));
    }
    text
}

fn escape(character: char) -> impl Iterator<Item = char> {
    let special = "*?[]{}\\,".contains(character);
    special.then_some('\\').into_iter().chain(std::iter::once(character))
}

/// Those of the paths whose name is near to the wanted one, the nearest first.
fn nearest(wanted: &str, paths: impl Iterator<Item = String>) -> Vec<String> {
    let wanted_lower = wanted.to_lowercase();
    let most = (wanted_lower.chars().count() / 3).max(1);
    let name_of = |path: &str| path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let mut near: Vec<(usize, String)> = paths
        .map(|path| (distance(&wanted_lower, &name_of(&path), most), path))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    near.sort();
    near.into_iter().map(|(_, path)| path).collect()
}

/// How many characters must be added, removed or changed; `most + 1` stands for
/// anything above.
fn distance(a: &str, b: &str, most: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > most || a.len().min(b.len()) > 512 {
        return most + 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let change = diagonal + usize::from(x != y);
            diagonal = *cell;
            *cell = change.min(diagonal + 1).min(left + 1);
            left = *cell;
        }
    }
    row.last().copied().unwrap_or(0).min(most + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ways_to_write_a_path_are_one() {
        for path in ["a/b", "./a/b", "a//b/", "/workspace/a/b", "a/./b", "c/../a/b"] {
            assert_eq!(plain(path).as_deref(), Some("a/b"), "{path}");
        }
        for path in ["/etc/passwd", "../a", "a/../../b", "/workspaces/a", "/workspace/../a"] {
            assert_eq!(plain(path), None, "{path}");
        }
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["src/main.rs", "src/mian.rs", "src/Main.rs", "src/other.py", "src/lib.rs"];
        let found = nearest("mani.rs", names.iter().map(|name| (*name).to_owned()));
        assert_eq!(found, ["src/Main.rs", "src/main.rs", "src/mian.rs"]);
        assert!(nearest("x", ["completely/else"].iter().map(|n| (*n).to_owned())).is_empty());
    }

    #[test]
    fn the_distance_counts_changes() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "abd", 1), ("abc", "bc", 1), ("ab", "ba", 2)]
        {
            assert_eq!(distance(a, b, 9), expected, "{a} {b}");
        }
        assert_eq!(distance("abcdef", "uvwxyz", 2), 3);
    }
}
