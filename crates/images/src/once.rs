//! Nothing is made twice: an image that is there is used, and one that is not is made by one
//! process, while others that want it wait.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::definition::Key;
use crate::error::ImageError;
use crate::progress::Progress;
use crate::store::{Changing, Image, Store};

/// The image with this key under this name; made, if it is not there.
pub(crate) fn once(
    store: &Store,
    (name, key): (&str, &Key),
    patience: Duration,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress<'_>),
    make: impl FnOnce(&Changing, &mut dyn FnMut(Progress<'_>)) -> Result<Image, ImageError>,
) -> Result<Image, ImageError> {
    // What is all there needs no lock, and no right to write.
    let found = store.with_key(key)?;
    if let Some(image) = found.filter(|image| image.names.iter().any(|known| known == name)) {
        tell(Progress::AlreadyThere { name, root: &image.root });
        return Ok(image);
    }
    let changing = store.change(patience, stop, &mut || tell(Progress::Waiting))?;
    if let Some(image) = named(&changing, name, key)? {
        tell(Progress::AlreadyThere { name, root: &image.root });
        return Ok(image);
    }
    let image = make(&changing, tell)?;
    tell(Progress::Ready { name, root: &image.root });
    Ok(image)
}

/// The image with this key, if it is there; it gets the name.
pub(crate) fn named(
    changing: &Changing,
    name: &str,
    key: &Key,
) -> Result<Option<Image>, ImageError> {
    if changing.store().with_key(key)?.is_none() {
        return Ok(None);
    }
    changing.name(name, key)?;
    changing.store().with_key(key)
}
