//! An archive that somebody has becomes an image of the store.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::definition::{Key, check_name, reserved};
use crate::error::ImageError;
use crate::layers::UnpackLimits;
use crate::once::named;
use crate::progress::{Progress, Step};
use crate::settle::settle;
use crate::store::{About, Image, Store};
use crate::unpack::Unpack;

/// Where the name of an image comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Somebody chose it: another image that has it loses it.
    Chosen,
    /// It is the file's: nobody said that another image is to lose it.
    OfTheFile,
}

/// An archive to be imported. It waits for the disk and belongs on a thread that may wait.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    /// The archive: an OCI archive, or what `docker save` writes.
    pub archive: &'a Path,
    /// What the image is to be called.
    pub name: &'a str,
    /// Who says so.
    pub naming: Naming,
    /// Where it goes.
    pub store: &'a Store,
    /// Now, in seconds since 1970.
    pub now: u64,
    /// How long another process may take that makes or removes an image.
    pub patience: Duration,
    /// How large it may be.
    pub limits: UnpackLimits,
    /// Set when somebody wants it to stop; soon after, it has.
    pub stop: &'a AtomicBool,
}

impl Import<'_> {
    /// Imports the archive, unless what is in it is there.
    ///
    /// # Errors
    /// When the name is none, or the archive is not sound or cannot be unpacked; then nothing of it
    /// is left.
    pub fn import(&self, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Image, ImageError> {
        let name = self.name;
        check_name(name)?;
        reserved(name)?;
        let waits = &mut || tell(Progress::Waiting);
        let changing = self.store.change(self.patience, self.stop, waits)?;
        let staging = changing.stage()?;
        let unpack = Unpack { archive: self.archive, limits: self.limits, stop: self.stop };
        tell(Progress::Step(Step::Unpack));
        let opened = unpack.open(staging.place(), tell)?;
        self.check_owner(&opened.key())?;
        if let Some(image) = named(&changing, name, &opened.key())? {
            tell(Progress::AlreadyThere { name, root: &image.root });
            return Ok(image);
        }
        let unpacked = unpack.unpack(opened, &staging.root(), tell)?;
        tell(Progress::Step(Step::Clean));
        settle(&staging.root())?;
        tell(Progress::Step(Step::Keep));
        let about = About {
            key: unpacked.key,
            made_with: "import".to_owned(),
            made_at: self.now,
            env: unpacked.env,
            definition: None,
        };
        let image = staging.keep(name, about)?;
        tell(Progress::Ready { name, root: &image.root });
        Ok(image)
    }

    /// Whether the image may have the name if another has it.
    fn check_owner(&self, key: &Key) -> Result<(), ImageError> {
        let name = self.name;
        if self.naming == Naming::Chosen {
            return Ok(());
        }
        match self.store.find(name) {
            Ok(image) if image.about.key != *key && image.names.iter().any(|it| it == name) => {
                Err(ImageError::Taken { name: name.to_owned() })
            }
            Ok(_) | Err(ImageError::Unknown { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
