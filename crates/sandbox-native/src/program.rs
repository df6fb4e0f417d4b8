//! The supervisor's program, ready to be started.
//!
//! It is carried inside the product's binary. Putting it into memory for every
//! start would cost as much as the sandbox does, so the first start leaves a copy
//! beside the sandboxes' directories, named by its content, and later ones use
//! that. Where no copy can be kept, or run, memory it is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use cofferdam_embedded::{Program, SUPERVISOR, in_memory};

use crate::state::SHARED;

/// Finds the copy kept near `home`, or makes one for the next time.
pub(crate) fn find(home: &Path) -> io::Result<OwnedFd> {
    find_on(&home.join(SHARED), &SUPERVISOR)
}

fn find_on(shelf: &Path, program: &Program) -> io::Result<OwnedFd> {
    let path = shelf.join(program.name);
    match fs::OpenOptions::new().read(true).custom_flags(NOFOLLOW).open(&path) {
        Ok(file) if is_ours(&file, program)? => Ok(file.into()),
        _ => {
            // It may be kept for the next time, or not; this time it is not
            // needed, and a file that was just written may not be executed yet.
            drop(keep(shelf, &path, program));
            in_memory(program)
        }
    }
}

const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Whether a kept copy is whole, this user's, and nobody else's to change. That
/// its content is right is a matter of its name: copies are put in place whole.
fn is_ours(file: &File, program: &Program) -> io::Result<bool> {
    let metadata = file.metadata()?;
    let can_run =
        !rustix::fs::fstatvfs(file)?.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
    Ok(metadata.is_file()
        && metadata.len() == program.bytes.len() as u64
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.mode() & 0o777 == 0o555
        && can_run)
}

fn keep(shelf: &Path, path: &Path, program: &Program) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(shelf)?;
    let incoming = shelf.join(format!("{}.{}", program.name, std::process::id()));
    let written = write(&incoming, program.bytes).and_then(|()| fs::rename(&incoming, path));
    if written.is_err() {
        drop(fs::remove_file(&incoming));
    }
    written
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o555).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
