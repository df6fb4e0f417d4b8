//! What of a store is of no use any more. What cannot be understood is not ours to remove: another
//! version of this program may have made it, or a disk may not answer just now.

use std::path::PathBuf;

use super::hold::alone;
use super::{Changing, Image, entries};
use crate::definition::Key;
use crate::error::ImageError;
use crate::needs::is_of_a_task;

/// What pruning did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Images that are gone.
    pub images: Vec<Image>,
    /// Directories that were no images, and are gone.
    pub remains: Vec<PathBuf>,
    /// What stayed though it has no name.
    pub kept: Vec<Kept>,
}

/// Something that was not pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its directory.
    pub place: PathBuf,
    /// Why it was not.
    pub why: String,
}

impl Changing {
    /// Removes the images of tasks but for so many that were made last, and those that somebody
    /// uses: whoever asks for one again has it made again. One that was given a name of its own
    /// stays.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn prune_tasks(&self, newest: usize) -> Result<Vec<Image>, ImageError> {
        let of_a_task = |image: &Image| {
            !image.names.is_empty() && image.names.iter().all(|name| is_of_a_task(name))
        };
        let mut images: Vec<Image> = self.store.list()?.into_iter().filter(of_a_task).collect();
        images.sort_by_key(|image| std::cmp::Reverse(image.about.made_at));
        let mut gone = Vec::new();
        for image in images.into_iter().skip(newest) {
            let alone = alone(&self.store.place.join(image.about.key.as_str()))?;
            if alone.is_some() && !self.store.used()?.contains(&image.about.key) {
                self.drop_image(&image)?;
                gone.push(image);
            }
        }
        Ok(gone)
    }

    /// Removes every image that has no name any more and that nobody uses; every image at all, if
    /// `all` is wanted.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn prune(&self, all: bool) -> Result<Pruned, ImageError> {
        let mut pruned = Pruned::default();
        for image in self.store.list()? {
            if !all && !image.names.is_empty() {
                continue;
            }
            let place = self.store.place.join(image.about.key.as_str());
            // Notes are read when nobody can begin to use it any more.
            let alone = alone(&place)?;
            if !all && (alone.is_none() || self.store.used()?.contains(&image.about.key)) {
                pruned.kept.push(Kept { place, why: "a sandbox uses it".to_owned() });
                continue;
            }
            self.drop_image(&image)?;
            pruned.images.push(image);
        }
        for entry in entries(&self.store.place)? {
            let Some(key) = entry.file_name().to_str().and_then(Key::named) else { continue };
            match self.store.with_key(&key) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.leave(&key)?;
                    pruned.remains.push(entry.path());
                }
                Err(ImageError::Unreadable { place, reason }) => {
                    pruned.kept.push(Kept { place, why: reason });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pruned)
    }
}
