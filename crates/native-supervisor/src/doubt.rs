//! Whether the changes that a sandbox left on disk are all there.
//!
//! The kernel writes them in its own time. A machine that goes down before leaves files that
//! are empty or cut short where whole ones were made, and a disk that is full beneath an image
//! leaves holes in them. Applied, they would replace files that are good. So they wait for the
//! word of whoever they belong to: a file of theirs beside them.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::failure::{Failure, Step, ignore};
use crate::store;

/// The file that says since when the machine ran that they were made on. It is removed from
/// beside those that could not be written: for that, a full disk has room.
const BOOT: &str = "boot";

/// The file that says that they are wanted as they are.
const WANTED: &str = "apply";

/// Where the kernel says the same of itself.
const THIS_BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Notes on which machine, running since when, changes are about to be made.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn note_boot(state: &Path) -> io::Result<()> {
    fs::write(state.join(BOOT), fs::read(THIS_BOOT)?)
}

/// Why the changes in this directory of a sandbox are not to be applied without somebody's word.
#[must_use]
pub fn of(state: &Path) -> Option<&'static str> {
    if state.join(WANTED).exists() || !store::has_changes(state) {
        return None;
    }
    match (fs::read(state.join(BOOT)), fs::read(THIS_BOOT)) {
        (Ok(then), Ok(now)) if then == now => None,
        (Ok(_), Ok(_)) => Some(
            "the machine went down before they were all on disk: some may be empty or cut short",
        ),
        _ => Some("they could not all be written to disk: some may have holes"),
    }
}

/// What helps then.
#[must_use]
pub fn remedy(state: &Path) -> String {
    let state = state.display();
    format!(
        "look at them in {state}; then `touch {state}/{WANTED}` to have them applied as they are, or \
         delete {state} to give them up"
    )
}

/// Sees whether the kernel could write what was changed in a file system. Errors are told to
/// those who were there before them.
#[derive(Debug)]
pub(crate) struct Witness(OwnedFd);

impl Witness {
    /// One for the file system that is mounted here, from now on.
    pub(crate) fn of(mount: &OwnedFd) -> Result<Self, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(mount, ".", flags, Mode::empty());
        opened.map(Self).step("open the place for changes")
    }

    /// Has everything written, and notes in the sandbox's directory if that was not possible.
    ///
    /// # Errors
    /// When something could not be written, now or since this was made.
    pub(crate) fn testify(&self, state: &Path) -> Result<(), Failure> {
        let outcome = rustix::fs::syncfs(&self.0).step_with(|| {
            format!(
                "write the sandbox's changes to disk (what is there of them is kept in {})",
                state.display()
            )
        });
        outcome.inspect_err(|_| ignore(fs::remove_file(state.join(BOOT))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_from_before_the_machines_start_wait_for_somebodys_word() {
        let state = tempfile::tempdir().unwrap();
        let layer = state.path().join("layers/0/u");
        fs::create_dir_all(&layer).unwrap();
        assert_eq!(of(state.path()), None, "nothing was changed");
        fs::write(layer.join("work"), "").unwrap();
        assert!(of(state.path()).unwrap().contains("not all"), "nobody knows when");
        note_boot(state.path()).unwrap();
        assert_eq!(of(state.path()), None);
        fs::write(state.path().join(BOOT), "0f0e0d0c-0000-4000-8000-000000000000\n").unwrap();
        assert!(of(state.path()).unwrap().contains("went down"));
        assert!(remedy(state.path()).contains("/apply"));
        fs::write(state.path().join("apply"), "").unwrap();
        assert_eq!(of(state.path()), None);
    }

    #[test]
    fn an_image_may_have_anything_in_it() {
        let state = tempfile::tempdir().unwrap();
        fs::write(state.path().join("layers.ext4"), "").unwrap();
        assert!(of(state.path()).unwrap().contains("holes"));
        note_boot(state.path()).unwrap();
        assert_eq!(of(state.path()), None);
    }
}
