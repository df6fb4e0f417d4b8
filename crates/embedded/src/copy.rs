//! A program as a file that is kept, named by its content.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, StatVfsMountFlags};

use crate::Program;

const NOFOLLOW: i32 = OFlags::NOFOLLOW.bits() as i32;

/// The copy in a directory, if there is one that can be run.
///
/// # Errors
/// When it cannot be looked at.
pub fn find(shelf: &Path, program: &Program) -> io::Result<Option<File>> {
    let path = shelf.join(program.name);
    match OpenOptions::new().read(true).custom_flags(NOFOLLOW).open(path) {
        Ok(file) if is_ours(&file, program)? => Ok(Some(file)),
        _ => Ok(None),
    }
}

/// Whether a kept copy is whole, this user's, and nobody else's to change. That
/// its content is right is a matter of its name: copies are put in place whole.
fn is_ours(file: &File, program: &Program) -> io::Result<bool> {
    let metadata = file.metadata()?;
    let can_run = !rustix::fs::fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::NOEXEC);
    Ok(metadata.is_file()
        && metadata.len() == program.bytes.len() as u64
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.mode() & 0o777 == 0o555
        && can_run)
}

/// Puts a copy into a directory, which is made with this mode if it is missing.
///
/// # Errors
/// When it cannot be written.
pub fn keep(shelf: &Path, mode: u32, program: &Program) -> io::Result<PathBuf> {
    if let Some(above) = shelf.parent() {
        DirBuilder::new().mode(0o700).recursive(true).create(above)?;
    }
    match DirBuilder::new().mode(mode).create(shelf) {
        // Whatever the user's mask says of new files.
        Ok(()) => fs::set_permissions(shelf, Permissions::from_mode(mode))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let path = shelf.join(program.name);
    let incoming = shelf.join(format!("{}.{}", program.name, std::process::id()));
    let written = write(&incoming, program.bytes).and_then(|()| fs::rename(&incoming, &path));
    if written.is_err() {
        drop(fs::remove_file(&incoming));
    }
    written.map(|()| path)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o555).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(0o555))?;
    file.sync_all()
}
