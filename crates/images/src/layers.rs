//! The layers of an image: each is checked as a whole before any of it is unpacked.
//!
//! What a layer removes is removed before what it brings is written, whatever the order in its
//! archive: a removal is about the layers below.

use std::collections::BTreeMap;
use std::io::Read;

use tar::EntryType;

use crate::confined::{Confined, Inside, New};
use crate::entries::{self, Entry, Fault};
use crate::manifest::Digest;
use crate::stream::{Opened, Stretch, Summed, Watch};

/// What removes the name behind it from the layers below.
const WHITEOUT: &[u8] = b".wh.";
/// What removes everything in its directory from the layers below.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Notes of a file system that layers were once made with.
const NOTES: &[u8] = b".wh..wh.";

/// How much memory lists of names may take, about.
const MOST_NAMES: usize = 64 << 20;

/// What a name in a list takes besides its bytes, about.
const PER_NAME: usize = 64;

/// How large an image may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Bytes of all layers, out of their compression.
    pub bytes: u64,
    /// Entries of all layers.
    pub entries: u64,
    /// Layers.
    pub layers: usize,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self { bytes: 64 << 30, entries: 4_000_000, layers: 256 }
    }
}

/// What of the limits is left for the next layer.
pub(crate) struct Left {
    pub(crate) bytes: u64,
    entries: u64,
    names: usize,
}

impl From<UnpackLimits> for Left {
    fn from(limits: UnpackLimits) -> Self {
        Self { bytes: limits.bytes, entries: limits.entries, names: MOST_NAMES }
    }
}

/// A layer in an archive.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Where it is.
    pub(crate) at: u64,
    pub(crate) size: u64,
    /// What its bytes add up to, if the archive says so.
    pub(crate) digest: Option<Digest>,
    /// What they add up to out of their compression.
    pub(crate) content: Digest,
}

impl Layer {
    fn stretch<'a>(&self, file: &'a std::fs::File) -> Stretch<'a> {
        Stretch { file, at: self.at, left: self.size }
    }
}

/// What a layer takes away from those below.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    names: Vec<Inside>,
    directories: Vec<Inside>,
}

/// Whether a layer is what the image says; what it removes. What it needs is taken off the
/// limits.
pub(crate) fn check<'a>(
    layer: &Layer,
    file: &'a std::fs::File,
    watch: &'a dyn Watch,
    left: &mut Left,
) -> Result<Removals, Fault> {
    let opened = Opened::new(layer.stretch(file), watch, layer.digest.is_some())?;
    let content = Summed::new(opened, true, left.bytes);
    let mut removals = Removals::default();
    let content = entries::each(content, &mut |entry, _| {
        left.entries =
            left.entries.checked_sub(1).ok_or_else(|| Fault::bad("it has too many files"))?;
        let path = Inside::new(&entry.path)?;
        removals.hear(&path, &mut left.names)
    })?;
    let (opened, bytes, sum) = content.finish()?;
    left.bytes = bytes;
    let wrong = "a layer is not what the image says: it is damaged, or somebody has changed it";
    if sum != Some(layer.content.0) {
        return Err(Fault::bad(wrong));
    }
    match (&layer.digest, opened.finish()?) {
        (Some(digest), Some(sum)) if digest.0 != sum => Err(Fault::bad(wrong)),
        _ => Ok(removals),
    }
}

impl Removals {
    /// Notes an entry if it removes something.
    fn hear(&mut self, path: &Inside, names: &mut usize) -> Result<(), Fault> {
        let Some((parent, name)) = path.split() else { return Ok(()) };
        if name == OPAQUE {
            self.directories.push(Inside::new(parent)?);
        } else if let Some(removed) = removed(name) {
            let odd = || Fault::entry(path.as_bytes(), "it removes what cannot be removed");
            let whole = [parent, removed].join(&b'/');
            if matches!(removed, b"" | b"." | b"..") {
                return Err(odd());
            }
            self.names.push(Inside::new(&whole)?);
        } else {
            return Ok(());
        }
        *names = names
            .checked_sub(path.as_bytes().len() + PER_NAME)
            .ok_or_else(|| Fault::bad("its layers remove too much"))?;
        Ok(())
    }
}

/// The name that an entry of this name removes.
fn removed(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(WHITEOUT).filter(|_| !name.starts_with(NOTES))
}

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Files and links.
    pub(crate) files: u64,
    /// Devices and pipes, which no image needs.
    pub(crate) left_out: u64,
    /// When directories were changed, for the end: what is written later changes them again.
    dates: BTreeMap<Vec<u8>, u64>,
    names: usize,
}

impl Written {
    /// Notes when a directory was changed; no image has so many that it would matter for all.
    fn note(&mut self, path: &Inside, mtime: u64) {
        self.names += path.as_bytes().len() + PER_NAME;
        if self.names <= MOST_NAMES {
            self.dates.insert(path.as_bytes().to_vec(), mtime);
        }
    }
}

/// Unpacks a layer over those below it.
pub(crate) fn apply<'a>(
    layer: &Layer,
    removals: &Removals,
    file: &'a std::fs::File,
    watch: &'a dyn Watch,
    root: &mut Confined,
    written: &mut Written,
    most: u64,
) -> Result<(), Fault> {
    for directory in &removals.directories {
        root.empty(directory)?;
    }
    for name in &removals.names {
        root.remove(name)?;
    }
    let opened = Opened::new(layer.stretch(file), watch, false)?;
    let content = Summed::new(opened, false, most);
    entries::each(content, &mut |entry, content| write(entry, content, root, written))?;
    Ok(())
}

pub(crate) fn write(
    entry: &Entry,
    content: &mut dyn Read,
    root: &mut Confined,
    written: &mut Written,
) -> Result<(), Fault> {
    let path = Inside::new(&entry.path)?;
    if path.split().is_some_and(|(_, name)| name.starts_with(WHITEOUT)) {
        return Ok(());
    }
    let Entry { mode, mtime, size, .. } = *entry;
    match entry.kind {
        EntryType::Directory => {
            written.note(&path, mtime);
            return root.put(&path, New::Directory { mode });
        }
        EntryType::Regular | EntryType::Continuous => {
            // Old archives have directories like this.
            if entry.path.ends_with(b"/") {
                return root.put(&path, New::Directory { mode });
            }
            root.put(&path, New::File { mode, mtime, size, content })?;
        }
        EntryType::Symlink => root.put(&path, New::Symlink { text: &entry.link })?,
        EntryType::Link => {
            let to = Inside::new(&entry.link)?;
            root.put(&path, New::Link { to: &to })?;
        }
        EntryType::Char | EntryType::Block | EntryType::Fifo => {
            written.left_out += 1;
            return Ok(());
        }
        _ => return Err(Fault::entry(&entry.path, "it is of a kind that is not known")),
    }
    written.files += 1;
    Ok(())
}

/// Gives directories their times, after everything is written.
pub(crate) fn date(root: &mut Confined, written: &Written) -> Result<(), Fault> {
    for (path, mtime) in &written.dates {
        root.date(&Inside::new(path)?, *mtime)?;
    }
    Ok(())
}
