//! Where the changes to a workspace are kept until it is known what becomes of
//! them.
//!
//! In memory, on a file system of limited size: gone with the sandbox. On disk:
//! they survive whatever happens to the supervisor, so that they can be applied
//! later. Root keeps them in the image of a file system of limited size; an
//! ordinary user cannot mount one, and keeps them in a plain directory without a
//! limit on their sum.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, chownat};

use crate::failure::{Failure, Step};
use crate::identity::{Identity, RANGE_START};
use crate::mounts::{self, Attributes};
use crate::sys;
use crate::template;
use crate::tree;
use crate::wire::{Keep, Plan, WorkspacePlan};

/// The plain directory.
const DIRECTORY: &str = "layers";

/// The image.
const IMAGE: &str = "layers.ext4";

/// What an inode of the image takes.
pub(crate) const INODE_SIZE: u64 = 256;

/// A place on disk for changes.
#[derive(Debug)]
pub enum OnDisk {
    /// The mounted image: of limited size.
    Image(OwnedFd),
    /// A plain directory.
    Directory(PathBuf),
}

/// Makes the place on disk, where the plan has changes kept there.
///
/// # Errors
/// When not even a directory can be made.
pub fn make(plan: &Plan, identity: Identity) -> Result<Option<OnDisk>, Failure> {
    if !matches!(&plan.workspace, WorkspacePlan::Directory(_, Keep::OnDisk)) {
        return Ok(None);
    }
    if identity.is_roots()
        && let Ok(image) = make_image(plan, identity)
    {
        return Ok(Some(OnDisk::Image(image)));
    }
    let directory = plan.state.join(DIRECTORY);
    rustix::fs::mkdir(&directory, Mode::from_raw_mode(0o755)).step("make a place for changes")?;
    if identity.is_roots() {
        let (uid, gid) = builder(identity);
        rustix::fs::chown(&directory, uid, gid).step("hand over the place for changes")?;
    }
    Ok(Some(OnDisk::Directory(directory)))
}

/// Opens what a dead sandbox left of it, if it left any.
///
/// # Errors
/// When it is there and cannot be opened.
pub fn reopen(state: &Path) -> Result<Option<OwnedFd>, Failure> {
    let image = state.join(IMAGE);
    if image.exists() {
        return mount_image(&image).map(Some);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, state.join(DIRECTORY), flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error).step("open the changes"),
    }
}

/// Copies changes that were kept in memory and could not be applied to disk, so
/// that a later start can apply them; returns the failure to tell.
pub fn save(plan: &Plan, store: BorrowedFd<'_>, failure: Failure) -> Failure {
    match save_layers(&plan.state.join(DIRECTORY), store) {
        Ok(()) => failure,
        Err(second) => Failure {
            step: format!("{}; and they could not be kept and are lost: {second}", failure.step),
            errno: failure.errno,
        },
    }
}

fn save_layers(directory: &Path, store: BorrowedFd<'_>) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for number in 0u32.. {
        let layer = rustix::fs::openat(store, number.to_string(), flags, Mode::empty())
            .and_then(|parent| tree::enter(parent.as_fd(), c"u"));
        let layer = match layer {
            Ok(layer) => layer,
            Err(rustix::io::Errno::NOENT) => break,
            Err(error) => return Err(error).step("open the changes"),
        };
        let place = directory.join(number.to_string()).join("u");
        std::fs::create_dir_all(&place).step("make a place for changes")?;
        let to = rustix::fs::open(&place, flags, Mode::empty()).step("open a place for changes")?;
        tree::copy_layer(layer.as_fd(), to.as_fd())?;
        let stat = rustix::fs::fstat(&layer).step("look at the changes")?;
        let (uid, gid) =
            (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
        rustix::fs::fchown(&to, Some(uid), Some(gid)).step("hand over the changes")?;
    }
    Ok(())
}

/// Whose the places for changes are.
fn builder(identity: Identity) -> (Option<Uid>, Option<Gid>) {
    let builder = identity.builder_outside();
    (Some(Uid::from_raw(builder)), Some(Gid::from_raw(builder)))
}

fn make_image(plan: &Plan, identity: Identity) -> Result<OwnedFd, Failure> {
    let path = plan.state.join(IMAGE);
    let inodes = plan.limits.inodes.clamp(64, u64::from(u32::MAX));
    let size = plan.limits.disk.max(1 << 20) + inodes * INODE_SIZE * 9 / 8 + (4 << 20);
    let made = template::copy(&plan.state, size, inodes, &path);
    let mounted = made.and_then(|()| mount_image(&path)).and_then(|image| {
        // Images are made for the range that most sandboxes have.
        if identity.builder_outside() != RANGE_START {
            let (uid, gid) = builder(identity);
            chownat(&image, "", uid, gid, AtFlags::EMPTY_PATH)
                .step("hand over the image of changes")?;
        }
        Ok(image)
    });
    mounted.inspect_err(|_| {
        // The plain directory takes its place.
        crate::failure::ignore(std::fs::remove_file(&path));
    })
}

fn mount_image(path: &Path) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).step("open the image of changes")?;
    let (_device, name) =
        sys::attach_loop(file.as_fd()).step("make the image of changes a device")?;
    mounts::new_file_system("ext4", &[("source", &name)], Attributes::WRITABLE)
}
