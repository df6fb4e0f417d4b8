//! The image of a container whose room is built by the supervisor: next to nothing.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
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
    // Whatever the user's mask says, now or when they were made: all is for everybody to see.
    let show = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755));
    fs::create_dir_all(&root)?;
    show(shelf)?;
    show(&root)?;
    for name in DIRECTORIES {
        let path = root.join(name);
        fs::create_dir_all(&path)?;
        show(&path)?;
    }
    for name in FILES {
        let path = root.join(name);
        if !path.exists() {
            fs::write(&path, "")?;
        }
        show(&path)?;
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use cofferdam_native_supervisor::hire::SITE;

    use super::*;
    use crate::container::PROGRAM;

    #[test]
    fn everybody_may_see_it_also_where_a_strict_mask_made_it() {
        let shelf = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let root = directory(shelf.path()).unwrap();
        let all = || DIRECTORIES.iter().chain(FILES).map(|name| root.join(name));
        let closed = Permissions::from_mode(0o700);
        all().chain([root.clone()]).for_each(|path| {
            fs::set_permissions(path, closed.clone()).unwrap();
        });
        directory(shelf.path()).unwrap();
        for path in all().chain([root.clone(), shelf.path().to_owned()]) {
            assert_eq!(mode(&path), 0o755, "{}", path.display());
        }
    }

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
