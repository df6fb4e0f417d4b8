//! The entries of the sandbox's archive.
//!
//! Headers that stand for others, such as long names, are joined to the entry
//! they belong to. They are read by hand, because the library would take any
//! length of them into memory.

use std::io::{self, Read};

use tar::{Entry, EntryType};

use crate::error::BundleError;

/// What is kept of a name. A longer one is far too long to be unpacked.
const LONGEST_NAME: u64 = 64 << 10;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    File,
    Directory,
    Link,
    /// Nothing that an archive can hold.
    Other(&'static str),
}

/// An entry without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) what: What,
    pub(crate) path: Vec<u8>,
    /// Where a link leads.
    pub(crate) link: Vec<u8>,
    /// Whether path or link are only the beginning.
    pub(crate) cut: bool,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    /// When it was changed, in seconds since 1970.
    pub(crate) changed: u64,
}

/// Headers that stand for the next entry's.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    cut: bool,
}

impl Heads {
    /// The next entry; `None` for a header that only tells of the next one.
    pub(crate) fn take<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
    ) -> Result<Option<Head>, BundleError> {
        let what = match entry.header().entry_type() {
            EntryType::GNULongName => {
                self.path = Some(self.long_name(entry)?);
                return Ok(None);
            }
            EntryType::GNULongLink => {
                self.link = Some(self.long_name(entry)?);
                return Ok(None);
            }
            EntryType::Regular | EntryType::Continuous => What::File,
            EntryType::Directory => What::Directory,
            EntryType::Symlink => What::Link,
            EntryType::Link => What::Other("a hard link"),
            EntryType::Fifo => What::Other("a pipe"),
            EntryType::Char | EntryType::Block => What::Other("a device"),
            other => {
                let what = format!("it has an entry of kind {other:?}");
                return Err(BundleError::Broken { what });
            }
        };
        let header = entry.header();
        let head = Head {
            what,
            path: self.path.take().unwrap_or_else(|| header.path_bytes().into_owned()),
            link: self
                .link
                .take()
                .or_else(|| header.link_name_bytes().map(|link| link.into_owned()))
                .unwrap_or_default(),
            cut: std::mem::take(&mut self.cut),
            size: header.entry_size().map_err(|error| broken(&error))?,
            mode: header.mode().unwrap_or(0) & 0o777,
            changed: header.mtime().unwrap_or(0),
        };
        Ok(Some(head))
    }

    fn long_name<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<Vec<u8>, BundleError> {
        let mut name = Vec::new();
        let mut start = entry.take(LONGEST_NAME);
        start.read_to_end(&mut name).map_err(|error| broken(&error))?;
        let rest = io::copy(entry, &mut io::sink()).map_err(|error| broken(&error))?;
        self.cut |= rest > 0;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        name.truncate(end);
        Ok(name)
    }
}

/// The error of an archive that cannot be read.
pub(crate) fn broken(error: &io::Error) -> BundleError {
    BundleError::Broken { what: error.to_string() }
}

#[cfg(test)]
mod tests {
    use tar::{Archive, Builder, Header};

    use super::*;

    fn heads(archive: &[u8]) -> Result<Vec<Head>, BundleError> {
        let mut archive = Archive::new(archive);
        let (mut heads, mut found) = (Heads::default(), Vec::new());
        for entry in archive.entries().unwrap().raw(true) {
            let mut entry = entry.map_err(|error| broken(&error))?;
            found.extend(heads.take(&mut entry)?);
        }
        Ok(found)
    }

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o6755);
        header.set_mtime(7);
        header.set_cksum();
        header
    }

    #[test]
    fn long_names_belong_to_the_next_entry_alone() {
        let mut builder = Builder::new(Vec::new());
        let long = "d/".repeat(200) + "file";
        builder.append_data(&mut header(EntryType::Regular, 2), &long, b"ab".as_slice()).unwrap();
        let target = "t".repeat(150);
        builder.append_link(&mut header(EntryType::Symlink, 0), "link", &target).unwrap();
        builder.append_data(&mut header(EntryType::Fifo, 0), "pipe", io::empty()).unwrap();
        let heads = heads(&builder.into_inner().unwrap()).unwrap();
        let paths: Vec<&[u8]> = heads.iter().map(|head| head.path.as_slice()).collect();
        assert_eq!(paths, [long.as_bytes(), b"link", b"pipe"]);
        assert_eq!((heads[0].size, heads[0].mode, heads[0].changed), (2, 0o755, 7));
        assert_eq!(heads[1].link, target.as_bytes());
        assert!(heads[2].link.is_empty());
        assert_eq!(heads[2].what, What::Other("a pipe"));
        assert!(heads.iter().all(|head| !head.cut));
    }

    #[test]
    fn endless_names_are_cut_and_said_to_be() {
        let mut builder = Builder::new(Vec::new());
        let name = vec![b'n'; 3 << 20];
        let long = header(EntryType::GNULongName, name.len() as u64);
        builder.append(&long, name.as_slice()).unwrap();
        builder.append(&header(EntryType::Regular, 0), io::empty()).unwrap();
        let heads = heads(&builder.into_inner().unwrap()).unwrap();
        assert_eq!((heads.len(), heads[0].cut), (1, true));
        assert_eq!(heads[0].path.len() as u64, LONGEST_NAME);
    }

    #[test]
    fn what_is_no_archive_is_an_error() {
        assert!(matches!(heads(&[9; 4096]), Err(BundleError::Broken { .. })));
        let mut builder = Builder::new(Vec::new());
        builder.append(&header(EntryType::GNUSparse, 0), io::empty()).unwrap();
        let archive = builder.into_inner().unwrap();
        assert!(matches!(heads(&archive), Err(BundleError::Broken { .. })));
    }
}
