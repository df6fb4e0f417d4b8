//! One change in git's words.

use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use sha1::{Digest, Sha1};
use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use super::base85;
use crate::component::folded;
use crate::manifest::hexadecimal;

/// The longest file that is compared by lines.
const LONGEST_TEXT: usize = 1 << 20;

/// Lines around a change.
const AROUND: usize = 3;

/// What git calls something that is not there.
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// What git keeps of a file's permissions and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Plain,
    Program,
    Link,
}

impl Mode {
    fn text(self) -> &'static str {
        match self {
            Self::Plain => "100644",
            Self::Program => "100755",
            Self::Link => "120000",
        }
    }
}

/// One side of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) mode: Mode,
    /// Of a link, where it leads.
    pub(super) content: Bytes,
}

impl Version {
    fn is_text(&self) -> bool {
        self.content.len() <= LONGEST_TEXT && !self.content.contains(&0)
    }

    fn hash(&self) -> String {
        let mut hash = Sha1::new();
        hash.update(format!("blob {}\0", self.content.len()));
        hash.update(&self.content);
        hexadecimal(&hash.finalize())
    }
}

/// Why git would refuse a path, if it would.
pub(super) fn refused(path: &[u8], is_link: bool) -> Option<&'static str> {
    for part in path.split(|byte| *byte == b'/') {
        let name = folded(&String::from_utf8_lossy(part));
        // Windows takes what is before these for the whole name.
        let name = name.split(['\\', ':']).next().unwrap_or_default().trim_end_matches(['.', ' ']);
        if matches!(name, ".git" | "git~1") {
            return Some("git takes its name for its own directory");
        }
        let modules = [".gitmod", "gitmod~", "gi7eba~", "gi7eb"];
        if is_link && modules.iter().any(|start| name.starts_with(start)) {
            return Some("git takes no links of this name");
        }
    }
    None
}

/// A change of one path.
pub(super) fn change(
    path: &[u8],
    old: Option<&Version>,
    new: Option<&Version>,
    until: Instant,
) -> Vec<u8> {
    let kinds = (old.map(|old| old.mode == Mode::Link), new.map(|new| new.mode == Mode::Link));
    if matches!(kinds, (Some(was), Some(is)) if was != is) {
        // A link in a file's place is another thing, not a change of it.
        let mut text = one(path, old, None, until);
        text.extend(one(path, None, new, until));
        return text;
    }
    one(path, old, new, until)
}

fn one(path: &[u8], old: Option<&Version>, new: Option<&Version>, until: Instant) -> Vec<u8> {
    let (ours, theirs) = (prefixed(b"a/", path), prefixed(b"b/", path));
    let mut text = [b"diff --git ", ours.as_slice(), b" ", theirs.as_slice(), b"\n"].concat();
    let mut line = |words: &str| {
        text.extend_from_slice(words.as_bytes());
        text.push(b'\n');
    };
    let mut same_mode = None;
    match (old, new) {
        (None, Some(new)) => line(&format!("new file mode {}", new.mode.text())),
        (Some(old), None) => line(&format!("deleted file mode {}", old.mode.text())),
        (Some(old), Some(new)) if old.mode == new.mode => same_mode = Some(old.mode),
        (Some(old), Some(new)) => {
            line(&format!("old mode {}", old.mode.text()));
            line(&format!("new mode {}", new.mode.text()));
        }
        (None, None) => {}
    }
    let content = |version: Option<&Version>| version.map(|version| version.content.clone());
    let (was, is) = (content(old).unwrap_or_default(), content(new).unwrap_or_default());
    if old.is_some() && new.is_some() && was == is {
        return text;
    }
    let hash = |version: Option<&Version>| version.map_or(NOTHING.to_owned(), Version::hash);
    let mode = same_mode.map_or(String::new(), |mode| format!(" {}", mode.text()));
    line(&format!("index {}..{}{mode}", hash(old), hash(new)));
    if old.is_none_or(Version::is_text) && new.is_none_or(Version::is_text) {
        // An empty file that comes or goes has no lines.
        if !(was.is_empty() && is.is_empty()) {
            // Behind a tab, so that a space in a name does not end it.
            let end: &[u8] = if path.contains(&b' ') { b"\t\n" } else { b"\n" };
            let name = |there: bool, name: &[u8]| match there {
                true => [name, end].concat(),
                false => b"/dev/null\n".to_vec(),
            };
            text.extend_from_slice(b"--- ");
            text.extend(name(old.is_some(), &ours));
            text.extend_from_slice(b"+++ ");
            text.extend(name(new.is_some(), &theirs));
            hunks(&was, &is, until, &mut text);
        }
    } else {
        text.extend_from_slice(b"GIT binary patch\n");
        // Compressing into memory does not fail.
        text.extend(base85::literal(&is).unwrap_or_default());
        text.extend(base85::literal(&was).unwrap_or_default());
    }
    text
}

/// Lines that are replaced by others; either may be none.
struct Replaced {
    old: Range<usize>,
    new: Range<usize>,
}

fn hunks(was: &[u8], is: &[u8], until: Instant, text: &mut Vec<u8>) {
    let lines = |bytes| -> Vec<&[u8]> { <[u8]>::split_inclusive(bytes, |b| *b == b'\n').collect() };
    let (old, new) = (lines(was), lines(is));
    let replaced = replaced(&old, &new, until);
    // Changes with few lines between them are in one hunk.
    for group in replaced.chunk_by(|one, next| next.old.start - one.old.end <= 2 * AROUND) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let before = first.old.start.min(AROUND);
        let after = (old.len() - last.old.end).min(AROUND);
        let span = |from: usize, to: usize| {
            let count = to - from;
            // Nothing is said to be behind the line before it.
            let from = if count == 0 { from } else { from + 1 };
            if count == 1 { format!("{from}") } else { format!("{from},{count}") }
        };
        let olds = span(first.old.start - before, last.old.end + after);
        let news = span(first.new.start - before, last.new.end + after);
        text.extend_from_slice(format!("@@ -{olds} +{news} @@\n").as_bytes());
        let mut at = first.old.start - before;
        for change in group {
            write(b' ', old.get(at..change.old.start).unwrap_or_default(), text);
            write(b'-', old.get(change.old.clone()).unwrap_or_default(), text);
            write(b'+', new.get(change.new.clone()).unwrap_or_default(), text);
            at = change.old.end;
        }
        write(b' ', old.get(at..at + after).unwrap_or_default(), text);
    }
}

/// What is different between lines. Only what the library finds to be the same is
/// taken from it: when its time is up, what it says of the rest may be wrong.
fn replaced(old: &[&[u8]], new: &[&[u8]], until: Instant) -> Vec<Replaced> {
    let steps = capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(until));
    let mut found = Vec::new();
    let (mut from_old, mut from_new) = (0, 0);
    let mut until_match = |was: Range<usize>, is: Range<usize>| {
        let same = was.start >= from_old
            && is.start >= from_new
            && old.get(was.clone()) == new.get(is.clone());
        if !same {
            return;
        }
        if was.start > from_old || is.start > from_new {
            found.push(Replaced { old: from_old..was.start, new: from_new..is.start });
        }
        (from_old, from_new) = (was.end, is.end);
    };
    for step in steps {
        let (tag, was, is) = step.as_tag_tuple();
        if tag == DiffTag::Equal {
            until_match(was, is);
        }
    }
    until_match(old.len()..old.len(), new.len()..new.len());
    found
}

fn write(sign: u8, lines: &[&[u8]], text: &mut Vec<u8>) {
    for line in lines {
        text.push(sign);
        text.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            text.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

/// A path as git writes it: in quotes where it has to be.
fn prefixed(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    let whole = [prefix, path].concat();
    let plain = |byte: &u8| matches!(byte, 0x20..0x7f) && !b"\"\\".contains(byte);
    if whole.iter().all(plain) { whole } else { always_quoted(&whole) }
}

/// A path in quotes.
pub(super) fn always_quoted(path: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            0x07 => text.extend(b"\\a"),
            0x08 => text.extend(b"\\b"),
            b'\t' => text.extend(b"\\t"),
            b'\n' => text.extend(b"\\n"),
            0x0b => text.extend(b"\\v"),
            0x0c => text.extend(b"\\f"),
            b'\r' => text.extend(b"\\r"),
            0x20..0x7f => text.push(*byte),
            other => text.extend(format!("\\{other:03o}").into_bytes()),
        }
    }
    text.push(b'"');
    text
}

#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;
