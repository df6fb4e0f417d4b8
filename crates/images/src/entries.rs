//! The entries of a tar archive that somebody else made, each with its whole name.
//!
//! Long names and extended headers are read here and not by the library, which would take as
//! much memory as they say. Sparse files and sizes that are said twice are refused: readers
//! differ in what they make of them.

use std::io::{self, Read, Seek};

use tar::EntryType;

use crate::error::ImageError;

/// The longest header that tells of the next entry, and the longest name in one.
const LONGEST_HEADER: u64 = 1 << 20;
pub(crate) const LONGEST_NAME: usize = 4095;

/// What the size in a header can say at most. Larger ones are said elsewhere, in ways that readers
/// differ in.
const LARGEST: u64 = 0o77_777_777_777;

/// Such headers one after the other without an entry.
const MOST_HEADERS: u32 = 16;

/// Why an archive is not unpacked.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The archive is to blame.
    Bad(String),
    /// Something else.
    Other(ImageError),
}

impl Fault {
    pub(crate) fn bad(reason: impl Into<String>) -> Self {
        Self::Bad(reason.into())
    }

    /// Blames an entry.
    pub(crate) fn entry(path: &[u8], reason: &str) -> Self {
        Self::Bad(format!("{}: {reason}", shown(path)))
    }
}

/// What cannot be read is the archive's fault.
impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Bad(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it was cut off".to_owned(),
            _ => format!("it cannot be read: {error}"),
        })
    }
}

/// A foreign name for people: quoted, and not too long.
pub(crate) fn shown(path: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(path).chars().take(200).collect();
    format!("{text:?}")
}

/// What an archive says of one entry.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: EntryType,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) mtime: u64,
    /// Where its content begins in the archive.
    pub(crate) position: u64,
}

/// Calls `take` for every entry with its content, and gives back the reader where the archive
/// ends. Content that is not read is skipped.
pub(crate) fn each<R: Read>(
    reader: R,
    take: &mut dyn FnMut(&Entry, &mut dyn Read) -> Result<(), Fault>,
) -> Result<R, Fault> {
    let mut archive = tar::Archive::new(reader);
    walk(archive.entries()?, take)?;
    Ok(archive.into_inner())
}

/// The same without reading content that is skipped.
pub(crate) fn skim<R: Read + Seek>(
    reader: R,
    take: &mut dyn FnMut(&Entry, &mut dyn Read) -> Result<(), Fault>,
) -> Result<(), Fault> {
    walk(tar::Archive::new(reader).entries_with_seek()?, take)
}

fn walk<R: Read>(
    entries: tar::Entries<'_, R>,
    take: &mut dyn FnMut(&Entry, &mut dyn Read) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut told = Told::default();
    for raw in entries.raw(true) {
        let mut raw = raw?;
        let (kind, size) = (raw.header().entry_type(), raw.header().entry_size()?);
        match kind {
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader => {
                told.add(kind, &content(&mut raw, size)?)?;
                continue;
            }
            // Of the whole archive: who made it, and when.
            EntryType::XGlobalHeader => continue,
            EntryType::GNUSparse => return Err(Fault::bad("it has sparse files")),
            _ => {}
        }
        let told = std::mem::take(&mut told);
        let header = raw.header();
        let link = || header.link_name_bytes().unwrap_or_default().into_owned();
        let entry = Entry {
            path: told.path.unwrap_or_else(|| header.path_bytes().into_owned()),
            link: told.link.unwrap_or_else(link),
            kind,
            size,
            mode: header.mode().unwrap_or(0o644),
            mtime: header.mtime().unwrap_or(0),
            position: raw.raw_file_position(),
        };
        if entry.path.len() > LONGEST_NAME || entry.link.len() > LONGEST_NAME {
            return Err(Fault::entry(&entry.path, "its name is too long"));
        }
        if size == 0 && told.size.is_some_and(|again| again > LARGEST) {
            return Err(Fault::entry(&entry.path, "it is larger than 8 GiB, and none may be"));
        }
        if told.size.is_some_and(|again| again != size) {
            return Err(Fault::entry(&entry.path, "its size is said twice and not the same"));
        }
        take(&entry, &mut raw)?;
    }
    if told.count > 0 {
        return Err(Fault::bad("its last header tells of an entry that is not there"));
    }
    Ok(())
}

fn content(raw: &mut impl Read, size: u64) -> Result<Vec<u8>, Fault> {
    if size > LONGEST_HEADER {
        return Err(Fault::bad("it has a header that is too long"));
    }
    let mut text = Vec::new();
    raw.take(size).read_to_end(&mut text)?;
    if text.len() as u64 != size {
        return Err(Fault::bad("it was cut off"));
    }
    Ok(text)
}

/// What headers have told of the next entry.
#[derive(Default)]
struct Told {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    count: u32,
}

impl Told {
    fn add(&mut self, kind: EntryType, text: &[u8]) -> Result<(), Fault> {
        self.count += 1;
        if self.count > MOST_HEADERS {
            return Err(Fault::bad("it has too many headers without entries"));
        }
        match kind {
            EntryType::GNULongName => self.path = Some(name(text)),
            EntryType::GNULongLink => self.link = Some(name(text)),
            _ => {
                for (key, value) in records(text).ok_or_else(|| Fault::bad("a header is broken"))? {
                    match key {
                        b"path" => self.path = Some(value.to_vec()),
                        b"linkpath" => self.link = Some(value.to_vec()),
                        b"size" => {
                            let number = str::from_utf8(value).ok().and_then(|it| it.parse().ok());
                            self.size = Some(number.unwrap_or(u64::MAX));
                        }
                        key if key.starts_with(b"GNU.sparse.") => {
                            return Err(Fault::bad("it has sparse files"));
                        }
                        // Times to the nanosecond, owners, and attributes, which may be
                        // privileges.
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

/// A long name ends with a zero.
fn name(text: &[u8]) -> Vec<u8> {
    text.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// The records of an extended header: `LENGTH KEY=VALUE\n`. Values may be any bytes.
fn records(mut text: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut records = Vec::new();
    while !text.is_empty() {
        let space = text.iter().position(|byte| *byte == b' ')?;
        let length: usize = str::from_utf8(text.get(..space)?).ok()?.parse().ok()?;
        let record = text.get(space + 1..length)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|byte| *byte == b'=')?;
        records.push((record.get(..equals)?, record.get(equals + 1..)?));
        text = text.get(length..)?;
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_may_hold_any_bytes_and_say_how_long_they_are() {
        assert_eq!(
            records(b"10 path=a\n11 x=1\n2\x003\n"),
            Some(vec![(&b"path"[..], &b"a"[..]), (b"x", b"1\n2\x003")])
        );
        for broken in ["8 path=a\n", "99 path=a\n", "x path=a\n", "7 path\n", "3 \n", "0 a=b\n"] {
            assert_eq!(records(broken.as_bytes()), None, "{broken:?}");
        }
    }

    #[test]
    fn foreign_names_are_tamed() {
        assert_eq!(shown(b"a\x1b[2J\xff"), "\"a\\u{1b}[2J\u{fffd}\"");
        assert!(shown(&[b'a'; 4000]).len() < 220);
    }
}
