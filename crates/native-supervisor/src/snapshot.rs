//! Snapshots of a workspace.
//!
//! A quiet sandbox is frozen in constant time: its present layer becomes one
//! that is only read, and a new one takes its place. Where processes run, they
//! may hold files of the present layer open and would go on writing to what is
//! supposed to be frozen; there the layer is copied while they are stopped, in
//! time proportional to what has changed. So it is where a kernel that is a program serves
//! the workspace: it would not see another one take its place.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::mount::UnmountFlags;

use crate::cgroup::Groups;
use crate::failure::{Failure, Step, ignore};
use crate::identity::Identity;
use crate::room::{self, Setting, Vault};
use crate::start::{Lent, enter, wait};
use crate::sys::{self, Cloned};
use crate::{processes, tree, wire};

/// How long processes have to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// The workspace of one sandbox and its frozen states.
#[derive(Debug)]
pub struct Workspace {
    vault: Vault,
    identity: Identity,
    namespaces: Lent,
    setting: Setting,
    /// The layer that takes changes now.
    present: u32,
    /// How many copies were made.
    copies: u32,
    /// The layers of each snapshot, topmost first.
    snapshots: Vec<Vec<String>>,
}

impl Workspace {
    /// The workspace of a room that was just built.
    #[must_use]
    pub fn new(vault: Vault, identity: Identity, namespaces: Lent, setting: Setting) -> Self {
        Self { vault, identity, namespaces, setting, present: 0, copies: 0, snapshots: Vec::new() }
    }

    /// The layers of a snapshot.
    #[must_use]
    pub fn layers(&self, number: u32) -> Option<&Vec<String>> {
        self.snapshots.get(number as usize)
    }

    /// Where its layers are.
    ///
    /// # Errors
    /// When it is gone.
    pub fn store(&self) -> Result<OwnedFd, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let store = self.vault.store.as_str();
        rustix::fs::openat(&self.vault.directory, store, flags, Mode::empty())
            .step("open the changes")
    }

    /// What a fork begins from.
    #[must_use]
    pub fn namespaces(&self) -> &Lent {
        &self.namespaces
    }

    /// Takes a snapshot and returns its number. `meanwhile` answers processes
    /// that wait for the supervisor while they are being stopped.
    ///
    /// # Errors
    /// The step that failed; the workspace is then as it was.
    pub fn freeze(
        &mut self,
        init: u32,
        groups: &Groups,
        mut meanwhile: impl FnMut(),
    ) -> Result<u32, Failure> {
        let mut stopped = Vec::new();
        if !groups.freeze(PATIENCE, &mut meanwhile)? {
            stopped = processes::stop_below(init, &mut meanwhile)?;
        }
        let stays = self.setting == Setting::Served || processes::any_below(init);
        let layers = if stays { self.copy() } else { self.restack() };
        processes::continue_all(&stopped);
        groups.thaw();
        self.snapshots.push(layers?);
        u32::try_from(self.snapshots.len() - 1).map_err(|_| Failure::new("too many snapshots"))
    }

    fn restack(&mut self) -> Result<Vec<String>, Failure> {
        let store = self.vault.store.clone();
        let mut lower = vec![room::upper_of(&store, self.present)];
        lower.extend(self.vault.lower.iter().cloned());
        let (identity, next) = (self.identity, self.present + 1);
        let before = self.vault.lower.clone();
        let (present, setting) = (self.present, self.setting);
        self.inside(|| {
            rustix::mount::unmount(setting.workspace(), UnmountFlags::DETACH)
                .step("take the workspace away")?;
            room::open_workspace(identity, setting, &store, next, &lower).inspect_err(|_| {
                // Back to what it was; if that fails as well, the first error
                // is the one to tell.
                ignore(room::open_workspace(identity, setting, &store, present, &before));
            })
        })?;
        self.present = next;
        self.vault.lower.clone_from(&lower);
        Ok(lower)
    }

    fn copy(&mut self) -> Result<Vec<String>, Failure> {
        let from = room::upper_of(&self.vault.store, self.present);
        let (store, name) = (self.vault.store.as_str(), format!("copy{}", self.copies));
        let to = format!("{store}/{name}");
        self.copies += 1;
        let copied = self.inside(|| {
            rustix::fs::mkdir(to.as_str(), Mode::from_raw_mode(0o755)).step("make a layer")?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let open = |path: &str| rustix::fs::open(path, flags, Mode::empty());
            let (from, to) =
                (open(&from).step("open the layer")?, open(&to).step("open the copy")?);
            tree::copy_whole_layer(from.as_fd(), to.as_fd())?;
            let stat = rustix::fs::fstat(&from).step("look at the layer")?;
            let (uid, gid) =
                (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
            rustix::fs::fchown(&to, Some(uid), Some(gid)).step("hand over the copy")
        });
        if let Err(failure) = copied {
            // Half a copy is nobody's, and takes the room that the workspace has. It is removed
            // by another process: the one that made it may have been killed. If this fails as
            // well, the first error is the one to tell.
            ignore(self.inside(|| {
                let name =
                    CString::new(name).map_err(|_| Failure::new("a layer has no such name"))?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let store =
                    rustix::fs::open(store, flags, Mode::empty()).step("open the changes")?;
                tree::remove(store.as_fd(), &name).step("remove the copy")
            }));
            return Err(failure);
        }
        let mut layers = vec![to];
        layers.extend(self.vault.lower.iter().cloned());
        Ok(layers)
    }

    /// Does something in the sandbox's namespaces, in the vault, in a process of
    /// its own.
    fn inside(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let (here, there) = wire::pair()?;
        let child: OwnedFd = match sys::clone_process(0, None).step("make a process")? {
            Cloned::Parent(_, child) => child,
            Cloned::Child => {
                let outcome = enter(&self.namespaces)
                    .and_then(|()| room::become_builder(self.identity))
                    .and_then(|()| {
                        rustix::process::fchdir(&self.vault.directory).step("enter the vault")
                    })
                    .and_then(|()| work());
                ignore(wire::send(&there, &outcome, &[]));
                std::process::exit(0);
            }
        };
        drop(there);
        let outcome = wire::receive::<Result<(), Failure>>(&here)?;
        wait(&child)?;
        outcome.map_or_else(|| Err(Failure::new("a helper process died")), |(outcome, _)| outcome)
    }
}
