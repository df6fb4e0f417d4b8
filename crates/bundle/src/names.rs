//! The names in an archive: every path of a workspace gets one, none leads out,
//! and no two are the same to any system, not even to one that ignores case.
//!
//! What is in a renamed directory is in the renamed one. The same workspace gives
//! the same names each time. This holds for entries in any order; where a
//! directory comes right before what is in it, as in the sandbox's archives, it
//! also keeps each directory together.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::component::{self, folded};

/// The longest path, in bytes: what most systems take.
pub(crate) const LONGEST_PATH: usize = 4096;

/// What an entry is, as far as its name goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    /// Anything that nothing can be in.
    Leaf,
}

/// What a path became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A new entry of this name.
    Entry { path: String, changed: bool },
    /// A directory that is there already, the workspace itself included.
    Known,
    /// A path that no system could unpack.
    TooLong,
}

/// The names given so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Digests of the folded names. Two names with one digest would only mean
    /// that one is renamed without need.
    taken: HashSet<u128>,
    /// For names that were wanted more than once, the next number to try.
    numbers: HashMap<u128, u32>,
    /// The directories that the last path was in, from the top.
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    /// Its own name in the workspace.
    original: Vec<u8>,
    /// Its path in the archive.
    path: String,
}

impl Names {
    /// The name of a path of the workspace.
    pub(crate) fn name(&mut self, path: &[u8], kind: Kind) -> Named {
        // How archives mark a directory.
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let parts = path.split(|byte| *byte == b'/');
        let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty() && *part != b".").collect();
        let Some((last, above)) = parts.split_last() else { return Named::Known };
        let same = |(open, part): &(&Open, &&[u8])| open.original == **part;
        let shared = self.open.iter().zip(&parts).take_while(same).count();
        if kind == Kind::Directory && shared == parts.len() {
            self.open.truncate(shared);
            return Named::Known;
        }
        self.open.truncate(shared.min(above.len()));
        for part in above.iter().skip(self.open.len()) {
            if !self.enter(part) {
                return Named::TooLong;
            }
        }
        let Some(name) = self.claim(last) else { return Named::TooLong };
        if kind == Kind::Directory {
            self.open.push(Open { original: last.to_vec(), path: name.clone() });
        }
        Named::Entry { changed: name.as_bytes() != path, path: name }
    }

    /// A name at the top that nothing in the workspace has.
    pub(crate) fn own(&mut self, wanted: &str, otherwise: &str) -> String {
        self.open.clear();
        let free = !self.taken.contains(&digest("", &folded(wanted), ""));
        let wanted = if free { wanted } else { otherwise };
        self.claim(wanted.as_bytes()).unwrap_or_else(|| wanted.to_owned())
    }

    fn enter(&mut self, part: &[u8]) -> bool {
        let Some(path) = self.claim(part) else { return false };
        self.open.push(Open { original: part.to_vec(), path });
        true
    }

    /// Takes a name in the innermost open directory.
    fn claim(&mut self, part: &[u8]) -> Option<String> {
        let parent = self.open.last().map(|open| open.path.as_str()).unwrap_or_default();
        let name = component::safe(part);
        let folded_parent = folded(parent);
        if parent.len() + 1 + name.len() + component::ROOM > LONGEST_PATH {
            return None;
        }
        let mut free = name.clone();
        if !self.taken.insert(digest(&folded_parent, &folded(&name), "")) {
            let (stem, ending) = component::parts(&name);
            // By the cut stem, or names that differ only behind the cut would all
            // try the same numbers from the beginning.
            let number = digest(&folded_parent, &folded(&stem), &folded(ending));
            let number = self.numbers.entry(number).or_insert(1);
            loop {
                *number += 1;
                free = format!("{stem}_{number}{ending}");
                if self.taken.insert(digest(&folded_parent, &folded(&free), "")) {
                    break;
                }
            }
        }
        Some(if parent.is_empty() { free } else { format!("{parent}/{free}") })
    }
}

fn digest(parent: &str, name: &str, ending: &str) -> u128 {
    let mut hash = Sha256::new();
    // No name holds either of these.
    for part in [parent, "/", name, "\0", ending] {
        hash.update(part);
    }
    let hash: [u8; 32] = hash.finalize().into();
    hash.first_chunk().map_or(0, |half| u128::from_be_bytes(*half))
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
