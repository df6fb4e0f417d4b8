//! Directories whose names are durable before anything is said to be in them.
//!
//! A file is safe when its own directory and all those above it are on the disk.
//! To sync each of them for each file would cost more than the file does, so those
//! that are new are remembered until their names are safe; all others are.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A directory and those beneath it.
#[derive(Debug)]
pub(crate) struct Shelf {
    root: PathBuf,
    young: Mutex<Young>,
}

/// Directories whose names may not be on the disk yet.
#[derive(Debug, Default)]
struct Young {
    /// Which making of it this is: one can be removed and made again while somebody
    /// still syncs the earlier one.
    made: HashMap<PathBuf, u64>,
    count: u64,
}

impl Shelf {
    /// Takes a directory that is there. What an earlier process made in it and did
    /// not sync is synced now.
    pub(crate) fn open(root: PathBuf) -> io::Result<Self> {
        rustix::fs::syncfs(File::open(&root)?)?;
        Ok(Self { root, young: Mutex::default() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a directory of the shelf, and those above it.
    pub(crate) fn make_directories(&self, path: &Path) -> io::Result<()> {
        if path == self.root || path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            self.make_directories(above)?;
        }
        // Nobody may find it before it is known to be young.
        let mut young = self.young();
        match make_private(path) {
            Ok(()) => {
                young.count += 1;
                let count = young.count;
                young.made.insert(path.to_owned(), count);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes what is in a directory durable, and the way to it.
    pub(crate) fn settle(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()?;
        let mut directory = directory;
        while let Some(above) = directory.parent().filter(|_| directory != self.root) {
            // Synced by whoever needs it first; others may be at it as well.
            let making = self.young().made.get(directory).copied();
            if let Some(making) = making {
                File::open(above)?.sync_all()?;
                let mut young = self.young();
                if young.made.get(directory) == Some(&making) {
                    young.made.remove(directory);
                }
            }
            directory = above;
        }
        Ok(())
    }

    /// Removes a file, and the directories that are empty without it.
    pub(crate) fn remove(&self, inner: &Path) -> io::Result<()> {
        let path = self.root.join(inner);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed?,
        }
        let mut directory = path.parent();
        while let Some(empty) = directory.filter(|above| *above != self.root) {
            // Those that have something in them stay.
            if fs::remove_dir(empty).is_err() {
                break;
            }
            directory = empty.parent();
        }
        // The highest that is left has lost a name.
        if let Some(left) = directory {
            match File::open(left) {
                Ok(left) => left.sync_all()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn young(&self) -> MutexGuard<'_, Young> {
        self.young.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a directory that only its owner can look into.
fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn young(shelf: &Shelf) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = shelf.young().made.keys().cloned().collect();
        names.sort();
        names
    }

    #[test]
    fn a_directory_is_young_until_its_name_is_on_the_disk() {
        let place = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(place.path().to_owned()).unwrap();
        let (upper, lower) = (place.path().join("a"), place.path().join("a/b"));
        shelf.make_directories(&lower).unwrap();
        assert_eq!(young(&shelf), [upper.clone(), lower.clone()]);
        shelf.make_directories(&lower).unwrap();
        shelf.settle(&upper).unwrap();
        assert_eq!(
            young(&shelf),
            std::slice::from_ref(&lower),
            "what is beneath was not asked for"
        );
        shelf.settle(&lower).unwrap();
        assert!(young(&shelf).is_empty());
    }

    #[test]
    fn a_directory_that_was_made_again_is_young_again() {
        let place = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(place.path().to_owned()).unwrap();
        let directory = place.path().join("a");
        shelf.make_directories(&directory).unwrap();
        shelf.settle(&directory).unwrap();
        fs::write(directory.join("x"), "").unwrap();
        shelf.remove(Path::new("a/x")).unwrap();
        assert!(!directory.exists());
        shelf.make_directories(&directory).unwrap();
        assert_eq!(young(&shelf), [directory]);
    }
}
