//! A tar archive that is taken in.
//!
//! Blocks are read one by one and by hand: an archive must be to every reader what
//! it is to this one. So sizes are said once, only entries that have content have
//! a size, headers that tell of the next entry are followed by it, and there is
//! an end with nothing behind it.

use std::io::{self, Read, Write};

use tar::{EntryType, Header};

use super::pax::{self, Pax};
use super::{IntakeError, Taker, broken, refused};

const BLOCK: usize = 512;

/// Where a header's checksum is.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// The longest header that tells of the next entry.
const LONGEST_HEADER: u64 = 64 << 10;

/// The last moment of the year 9999, in seconds since 1970.
const LATEST: u64 = 253_402_300_799;

/// Such headers one after the other without an entry.
const MOST_HEADERS: u32 = 16;

/// Whether an archive may begin with this block.
pub(super) fn is_header(block: &[u8]) -> bool {
    let block: Option<&[u8; BLOCK]> = block.first_chunk();
    block.is_some_and(|block| is_zero(block) || has_right_sum(block))
}

fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|byte| *byte == 0)
}

fn has_right_sum(block: &[u8; BLOCK]) -> bool {
    let sum = |(place, byte): (usize, &u8)| {
        u32::from(if CHECKSUM.contains(&place) { b' ' } else { *byte })
    };
    let sum: u32 = block.iter().enumerate().map(sum).sum();
    Header::from_byte_slice(block).cksum().is_ok_and(|said| said == sum)
}

/// Takes all entries.
pub(super) fn take<W: Write>(input: impl Read, taker: &mut Taker<W>) -> Result<(), IntakeError> {
    let mut reader = Reader { input };
    let mut told = Told::default();
    loop {
        let block = reader.block()?;
        if is_zero(&block) {
            if told.count > 0 {
                return Err(said("its last header tells of an entry that is not there"));
            }
            return reader.end();
        }
        if !has_right_sum(&block) {
            return Err(said("a header has a wrong checksum"));
        }
        let header = Header::from_byte_slice(&block);
        let size = header.entry_size().map_err(|error| broken(&error))?;
        let kind = header.entry_type();
        let name = || header.path_bytes().into_owned();
        match kind {
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader => {
                let text = reader.long(size, &name())?;
                told.add(kind, &text).map_err(|why| refused(&name(), why))?;
            }
            EntryType::XGlobalHeader => {
                let text = reader.long(size, &name())?;
                let all = pax::parse(&text).map_err(|why| refused(&name(), why))?;
                if all != Pax::default() {
                    return Err(refused(&name(), "a global header names or measures entries"));
                }
                told.count += 1;
            }
            _ => {
                let Told { path, link, size: again, .. } = std::mem::take(&mut told);
                let path = path.unwrap_or_else(name);
                let in_header = || header.link_name_bytes().unwrap_or_default().into_owned();
                let link = link.unwrap_or_else(in_header);
                if again.is_some_and(|again| again != size) {
                    return Err(refused(&path, "its size is said twice and not the same"));
                }
                reader.entry(header, &path, &link, size, taker)?;
            }
        }
        if told.count > MOST_HEADERS {
            return Err(said("it has too many headers without entries"));
        }
    }
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
    fn add(&mut self, kind: EntryType, text: &[u8]) -> Result<(), &'static str> {
        self.count += 1;
        let pax = match kind {
            EntryType::XHeader => pax::parse(text)?,
            _ => {
                // It ends with a zero, and has no other.
                let name = text.strip_suffix(b"\0").unwrap_or(text).to_vec();
                if kind == EntryType::GNULongName {
                    Pax { path: Some(name), ..Pax::default() }
                } else {
                    Pax { link: Some(name), ..Pax::default() }
                }
            }
        };
        let twice = pax.path.is_some() && self.path.is_some()
            || pax.link.is_some() && self.link.is_some()
            || pax.size.is_some() && self.size.is_some();
        if twice {
            return Err("two headers name or measure the same entry");
        }
        self.path = self.path.take().or(pax.path);
        self.link = self.link.take().or(pax.link);
        self.size = self.size.or(pax.size);
        Ok(())
    }
}

struct Reader<R> {
    input: R,
}

impl<R: Read> Reader<R> {
    fn block(&mut self) -> Result<[u8; BLOCK], IntakeError> {
        let mut block = [0; BLOCK];
        self.input.read_exact(&mut block).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => said("it has no end: it was cut off"),
            _ => broken(&error),
        })?;
        Ok(block)
    }

    /// The second block of zeros, and nothing else but zeros behind it.
    fn end(&mut self) -> Result<(), IntakeError> {
        if !is_zero(&self.block()?) {
            return Err(said("something is behind half an end"));
        }
        let mut rest = [0; 16 * BLOCK];
        loop {
            let count = match self.input.read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(&error)),
            };
            if !is_zero(rest.get(..count).unwrap_or_default()) {
                return Err(said("something is behind its end"));
            }
        }
    }

    /// The content of a header that tells of the next entry.
    fn long(&mut self, size: u64, name: &[u8]) -> Result<Vec<u8>, IntakeError> {
        if size > LONGEST_HEADER {
            return Err(refused(name, "a header of it is too long"));
        }
        let mut text = Vec::new();
        (&mut self.input).take(size).read_to_end(&mut text).map_err(|error| broken(&error))?;
        if text.len() as u64 != size {
            return Err(said("it has no end: it was cut off"));
        }
        self.padding(size)?;
        Ok(text)
    }

    fn padding(&mut self, size: u64) -> Result<(), IntakeError> {
        let length = usize::try_from(size.next_multiple_of(BLOCK as u64) - size).unwrap_or(0);
        let mut block = [0; BLOCK];
        let padding = block.get_mut(..length).unwrap_or_default();
        self.input.read_exact(padding).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => said("it has no end: it was cut off"),
            _ => broken(&error),
        })
    }

    fn entry<W: Write>(
        &mut self,
        header: &Header,
        path: &[u8],
        link: &[u8],
        size: u64,
        taker: &mut Taker<W>,
    ) -> Result<(), IntakeError> {
        let kind = header.entry_type();
        let mode = header.mode().map_err(|_| refused(path, "its mode is no number"))?;
        // Times before 1970 are no reason to refuse it.
        let changed = header.mtime().unwrap_or(0).min(LATEST);
        // How archives from before 1988 mark a directory.
        let is_directory = kind.is_dir() || kind.is_file() && path.ends_with(b"/");
        if size > 0 && (is_directory || !kind.is_file()) && is_taken(kind) {
            return Err(refused(path, "it has content and is no file"));
        }
        if is_directory {
            return taker.directory(path, mode, changed);
        }
        match kind {
            EntryType::Regular => {
                let mut content = (&mut self.input).take(size);
                taker.file(path, mode, changed, size, &mut content)?;
                self.padding(size)
            }
            EntryType::Symlink => taker.link(path, link, changed),
            EntryType::Link => Err(refused(path, "it is a hard link: pack it as a file")),
            EntryType::Char | EntryType::Block => Err(refused(path, "it is a device")),
            EntryType::Fifo => Err(refused(path, "it is a pipe")),
            EntryType::GNUSparse => Err(refused(path, "it is sparse: pack it without that")),
            other => {
                let kind = char::from(other.as_byte()).escape_default();
                Err(refused(path, format!("it is of the unknown kind {kind}")))
            }
        }
    }
}

fn is_taken(kind: EntryType) -> bool {
    kind.is_file() || kind.is_dir() || kind.is_symlink()
}

fn said(what: &str) -> IntakeError {
    IntakeError::Broken { what: what.to_owned() }
}
