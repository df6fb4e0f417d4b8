//! Where entries may be: each path is a plain one beneath the top, none is there
//! twice, and nothing is in a file or behind a link.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::{IntakeError, Kind, refused};

/// The longest path and the longest name in it: what systems take.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;

/// What is known of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// A file or link.
    Leaf,
    /// A directory with an entry of its own.
    Directory,
    /// A directory that something is in.
    Implied,
}

/// The paths so far.
pub(super) struct Paths {
    /// By digests of the paths. Two with one digest would only mean that an
    /// archive is refused without need.
    known: HashMap<u128, Known>,
    most: u64,
}

impl Paths {
    pub(super) fn new(most: u64) -> Self {
        Self { known: HashMap::new(), most }
    }

    /// Takes a path, and gives it without what means nothing (`./`). Nothing for
    /// the top itself, which only a directory can be.
    pub(super) fn claim(
        &mut self,
        path: &[u8],
        kind: Kind,
    ) -> Result<Option<Vec<u8>>, IntakeError> {
        let names = names(path).map_err(|why| refused(path, why))?;
        let Some((last, above)) = names.split_last() else {
            return match kind {
                Kind::Directory => Ok(None),
                Kind::File | Kind::Link => Err(refused(path, "it has no name")),
            };
        };
        let mut hash = Sha256::new();
        for name in above {
            hash.update(name);
            let found = *self.known.entry(digest(&hash)).or_insert(Known::Implied);
            if found == Known::Leaf {
                return Err(refused(path, "it is in something that is no directory"));
            }
            hash.update(b"/");
        }
        hash.update(last);
        let now = if kind == Kind::Directory { Known::Directory } else { Known::Leaf };
        match self.known.insert(digest(&hash), now) {
            None => {}
            Some(Known::Implied) if kind == Kind::Directory => {}
            Some(Known::Implied) => {
                return Err(refused(path, "something is in it, and it is no directory"));
            }
            Some(Known::Leaf | Known::Directory) => {
                return Err(refused(path, "it is there twice"));
            }
        }
        if self.known.len() as u64 > self.most {
            return Err(IntakeError::TooMuch { limit: self.most, what: "entries" });
        }
        Ok(Some(names.join(&b'/')))
    }
}

fn digest(hash: &Sha256) -> u128 {
    let hash: [u8; 32] = hash.clone().finalize().into();
    hash.first_chunk().map_or(0, |half| u128::from_be_bytes(*half))
}

/// The names of a path, or why it is none for us.
fn names(path: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    if path.is_empty() {
        return Err("it has no name");
    }
    if path.len() > LONGEST_PATH {
        return Err("its path is too long");
    }
    if path.starts_with(b"/") {
        return Err("its path is absolute");
    }
    check_bytes(path)?;
    if let [letter, b':', ..] = path
        && letter.is_ascii_alphabetic()
    {
        return Err("its path names a drive");
    }
    let parts = path.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = parts.filter(|name| !matches!(*name, b"" | b".")).collect();
    if names.contains(&b"..".as_slice()) {
        return Err("its path leads up");
    }
    if names.iter().any(|name| name.len() > LONGEST_NAME) {
        return Err("a name in its path is too long");
    }
    Ok(names)
}

fn check_bytes(path: &[u8]) -> Result<(), &'static str> {
    let controls = |text: &str| text.chars().any(char::is_control);
    if path.iter().any(u8::is_ascii_control) || str::from_utf8(path).is_ok_and(controls) {
        return Err("it has a control character in its path");
    }
    if path.contains(&b'\\') {
        return Err("it has a backslash in its path");
    }
    Ok(())
}

/// Whether a link at a path may lead there.
///
/// Going up is allowed only at the beginning, where the directories are known to
/// be real ones: behind another link, `..` would be above that link's target.
pub(super) fn check_target(path: &[u8], target: &[u8]) -> Result<(), &'static str> {
    if target.is_empty() || target.len() > LONGEST_PATH {
        return Err("it is a link to no possible name");
    }
    if target.starts_with(b"/") {
        return Err("it is a link to an absolute path");
    }
    if check_bytes(target).is_err() {
        return Err("it is a link to a name with a control character or a backslash");
    }
    if let [letter, b':', ..] = target
        && letter.is_ascii_alphabetic()
    {
        return Err("it is a link to a drive");
    }
    let depth = path.iter().filter(|byte| **byte == b'/').count();
    let parts = target.split(|byte| *byte == b'/');
    let mut parts = parts.filter(|name| !matches!(*name, b"" | b".")).peekable();
    let mut up = 0;
    while parts.next_if_eq(&b"..".as_slice()).is_some() {
        up += 1;
    }
    if up > depth {
        return Err("it is a link that leads out");
    }
    if parts.any(|part| part == b"..") {
        return Err("it is a link that goes up again on its way");
    }
    Ok(())
}
