//! The layers of an image: each is checked as a whole before any of it is unpacked, and again while
//! it is, since its archive may have been changed in between.
//!
//! What a layer removes is removed before what it brings is written, whatever the order in its
//! archive: a removal is about the layers below.

use std::collections::BTreeMap;
use std::io::{self, Read};

use tar::EntryType;

use crate::confined::{Confined, Inside, New};
use crate::entries::{self, Entry, Fault};
use crate::footprint::{Footprint, Footprints};
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
    /// Of the disk: it has its limits from what was checked.
    pub(crate) disk: Footprint,
    names: usize,
}

impl From<UnpackLimits> for Left {
    fn from(limits: UnpackLimits) -> Self {
        let UnpackLimits { bytes, entries, .. } = limits;
        Self { bytes, entries, disk: Footprint::MAX, names: MOST_NAMES }
    }
}

impl Left {
    /// What was taken of these limits, as all that there is.
    pub(crate) fn taken(&self, limits: UnpackLimits) -> Self {
        let bytes = limits.bytes.saturating_sub(self.bytes);
        let entries = limits.entries.saturating_sub(self.entries);
        let disk = Footprint::MAX.without(self.disk).unwrap_or_default();
        Self { bytes, entries, disk, names: MOST_NAMES }
    }

    /// Takes what an entry needs.
    fn take(
        &mut self,
        entry: &Entry,
        path: &Inside,
        footprints: &mut Footprints,
    ) -> Result<(), Fault> {
        let many = || Fault::bad("it has too many files");
        self.entries = self.entries.checked_sub(1).ok_or_else(many)?;
        if is_written(entry, path) {
            let needed = footprints.of(entry, path);
            self.disk = self.disk.without(needed).ok_or_else(many)?;
        }
        Ok(())
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
    let (mut removals, mut footprints) = (Removals::default(), Footprints::default());
    let content = entries::each(content, &mut |entry, _| {
        let path = Inside::new(&entry.path)?;
        left.take(entry, &path, &mut footprints)?;
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

/// Unpacks a layer over those below it, if it still is what it was when it was checked. What it
/// needs is taken off what it needed then.
pub(crate) fn apply<'a>(
    layer: &Layer,
    removals: &Removals,
    file: &'a std::fs::File,
    watch: &'a dyn Watch,
    root: &mut Confined,
    written: &mut Written,
    left: &mut Left,
) -> Result<(), Fault> {
    for directory in &removals.directories {
        root.empty(directory)?;
    }
    for name in &removals.names {
        root.remove(name)?;
    }
    let opened = Opened::new(layer.stretch(file), watch, false).map_err(unlike)?;
    let mut content = Summed::new(opened, true, left.bytes);
    let mut footprints = Footprints::default();
    let applied = entries::each(&mut content, &mut |entry, content| {
        left.take(entry, &Inside::new(&entry.path)?, &mut footprints)?;
        write(entry, content, root, written)
    });
    let applied = applied.map(drop);
    if matches!(applied, Err(Fault::Other(_))) {
        return applied;
    }
    // What is wrong with a layer that was changed is not the matter.
    let (_, bytes, sum) = content.finish().map_err(unlike)?;
    if sum != Some(layer.content.0) {
        return Err(changed());
    }
    left.bytes = bytes;
    applied
}

/// Why a layer cannot be read that could be.
fn unlike(error: io::Error) -> Fault {
    // Unless it is the system that says so.
    if error.raw_os_error().is_some() { error.into() } else { changed() }
}

fn changed() -> Fault {
    Fault::bad("it was changed while it was read; let nobody write to it meanwhile")
}

/// Whether anything is written for an entry: it removes nothing, and is neither device nor pipe.
fn is_written(entry: &Entry, path: &Inside) -> bool {
    let removes = path.split().is_some_and(|(_, name)| name.starts_with(WHITEOUT));
    !removes && !matches!(entry.kind, EntryType::Char | EntryType::Block | EntryType::Fifo)
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use sha2::{Digest as _, Sha256};

    use super::*;

    struct Nobody;

    impl Watch for Nobody {
        fn add(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
    }

    /// A file with two layers of three files each.
    fn two_layers() -> (File, Vec<Layer>) {
        let mut file = tempfile::tempfile().unwrap();
        let mut layers = Vec::new();
        let mut at = 0;
        for layer in ["a", "b"] {
            let mut tar = tar::Builder::new(Vec::new());
            for number in 0..3 {
                let mut header = tar::Header::new_gnu();
                header.set_size(1);
                header.set_mode(0o644);
                let name = format!("{layer}/{number}");
                tar.append_data(&mut header, name, &b"x"[..]).unwrap();
            }
            let bytes = tar.into_inner().unwrap();
            file.write_all(&bytes).unwrap();
            let content = Digest(Sha256::digest(&bytes).into());
            let size = bytes.len() as u64;
            layers.push(Layer { at, size, digest: None, content });
            at += size;
        }
        (file, layers)
    }

    #[test]
    fn all_layers_together_take_what_they_took_when_they_were_checked() {
        let (file, layers) = two_layers();
        let limits = UnpackLimits::default();
        let checked = || {
            let mut left = Left::from(limits);
            for layer in &layers {
                check(layer, &file, &Nobody, &mut left).unwrap();
            }
            left.taken(limits)
        };
        let apply_all = |mut left: Left| {
            let place = tempfile::tempdir().unwrap();
            let mut root = Confined::open(place.path()).unwrap();
            let (removals, mut written) = (Removals::default(), Written::default());
            for (number, layer) in layers.iter().enumerate() {
                apply(layer, &removals, &file, &Nobody, &mut root, &mut written, &mut left)
                    .map_err(|fault| (number, fault))?;
            }
            Ok((left, written.files))
        };
        let taken = checked();
        assert_eq!((taken.entries, taken.disk.files), (6, 8));
        let (left, files) = apply_all(taken).unwrap();
        assert_eq!((left.bytes, left.entries, left.disk), (0, 0, Footprint::default()));
        assert_eq!(files, 6);
        // One less of anything, and it is the second layer that has too much.
        let fewer: [fn(&mut Left); 4] = [
            |left| left.bytes -= 1,
            |left| left.entries -= 1,
            |left| left.disk.bytes -= 1,
            |left| left.disk.files -= 1,
        ];
        for less in fewer {
            let mut left = checked();
            less(&mut left);
            let refused = apply_all(left).map(|(_, files)| files);
            assert!(matches!(refused, Err((1, Fault::Bad(_)))), "{refused:?}");
        }
    }
}
