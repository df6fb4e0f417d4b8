//! Images that somebody has as a file: OCI archives and what `docker save` writes.
//!
//! An archive is foreign. It is checked as a whole before anything is written, and what is
//! written is what was checked, stays in its directory, belongs to whoever unpacks it, and has no
//! privileges.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::archive::Archive;
use crate::confined::Confined;
use crate::definition::Key;
use crate::entries::Fault;
use crate::error::ImageError;
use crate::layers::{self, Left, UnpackLimits, Written};
use crate::manifest::{self, Image};
use crate::progress::{Progress, Step};
use crate::room::room_for;
use crate::stream::Meter;

/// How an image becomes a directory. Another edition makes another image of the same archive.
const EDITION: &str = "import 1";

/// What an archive was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// The key of what is in it.
    pub key: Key,
    /// The digest of its configuration, by which engines know it.
    pub identity: String,
    /// Variables of its commands.
    pub env: BTreeMap<String, String>,
    /// Bytes of all layers, out of their compression.
    pub bytes: u64,
    /// Files and links that were written.
    pub files: u64,
    /// Devices and pipes that were not.
    pub left_out: u64,
}

/// An archive that is to be unpacked. It waits for the disk and belongs on a thread that may
/// wait.
#[derive(Clone, Copy, Debug)]
pub struct Unpack<'a> {
    /// The archive's file.
    pub archive: &'a Path,
    /// How large the image may be.
    pub limits: UnpackLimits,
    /// Set when somebody wants it to stop; soon after, it has.
    pub stop: &'a AtomicBool,
}

/// An archive whose image is known.
pub(crate) struct Opened {
    archive: Archive,
    image: Image,
}

impl Opened {
    /// The key of what is in it.
    pub(crate) fn key(&self) -> Key {
        Key::of(&[EDITION.as_bytes(), self.image.identity.digits().as_bytes()])
    }
}

impl Unpack<'_> {
    /// Checks the archive and unpacks it into a new directory, beside which there is room for
    /// what is needed meanwhile.
    ///
    /// # Errors
    /// When the archive is not sound or the directory cannot be made. Nothing stays then.
    pub fn into_directory(
        &self,
        root: &Path,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Unpacked, ImageError> {
        tell(Progress::Step(Step::Unpack));
        let opened = self.open(root.parent().unwrap_or(root), tell)?;
        self.unpack(opened, root, tell)
    }

    /// Finds out which image it is.
    pub(crate) fn open(
        &self,
        scratch: &Path,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Opened, ImageError> {
        let meter = Meter::new(self.stop, tell);
        let open = || {
            let archive = Archive::open(self.archive, scratch, self.limits.bytes, &meter)?;
            let image = manifest::read(&archive, self.limits.layers)?;
            Ok(Opened { archive, image })
        };
        open().map_err(|fault| self.explained(fault))
    }

    /// Unpacks it into a new directory.
    pub(crate) fn unpack(
        &self,
        opened: Opened,
        root: &Path,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Unpacked, ImageError> {
        fs::create_dir(root).map_err(ImageError::system("make", root))?;
        let unpacked = self.work(&opened, root, &Meter::new(self.stop, tell));
        if unpacked.is_err() {
            fs::remove_dir_all(root).map_err(ImageError::system("remove", root))?;
        }
        unpacked.map_err(|fault| self.explained(fault))
    }

    fn explained(&self, fault: Fault) -> ImageError {
        match fault {
            _ if self.stop.load(Ordering::Relaxed) => ImageError::Stopped,
            Fault::Bad(reason) => ImageError::Archive { path: self.archive.to_owned(), reason },
            Fault::Other(error) => error,
        }
    }

    fn work(&self, opened: &Opened, root: &Path, meter: &Meter<'_>) -> Result<Unpacked, Fault> {
        let Opened { archive, image } = opened;
        let size = image.layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(layer.size));
        // Every layer is read twice.
        meter.expect(size.saturating_mul(2));
        let mut left = Left::from(self.limits);
        let mut removals = Vec::new();
        for layer in &image.layers {
            removals.push(layers::check(layer, &archive.file, meter, &mut left)?);
        }
        // All that the second reading may take: somebody may write to the archive meanwhile.
        let mut left = left.taken(self.limits);
        let bytes = left.bytes;
        room_for(left.disk, root).map_err(Fault::Other)?;
        let mut confined = Confined::open(root).map_err(Fault::Other)?;
        let mut written = Written::default();
        for (layer, removals) in image.layers.iter().zip(&removals) {
            let (file, root) = (&archive.file, &mut confined);
            layers::apply(layer, removals, file, meter, root, &mut written, &mut left)?;
        }
        layers::date(&mut confined, &written)?;
        meter.complete();
        Ok(Unpacked {
            key: opened.key(),
            identity: image.identity.digits(),
            env: image.variables.clone(),
            bytes,
            files: written.files,
            left_out: written.left_out,
        })
    }
}
