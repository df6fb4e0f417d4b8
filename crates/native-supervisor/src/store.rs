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

use cofferdam_types::Kept;
use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, Uid, chownat};

use crate::failure::{Failure, Step};
use crate::identity::Identity;
use crate::mounts::{self, Attributes};
use crate::sys;
use crate::template;
use crate::tree;
use crate::wire::Plan;

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
    if plan.workspace.kept() == Kept::InMemory {
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
/// When it is there and cannot be opened. [`is_in_use`] of the failure: not yet.
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
            step: format!("{}; and not all of them could be kept: {second}", failure.step),
            errno: failure.errno,
        },
    }
}

/// What cannot be saved of one layer holds back nothing of the others.
fn save_layers(directory: &Path, store: BorrowedFd<'_>) -> Result<(), Failure> {
    let mut outcome = Ok(());
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
        outcome = outcome.and(tree::copy_layer(layer.as_fd(), to.as_fd()));
        let stat = rustix::fs::fstat(&layer).step("look at the changes")?;
        let (uid, gid) =
            (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
        rustix::fs::fchown(&to, Some(uid), Some(gid)).step("hand over the changes")?;
    }
    outcome
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
        let (uid, gid) = builder(identity);
        chownat(&image, "", uid, gid, AtFlags::EMPTY_PATH)
            .step("hand over the image of changes")?;
        Ok(image)
    });
    mounted.inspect_err(|_| {
        // The plain directory takes its place.
        crate::failure::ignore(std::fs::remove_file(&path));
    })
}

/// Whether a dead sandbox left changes.
#[must_use]
pub fn is_there(state: &Path) -> bool {
    // What cannot be looked at may well be there.
    [IMAGE, DIRECTORY].iter().any(|name| state.join(name).try_exists().unwrap_or(true))
}

/// Whether there may be something in what a dead sandbox left.
pub(crate) fn has_changes(state: &Path) -> bool {
    let is_empty = |layer: PathBuf| {
        std::fs::read_dir(layer.join("u")).is_ok_and(|mut entries| entries.next().is_none())
    };
    match std::fs::read_dir(state.join(DIRECTORY)) {
        Ok(layers) => !layers.flatten().all(|layer| is_empty(layer.path())),
        Err(_) => is_there(state),
    }
}

/// Whether what a dead sandbox left is a plain directory, of which nobody can tell whether
/// somebody still writes there.
#[must_use]
pub fn is_plain(state: &Path) -> bool {
    !state.join(IMAGE).exists() && state.join(DIRECTORY).exists()
}

/// Whether changes could not be opened because their sandbox, which is about to end, still
/// has them.
#[must_use]
pub fn is_in_use(failure: &Failure) -> bool {
    failure.errno == rustix::io::Errno::WOULDBLOCK.raw_os_error()
}

/// A file system that is mounted twice is not one: what the one has not written yet, the
/// other does not see. The device keeps the file and with it the lock, until the last of
/// those who have it mounted has written all and let go.
fn mount_image(path: &Path) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).step("open the image of changes")?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .step("have the image of changes for oneself")?;
    let (_device, name) =
        sys::attach_loop(file.as_fd()).step("make the image of changes a device")?;
    // Nothing hangs on the order in which it is written to the disk: what the machine did not
    // write before it went down is in doubt as a whole.
    let options = [("source", name.as_str()), ("barrier", "0")];
    mounts::new_file_system("ext4", &options, Attributes::WRITABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_saved_holds_back_no_other_layer() {
        let place = tempfile::tempdir().unwrap();
        let layer = |number: &str| place.path().join("store").join(number).join("u");
        for number in ["0", "1"] {
            std::fs::create_dir_all(layer(number)).unwrap();
            std::fs::write(layer(number).join(format!("work{number}")), number).unwrap();
        }
        // Deeper than is climbed.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut deep = rustix::fs::open(layer("0"), flags, Mode::empty()).unwrap();
        for _ in 0..2100 {
            rustix::fs::mkdirat(&deep, "d", Mode::RWXU).unwrap();
            deep = rustix::fs::openat(&deep, "d", flags, Mode::empty()).unwrap();
        }
        let store = rustix::fs::open(place.path().join("store"), flags, Mode::empty()).unwrap();
        let saved = place.path().join("saved");
        assert!(save_layers(&saved, store.as_fd()).is_err());
        for number in ["0", "1"] {
            let path = saved.join(number).join("u").join(format!("work{number}"));
            assert_eq!(std::fs::read_to_string(path).unwrap(), number);
        }
        for name in [c"store", c"saved"] {
            let parent = rustix::fs::open(place.path(), flags, Mode::empty()).unwrap();
            tree::remove(parent.as_fd(), name).unwrap();
        }
    }

    #[test]
    fn an_image_that_somebody_has_is_not_mounted_a_second_time() {
        if !rustix::process::geteuid().is_root() || template::image_maker().is_none() {
            eprintln!("skipped: only root mounts images, with mkfs.ext4");
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        std::fs::create_dir(&state).unwrap();
        template::copy(&state, 8 << 20, 64, &state.join(IMAGE)).unwrap();
        let first = reopen(&state).unwrap().unwrap();
        let refused = reopen(&state).unwrap_err();
        assert!(is_in_use(&refused), "{refused}");
        let written = rustix::fs::openat(
            &first,
            "written",
            OFlags::CREATE | OFlags::WRONLY,
            Mode::from_raw_mode(0o600),
        );
        rustix::io::write(written.unwrap(), b"all of it").unwrap();
        drop(first);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let second = loop {
            match reopen(&state) {
                Ok(second) => break second.unwrap(),
                Err(failure) => assert!(is_in_use(&failure), "{failure}"),
            }
            assert!(std::time::Instant::now() < deadline, "it is never let go of");
            std::thread::yield_now();
        };
        let file = rustix::fs::openat(&second, "written", OFlags::RDONLY, Mode::empty()).unwrap();
        let mut bytes = [0; 16];
        assert_eq!(rustix::io::read(file, &mut bytes).unwrap(), 9);
    }
}
