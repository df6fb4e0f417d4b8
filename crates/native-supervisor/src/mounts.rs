//! Mounts, by descriptor: made detached, given their attributes, then put in
//! place. A mount is never visible with weaker attributes than it ends with.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use crate::failure::{Failure, Step};
use crate::sys::{self, Reach};

/// What may not be done on a mount.
#[derive(Clone, Copy, Debug)]
pub struct Attributes(u64);

impl Attributes {
    /// Files of programs and data that nobody may change.
    pub const READ_ONLY: Self =
        Self(libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    /// Files that may be changed.
    pub const WRITABLE: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    /// A device.
    pub const DEVICE: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC);
    /// Files of the kernel's.
    pub const KERNEL: Self =
        Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC);
}

/// A copy of the mount at `path` and of all below it, not in place yet.
///
/// # Errors
/// When the path is not there or may not be mounted.
pub fn copy_of(path: &Path) -> Result<OwnedFd, Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).step_with(|| format!("take {}", path.display()))
}

/// A copy of the mount at `path` alone, not in place yet: what is mounted below
/// it is not part of it.
///
/// # Errors
/// When the path is not there or may not be mounted.
pub fn copy_of_one(path: &Path) -> Result<OwnedFd, Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, path, flags).step_with(|| format!("take {}", path.display()))
}

/// Gives a mount and all below it its attributes.
///
/// # Errors
/// When the kernel refuses.
pub fn restrict(mount: BorrowedFd<'_>, attributes: Attributes) -> Result<(), Failure> {
    sys::set_mount_attributes(mount, Reach::AllBelow, attributes.0, 0, None)
        .step("restrict a mount")
}

/// Maps the owners of a mount's files by a user namespace.
///
/// # Errors
/// When the file system cannot do that.
pub fn map_owners(mount: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> Result<(), Failure> {
    sys::set_mount_attributes(mount, Reach::This, 0, 0, Some(namespace))
        .step("map the owners of the workspace's files")
}

/// Whether the root of the room at `place` may be changed.
///
/// # Errors
/// When the kernel refuses.
pub fn seal_root(place: &Path, access: RootAccess) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(place, flags, Mode::empty()).step("open the root")?;
    let read_only = libc::MOUNT_ATTR_RDONLY;
    let (set, clear) = match access {
        RootAccess::Sealed => (read_only, 0),
        RootAccess::Open => (0, read_only),
    };
    sys::set_mount_attributes(root.as_fd(), Reach::This, set, clear, None).step("seal the root")
}

/// Whether the root directory itself can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootAccess {
    /// It cannot.
    Sealed,
    /// It can, while a sandbox is being built.
    Open,
}

/// Puts a mount in place.
///
/// # Errors
/// When there is no such place.
pub fn place(mount: impl AsFd, at: impl AsRef<Path>) -> Result<(), Failure> {
    let at = at.as_ref();
    move_mount(mount, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .step_with(|| format!("mount {}", at.display()))
}

/// Shows the host's `source` at `at`.
///
/// # Errors
/// When either is not there.
pub fn bind(source: &Path, at: impl AsRef<Path>, attributes: Attributes) -> Result<(), Failure> {
    let mount = copy_of(source)?;
    restrict(mount.as_fd(), attributes)?;
    place(mount, at)
}

/// A new file system, not in place yet.
///
/// # Errors
/// When the kernel has no such file system or refuses an option.
pub fn new_file_system(
    kind: &str,
    options: &[(&str, &str)],
    attributes: Attributes,
) -> Result<OwnedFd, Failure> {
    let context =
        fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).step_with(|| format!("open a {kind}"))?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)
            .step_with(|| format!("set {key}={value} of a {kind}"))?;
    }
    fsconfig_create(context.as_fd()).step_with(|| format!("make a {kind}"))?;
    let flags = MountAttrFlags::from_bits_retain(attributes.0 as u32);
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
        .step_with(|| format!("mount a {kind}"))
}

/// An overlay of layers, topmost first, with a place for changes, put at `at`.
///
/// # Errors
/// When the file systems of the layers cannot be stacked.
pub fn stack(lower: &[String], upper: &str, work: &str, at: &Path) -> Result<(), Failure> {
    // The options go through mount(2): a value of the newer interface is
    // limited to 256 bytes.
    let options = format!("lowerdir={},upperdir={upper},workdir={work},userxattr", lower.join(":"));
    let options = std::ffi::CString::new(options)
        .map_err(|_| Failure::new("a layer's name has a NUL byte"))?;
    let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
    rustix::mount::mount("overlay", at, "overlay", flags, options.as_c_str())
        .step_with(|| format!("stack {} layers at {}", lower.len() + 1, at.display()))
}
