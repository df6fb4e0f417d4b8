//! The store: images that are whole, by key, and what people call them.
//!
//! ```text
//! .lock            held by whoever makes or removes an image
//! .staging         the image that is being made; what a killed process left there goes first
//! .elsewhere       the name of a directory in /var/tmp that belongs to that, and goes likewise
//! names/agent      the key of the image with this name
//! KEY              an image; whoever makes a sandbox of it holds a lock on it
//! KEY/image.json   what is known of an image
//! KEY/root         its root directory
//! .used/WHO        the key of the image that a sandbox uses which outlives its maker
//! ```
//!
//! An image gets its key as a name when everything of it is on the disk, and is not changed any more.

mod elsewhere;
mod hold;
mod prune;

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cofferdam_setup::NotLocked;
use serde::{Deserialize, Serialize};

use crate::definition::{Definition, Key, check_name, is_name, reserved};
use crate::error::ImageError;

use elsewhere::Elsewhere;
pub use hold::Hold;
pub use prune::{Kept, Pruned};

/// The version of [`About`].
const VERSION: u32 = 1;

/// What is known of an image.
const ABOUT: &str = "image.json";
/// Its root directory.
const ROOT: &str = "root";
/// Where an image is made, and where one is that goes.
const STAGING: &str = ".staging";
const LEAVING: &str = ".leaving";
/// What people call images.
const NAMES: &str = "names";
/// Which images are used by sandboxes that outlive their makers.
const USED: &str = ".used";

/// How much of a key names an image, at least.
const LEAST_OF_A_KEY: usize = 6;

/// What is known of an image, apart from its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The name of its content.
    pub key: Key,
    /// What it was made with: `mmdebstrap`, an engine, or `import`.
    pub made_with: String,
    /// When, in seconds since 1970.
    pub made_at: u64,
    /// Variables of every command in it.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What it was made from, if that is a definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Definition>,
}

/// The file about an image.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    version: u32,
    bytes: u64,
    #[serde(flatten)]
    about: About,
}

/// Of such a file, what every version of it has.
#[derive(Debug, Deserialize)]
struct Edition {
    version: u32,
}

/// What is at a key.
enum State {
    Image(Box<Image>),
    /// Nothing, or what never became an image.
    Nothing,
    /// Something that is not understood, and why.
    Unreadable(String),
}

/// An image that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What people call it; nothing if a newer image has its name.
    pub names: Vec<String>,
    /// Its root directory.
    pub root: PathBuf,
    /// What it takes on the disk.
    pub bytes: u64,
    /// What is known of it.
    pub about: About,
}

/// The images of a product's home.
#[derive(Clone, Debug)]
pub struct Store {
    place: PathBuf,
}

impl Store {
    /// The store of the product whose files are in `home`.
    #[must_use]
    pub fn in_home(home: &Path) -> Self {
        // Sandboxes are told the path after all links.
        let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        Self { place: home.join("images") }
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Every image that can be read: by name, those without one last, and of these the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self) -> Result<Vec<Image>, ImageError> {
        let names = self.names()?;
        let mut images = Vec::new();
        for entry in entries(&self.place)? {
            if let Some(key) = entry.file_name().to_str().and_then(Key::named)
                && let State::Image(image) = self.read(&key, &names)
            {
                images.push(*image);
            }
        }
        images.sort_by_key(|image| {
            let newest = std::cmp::Reverse(image.about.made_at);
            (image.names.is_empty(), image.names.clone(), newest)
        });
        Ok(images)
    }

    /// The image of this name, or with a key that begins so.
    ///
    /// # Errors
    /// When there is none, or the store cannot be read.
    pub fn find(&self, name: &str) -> Result<Image, ImageError> {
        let mut images = self.list()?;
        let named = images.iter().position(|image| image.names.iter().any(|known| known == name));
        let by_key = || {
            let long = name.len() >= LEAST_OF_A_KEY;
            let begins = |image: &Image| long && image.about.key.as_str().starts_with(name);
            let several = images.iter().filter(|image| begins(image)).count() > 1;
            images.iter().position(begins).filter(|_| !several)
        };
        match named.or_else(by_key) {
            Some(at) => Ok(images.swap_remove(at)),
            None => {
                // One that has the name and cannot be read is another matter.
                if let Some(key) = self.names()?.get(name) {
                    self.with_key(key)?;
                }
                let known = images.into_iter().flat_map(|image| image.names).collect();
                Err(ImageError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    /// The image with this key, if it is there.
    ///
    /// # Errors
    /// When it, or the store, cannot be read.
    pub fn with_key(&self, key: &Key) -> Result<Option<Image>, ImageError> {
        match self.read(key, &self.names()?) {
            State::Image(image) => Ok(Some(*image)),
            State::Nothing => Ok(None),
            State::Unreadable(reason) => {
                Err(ImageError::Unreadable { place: self.place.join(key.as_str()), reason })
            }
        }
    }

    fn read(&self, key: &Key, names: &BTreeMap<String, Key>) -> State {
        let place = self.place.join(key.as_str());
        let text = match fs::read(place.join(ABOUT)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return State::Nothing,
            Err(error) => return State::Unreadable(format!("{ABOUT} cannot be read: {error}")),
        };
        match serde_json::from_slice(&text) {
            Ok(Edition { version: VERSION }) => {}
            Ok(_) => {
                return State::Unreadable("another version of this program made it".to_owned());
            }
            Err(error) => return State::Unreadable(format!("{ABOUT} is damaged: {error}")),
        }
        let Written { bytes, about, .. } = match serde_json::from_slice(&text) {
            Ok(written) => written,
            Err(error) => return State::Unreadable(format!("{ABOUT} is damaged: {error}")),
        };
        let root = place.join(ROOT);
        if about.key != *key || !root.is_dir() {
            return State::Unreadable(format!("{ABOUT} is of another image, or there is no root"));
        }
        let names = names.iter().filter(|(_, of)| *of == key).map(|(name, _)| name.clone());
        State::Image(Box::new(Image { names: names.collect(), root, bytes, about }))
    }

    fn names(&self) -> Result<BTreeMap<String, Key>, ImageError> {
        let mut names = BTreeMap::new();
        for entry in entries(&self.place.join(NAMES))? {
            let name = entry.file_name().into_string().ok().filter(|name| is_name(name));
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            if let (Some(name), Some(key)) = (name, Key::named(text.trim())) {
                names.insert(name, key);
            }
        }
        Ok(names)
    }

    /// Notes that somebody uses an image: it stays when others are pruned. `user` is a name of the
    /// caller's own making.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_use(&self, user: &str, key: &Key) -> Result<(), ImageError> {
        let used = self.place.join(USED);
        let path = used.join(user);
        let write = || fs::create_dir_all(&used).and_then(|()| fs::write(&path, key.as_str()));
        write().map_err(ImageError::system("write", &path))
    }

    /// Takes that back.
    pub fn forget_use(&self, user: &str) {
        // A note that stays only keeps an image that could go.
        fs::remove_file(self.place.join(USED).join(user)).ok();
    }

    /// The image that somebody uses.
    #[must_use]
    pub fn used_by(&self, user: &str) -> Option<Image> {
        let text = fs::read_to_string(self.place.join(USED).join(user)).ok()?;
        self.with_key(&Key::named(text.trim())?).ok()?
    }

    fn used(&self) -> Result<HashSet<Key>, ImageError> {
        let notes = entries(&self.place.join(USED))?;
        let texts = notes.iter().filter_map(|note| fs::read_to_string(note.path()).ok());
        Ok(texts.filter_map(|text| Key::named(text.trim())).collect())
    }

    /// Waits until nobody else changes the store; then what killed processes left is removed.
    ///
    /// # Errors
    /// When that takes too long or is to stop, or when the store is somebody else's.
    pub fn change(
        &self,
        patience: Duration,
        stop: &AtomicBool,
        waits: &mut dyn FnMut(),
    ) -> Result<Changing, ImageError> {
        make(&self.place)?;
        let lock = lock(&self.place, patience, stop, waits)?;
        let changing = Changing { store: self.clone(), lock };
        changing.clear()?;
        Ok(changing)
    }
}

/// A store that nobody else changes meanwhile.
#[derive(Debug)]
pub struct Changing {
    store: Store,
    lock: File,
}

impl Changing {
    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The lock: programs that hold it keep the next process waiting for their end.
    #[must_use]
    pub fn lock(&self) -> &File {
        &self.lock
    }

    /// Removes what is no image.
    fn clear(&self) -> Result<(), ImageError> {
        [STAGING, LEAVING].iter().try_for_each(|name| remove(&self.store.place.join(name)))?;
        // It needs what most changes do not. Until it goes, the note stays, and whoever would
        // write another says why.
        drop(self.clear_elsewhere());
        Ok(())
    }

    /// A place to make an image in.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn stage(&self) -> Result<Staging<'_>, ImageError> {
        let place = self.store.place.join(STAGING);
        // What a build is lent lies there: logins among it.
        let made = fs::DirBuilder::new().mode(0o700).create(&place);
        made.map_err(ImageError::system("make", &place))?;
        Ok(Staging { changing: self, place })
    }

    /// Gives an image a name. Another one that has it loses it.
    ///
    /// # Errors
    /// When this is no name, or it cannot be written.
    pub fn name(&self, name: &str, key: &Key) -> Result<(), ImageError> {
        check_name(name)?;
        reserved(name)?;
        let names = self.store.place.join(NAMES);
        let path = names.join(name);
        let nearly = self.store.place.join(".name");
        let write = || -> io::Result<()> {
            fs::create_dir_all(&names)?;
            let mut file = File::create(&nearly)?;
            writeln!(file, "{key}")?;
            file.sync_all()?;
            fs::rename(&nearly, &path)?;
            File::open(&names)?.sync_all()
        };
        write().map_err(ImageError::system("write", &path))
    }

    /// Takes a name from an image, and removes the image if it has no other; or removes the image
    /// whose key begins so. Returns what was removed.
    ///
    /// # Errors
    /// When there is none, or it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<Option<Image>, ImageError> {
        let image = self.store.find(name)?;
        if image.names.iter().any(|known| known == name) {
            let path = self.store.place.join(NAMES).join(name);
            fs::remove_file(&path).map_err(ImageError::system("remove", &path))?;
            if image.names.len() > 1 {
                return Ok(None);
            }
        }
        self.drop_image(&image)?;
        Ok(Some(image))
    }

    fn drop_image(&self, image: &Image) -> Result<(), ImageError> {
        for name in &image.names {
            let path = self.store.place.join(NAMES).join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ImageError::system("remove", &path)(error));
                }
                _ => {}
            }
        }
        self.leave(&image.about.key)
    }

    /// What is half removed has no key any more.
    fn leave(&self, key: &Key) -> Result<(), ImageError> {
        let place = self.store.place.join(key.as_str());
        let leaving = self.store.place.join(LEAVING);
        remove(&leaving)?;
        fs::rename(&place, &leaving).map_err(ImageError::system("remove", &place))?;
        remove(&leaving)
    }
}

/// An image that is being made. Dropped, nothing of it stays.
#[derive(Debug)]
pub struct Staging<'a> {
    changing: &'a Changing,
    place: PathBuf,
}

impl Staging<'_> {
    /// A directory for what the making needs besides; it goes with the end.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Where the image's root directory is to be. It is not there yet.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.place.join(ROOT)
    }

    /// A directory for programs whose users get into no home. It is not in the store, and goes
    /// with its end.
    pub(crate) fn elsewhere(&self) -> Result<Elsewhere<'_>, ImageError> {
        Elsewhere::make(self.changing)
    }

    /// The lock of the store, for programs that make the image.
    #[must_use]
    pub fn lock(&self) -> &File {
        &self.changing.lock
    }

    /// Keeps the image under a name, once everything of it is on the disk. An image that has its
    /// key already stays.
    ///
    /// # Errors
    /// When it cannot be written; then nothing of it stays.
    pub fn keep(self, name: &str, about: About) -> Result<Image, ImageError> {
        let store = &self.changing.store;
        check_name(name)?;
        reserved(name)?;
        if store.with_key(&about.key)?.is_none() {
            let target = store.place.join(about.key.as_str());
            remove(&target)?;
            self.publish(&about, &target)?;
        }
        self.changing.name(name, &about.key)?;
        let kept = store.with_key(&about.key)?;
        kept.ok_or_else(|| ImageError::Unknown { name: name.to_owned(), known: Vec::new() })
    }

    fn publish(&self, about: &About, target: &Path) -> Result<(), ImageError> {
        let bytes = size(&self.root())?;
        let written = Written { version: VERSION, bytes, about: about.clone() };
        // The image in a directory of its own: what else was staged does not belong to it.
        let whole = self.place.join(".whole");
        let write = || -> io::Result<()> {
            fs::DirBuilder::new().mode(0o755).create(&whole)?;
            let mut file = File::create(whole.join(ABOUT))?;
            file.write_all(&serde_json::to_vec_pretty(&written)?)?;
            fs::rename(self.root(), whole.join(ROOT))?;
            fs::set_permissions(whole.join(ROOT), fs::Permissions::from_mode(0o755))?;
            rustix::fs::syncfs(&file)?;
            fs::rename(&whole, target)?;
            File::open(&self.changing.store.place)?.sync_all()
        };
        write().map_err(ImageError::system("keep", target))
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // What stays now goes with the next change of the store.
        drop(remove(&self.place));
    }
}

fn entries(place: &Path) -> Result<Vec<fs::DirEntry>, ImageError> {
    match place.read_dir() {
        Ok(entries) => Ok(entries.filter_map(Result::ok).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(ImageError::system("read", place)(error)),
    }
}

/// Makes the store, or checks that it is as we would have made it.
fn make(place: &Path) -> Result<(), ImageError> {
    let above = place.parent().unwrap_or(place);
    // What is above it may be the product's home, which is for nobody else.
    let private = fs::DirBuilder::new().mode(0o700).recursive(true).create(above);
    private.and_then(|()| fs::create_dir_all(place)).map_err(ImageError::system("make", place))?;
    let about = place.metadata().map_err(ImageError::system("look at", place))?;
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(ImageError::NotOurs { path: place.to_owned() });
    }
    if about.permissions().mode() & 0o7777 != 0o755 {
        fs::set_permissions(place, fs::Permissions::from_mode(0o755))
            .map_err(ImageError::system("set the permissions of", place))?;
    }
    Ok(())
}

fn lock(
    place: &Path,
    patience: Duration,
    stop: &AtomicBool,
    waits: &mut dyn FnMut(),
) -> Result<File, ImageError> {
    cofferdam_setup::lock(place, patience, stop, waits).map_err(|failure| match failure {
        NotLocked::Stopped => ImageError::Stopped,
        NotLocked::Busy(lock) => ImageError::Busy { lock, waited: patience },
        NotLocked::System { doing, path, source } => ImageError::system(doing, &path)(source),
    })
}

/// Removes a directory with all that is in it, if it is there.
pub(crate) fn remove(place: &Path) -> Result<(), ImageError> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ImageError::system("remove", place)(error))
        }
        _ => Ok(()),
    }
}

/// What a directory takes on the disk, a file with several names once.
fn size(root: &Path) -> Result<u64, ImageError> {
    let look = |path: &Path| {
        path.symlink_metadata().map_err(|error| ImageError::system("look at", path)(error))
    };
    let list = |path: &Path| path.read_dir().map_err(ImageError::system("read", path));
    let mut bytes = look(root)?.blocks() * 512;
    let mut seen = HashSet::new();
    // The directories on the way down, and no list of what is in one: it may be millions.
    let mut open = vec![list(root)?];
    while let Some(listed) = open.last_mut() {
        let Some(entry) = listed.next() else {
            open.pop();
            continue;
        };
        let path = entry.map_err(ImageError::system("read", root))?.path();
        let about = look(&path)?;
        if about.nlink() > 1 && !about.is_dir() && !seen.insert(about.ino()) {
            continue;
        }
        bytes += about.blocks() * 512;
        if about.is_dir() {
            open.push(list(&path)?);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
