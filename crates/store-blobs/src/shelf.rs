//! Directories whose names are durable before anything is said to be in them.
//!
//! A file is safe when its own directory and all those above it are on the disk.
//! To sync each of them for each file would cost more than the file does, so those
//! whose names are known to be safe are remembered. One process at a time makes and
//! removes them; what an earlier one has left is known of none.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// As many directories are remembered; the others are synced again.
const MOST: usize = 4096;

/// A directory and those beneath it.
#[derive(Debug)]
pub(crate) struct Shelf {
    root: PathBuf,
    settled: Mutex<Settled>,
}

/// Directories whose names are on the disk.
#[derive(Debug, Default)]
struct Settled {
    names: HashSet<PathBuf>,
    /// How many were about to be removed so far: one that was synced meanwhile may be
    /// gone, and be made again by somebody else.
    removals: u64,
}

impl Shelf {
    /// Takes a directory that is there.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, settled: Mutex::default() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes what is in a directory durable, and the way to it.
    pub(crate) fn settle(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()?;
        let mut directory = directory;
        while let Some(above) = directory.parent().filter(|_| directory != self.root) {
            let removals = match &*self.settled() {
                Settled { names, .. } if names.contains(directory) => None,
                Settled { removals, .. } => Some(*removals),
            };
            if let Some(removals) = removals {
                File::open(above)?.sync_all()?;
                let mut settled = self.settled();
                if settled.removals == removals {
                    if settled.names.len() >= MOST {
                        settled.names.clear();
                    }
                    settled.names.insert(directory.to_owned());
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
            // Before it is gone: whoever makes it again must not find it settled.
            self.unsettle(empty);
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

    fn unsettle(&self, directory: &Path) {
        let mut settled = self.settled();
        settled.removals += 1;
        settled.names.remove(directory);
    }

    fn settled(&self) -> MutexGuard<'_, Settled> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a directory that only its owner can look into, and those above it.
pub(crate) fn make_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(shelf: &Shelf) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = shelf.settled().names.iter().cloned().collect();
        names.sort();
        names
    }

    #[test]
    fn a_directory_is_settled_when_its_name_is_on_the_disk() {
        let place = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(place.path().to_owned());
        let (upper, lower) = (place.path().join("a"), place.path().join("a/b"));
        make_directories(&lower).unwrap();
        assert!(settled(&shelf).is_empty(), "somebody else may have made it");
        shelf.settle(&upper).unwrap();
        assert_eq!(settled(&shelf), std::slice::from_ref(&upper));
        shelf.settle(&lower).unwrap();
        assert_eq!(settled(&shelf), [upper, lower]);
    }

    #[test]
    fn a_directory_that_was_removed_is_no_longer_settled() {
        let place = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(place.path().to_owned());
        let directory = place.path().join("a");
        make_directories(&directory).unwrap();
        fs::write(directory.join("x"), "").unwrap();
        shelf.settle(&directory).unwrap();
        shelf.remove(Path::new("a/x")).unwrap();
        assert!(!directory.exists() && settled(&shelf).is_empty());
    }

    #[test]
    fn no_more_directories_are_remembered_than_are_of_use() {
        let place = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(place.path().to_owned());
        let many = (0..MOST).map(|number| place.path().join(number.to_string()));
        shelf.settled().names.extend(many);
        let directory = place.path().join("one-more");
        make_directories(&directory).unwrap();
        shelf.settle(&directory).unwrap();
        assert_eq!(settled(&shelf), [directory]);
    }
}
