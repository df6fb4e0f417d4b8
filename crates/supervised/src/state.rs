//! The directory of a sandbox on the host.
//!
//! Whoever makes one locks it. Somebody who looks for remains may be quicker, and
//! remove it again: then it is made anew.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cofferdam_native_supervisor::remains;
use cofferdam_types::SandboxId;
use rustix::fs::{Mode, OFlags};

/// What all sandboxes of a home share.
pub(crate) const SHARED: &str = ".shared";

/// The file that names a sandbox's container, where it has one.
const CONTAINER: &str = "container";

/// So often it is tried to be in time.
const TRIES: u32 = 1000;

/// A sandbox's directory, with its lock held. It goes with this, unless a supervisor
/// has it.
pub(crate) struct State {
    pub(crate) path: PathBuf,
    pub(crate) lock: OwnedFd,
    handed_over: bool,
}

/// Where a sandbox's directory is.
pub(crate) fn path(home: &Path, id: SandboxId) -> PathBuf {
    home.join(id.to_string())
}

/// The containers of sandboxes that somebody makes or holds now. One that waited is given
/// another directory, once, when it is taken, and may be missed just then: so two looks.
pub(crate) fn held_containers(home: &Path) -> HashSet<String> {
    let mut names = HashSet::new();
    for _ in 0..2 {
        let entries = fs::read_dir(home).into_iter().flatten().flatten();
        let held = entries.filter(|entry| matches!(remains::take_lock(&entry.path()), Ok(None)));
        names
            .extend(held.filter_map(|entry| fs::read_to_string(entry.path().join(CONTAINER)).ok()));
    }
    names
}

/// Where every sandbox first mounts its root, for itself alone. Removing such a
/// directory makes the kernel look for its mounts in every namespace, so it is
/// one for all and stays.
pub(crate) fn mount_point(home: &Path) -> PathBuf {
    home.join(SHARED).join("root")
}

/// Makes a sandbox's directory.
pub(crate) fn make(home: &Path, id: SandboxId) -> io::Result<State> {
    let mount_point = mount_point(home);
    if !mount_point.is_dir() {
        fs::DirBuilder::new().mode(0o700).recursive(true).create(mount_point)?;
    }
    let path = path(home, id);
    let mut tries = 0;
    let lock = loop {
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            // Not yet removed since the last try.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries > 0 => {}
            other => other?,
        }
        match remains::take_lock(&path) {
            Ok(Some(lock)) => break lock,
            Err(failure) if failure.errno != rustix::io::Errno::NOENT.raw_os_error() => {
                return Err(io::Error::from_raw_os_error(failure.errno));
            }
            // Somebody took it for the remains of a dead one.
            _ if tries == TRIES => return Err(io::ErrorKind::ResourceBusy.into()),
            _ => tries += 1,
        }
        std::thread::yield_now();
    };
    Ok(State { path, lock, handed_over: false })
}

impl State {
    /// Notes the name of its container.
    pub(crate) fn name_container(&self, name: &str) -> io::Result<()> {
        fs::write(self.path.join(CONTAINER), name)
    }

    /// Makes it the directory of another sandbox.
    pub(crate) fn rename(&mut self, home: &Path, id: SandboxId) -> io::Result<()> {
        let path = path(home, id);
        fs::rename(&self.path, &path)?;
        self.path = path;
        Ok(())
    }

    /// The supervisor has it now: where it is.
    pub(crate) fn hand_over(mut self) -> PathBuf {
        self.handed_over = true;
        std::mem::take(&mut self.path)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if !self.handed_over {
            // What is left all the same is removed by the next start.
            drop(remains::remove_state(&self.path));
        }
    }
}

/// A handle of a sandbox's directory, by which its sockets can be named however
/// long the directory's own name is.
pub(crate) fn handle(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}
