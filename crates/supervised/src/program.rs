//! The supervisor's program, ready to be started.
//!
//! It is carried inside the product's binary. Putting it into memory for every
//! start would cost as much as the sandbox does, so the first start leaves a copy
//! beside the sandboxes' directories, named by its content, and later ones use
//! that. Where no copy can be kept, or run, memory it is.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use cofferdam_embedded::{Program, SUPERVISOR, copy, in_memory};

use crate::state::SHARED;

/// Finds the copy kept near `home`, or makes one for the next time.
pub(crate) fn find(home: &Path) -> io::Result<OwnedFd> {
    find_on(&home.join(SHARED), &SUPERVISOR)
}

fn find_on(shelf: &Path, program: &Program) -> io::Result<OwnedFd> {
    match copy::find(shelf, program)? {
        Some(file) => Ok(file.into()),
        None => {
            // It may be kept for the next time, or not; this time it is not
            // needed, and a file that was just written may not be executed yet.
            drop(copy::keep(shelf, 0o700, program));
            in_memory(program)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn the_second_time_the_kept_copy_is_used() {
        let home = tempfile::tempdir().unwrap();
        find(home.path()).unwrap();
        let kept = home.path().join(SHARED).join(SUPERVISOR.name);
        assert_eq!(fs::read(&kept).unwrap(), SUPERVISOR.bytes);
        let found = File::from(find(home.path()).unwrap()).metadata().unwrap();
        assert_eq!(found.ino(), fs::metadata(&kept).unwrap().ino());
    }

    #[test]
    fn a_copy_that_others_could_have_changed_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        find(home.path()).unwrap();
        let kept = home.path().join(SHARED).join(SUPERVISOR.name);
        let before = fs::metadata(&kept).unwrap().ino();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o777)).unwrap();
        let found = find(home.path()).unwrap();
        assert_ne!(File::from(found).metadata().unwrap().ino(), before);
    }
}
