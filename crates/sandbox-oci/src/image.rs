//! The image of a container whose room is built by the supervisor: next to nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Its name in an engine.
pub(crate) const NAME: &str = "cofferdam-room:1";

/// The directories in it: where engines mount what they always do, and where the room is
/// mounted first.
const DIRECTORIES: &[&str] = &["dev", "etc", "proc", "room", "sys"];

/// The files that something is mounted over.
const FILES: &[&str] = &[".cofferdam-door", ".cofferdam-program"];

/// As an archive.
pub(crate) fn archive() -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |name: &str, kind: tar::EntryType, mode: u32| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(0);
        header.set_mtime(0);
        archive.append_data(&mut header, name, io::empty())
    };
    for name in DIRECTORIES {
        add(name, tar::EntryType::Directory, 0o755)?;
    }
    for name in FILES {
        add(name, tar::EntryType::Regular, 0o755)?;
    }
    archive.into_inner()
}

/// As a directory, below `shelf`; made if it is not there.
pub(crate) fn directory(shelf: &Path) -> io::Result<PathBuf> {
    let root = shelf.join(NAME.replace(':', "-"));
    for name in DIRECTORIES {
        fs::create_dir_all(root.join(name))?;
    }
    for name in FILES {
        let path = root.join(name);
        if !path.exists() {
            fs::write(path, "")?;
        }
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use cofferdam_native_supervisor::hire::SITE;

    use super::*;
    use crate::container::PROGRAM;

    #[test]
    fn it_has_the_places_that_the_supervisor_expects() {
        let shelf = tempfile::tempdir().unwrap();
        let root = directory(shelf.path()).unwrap();
        assert_eq!(directory(shelf.path()).unwrap(), root);
        for place in [SITE, PROGRAM, cofferdam_native_supervisor::hire::DOOR] {
            assert!(root.join(place.trim_start_matches('/')).exists(), "{place}");
        }
        let archive = archive().unwrap();
        let mut archive = tar::Archive::new(archive.as_slice());
        assert_eq!(archive.entries().unwrap().count(), DIRECTORIES.len() + FILES.len());
    }
}
