//! Starting the first process of a sandbox: the supervisor's side.
//!
//! A newborn is cloned into its namespaces before anybody needs it, where there
//! is time for that, and is told what to be once there is a plan. The two sides
//! talk over a socket pair that is gone once the guest runs: the supervisor sends
//! the plan, what is to be built from, and the control groups to join; the first
//! process hands out what only it could make, or says which step failed.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, pidfd_send_signal};
use rustix::thread::{LinkNameSpaceType, sched_getaffinity};
use serde::{Deserialize, Serialize};

use crate::cgroup::Groups;
use crate::failure::{Failure, Step, ignore};
use crate::identity::{Identity, is_own_namespace};
use crate::network::{Maker, Network};
use crate::processors::Stay;
use crate::store::OnDisk;
use crate::sys::{self, Cloned};
use crate::waiting::ends_within;
use crate::wire::{self, FirstPlan, NetworkPlan, Plan, WorkspacePlan};
use crate::{confine, first_process, hire, mounts, processors};

/// What the first process says while it starts.
#[derive(Debug, Serialize, Deserialize)]
pub enum Progress {
    /// A fork's first process has this number; beside it a descriptor of it.
    Born(u32),
    /// Its room is built, which another kernel is going to serve: that is started now, and
    /// whoever is first in it speaks next. Beside it the vault, where the runtime complains
    /// and, as far as there are any, the proxy's listener and where that kernel tells of calls.
    Built {
        /// The store of its layers.
        store: String,
        /// The frozen layers.
        lower: Vec<String>,
        /// Whether there is a listener for the proxy.
        proxy: bool,
    },
    /// It is in its room, confined, and about to become the guest. Beside it, as far
    /// as there are any, the vault, the proxy's listener and where reported calls arrive.
    Confined {
        /// The store of its layers and the frozen layers, where it built its room itself.
        built: Option<(String, Vec<String>)>,
        /// Whether there is a listener for the proxy.
        proxy: bool,
        /// The version of Landlock.
        landlock: u32,
    },
    /// A step failed.
    Failed(Failure),
}

/// What the supervisor says after the plan: build. Beside it the guest's socket
/// and then, as far as there are any, the workspace's directory, the file system
/// for changes, and the namespaces that a fork begins from.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Go {
    pub(crate) base: bool,
    pub(crate) image: bool,
    /// The plain directory for changes.
    pub(crate) changes: Option<PathBuf>,
}

/// What the supervisor says last: these are your groups and your network, join them. Beside it
/// the descriptors to join them by, that of the network first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Admission {
    /// What the groups hold.
    pub(crate) hold: [bool; 3],
    /// Whether there is a network, for one that was born on the host's.
    pub(crate) network: bool,
}

/// The namespaces to begin a fork from.
#[derive(Debug)]
pub struct Lent {
    /// The user namespace.
    pub user: OwnedFd,
    /// The mount namespace.
    pub mounts: OwnedFd,
}

/// Which namespaces a first process is born into. Those of its mounts it makes
/// later, from the host's as they are then, and to a network of its own it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// Its own of every other kind.
    Apart,
    /// None yet: it is the parent of a fork's first process.
    ParentOfFork,
    /// Those of a container that an engine made.
    Hired,
}

impl Birth {
    /// What a plan asks for.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        match (&plan.workspace, &plan.first) {
            (WorkspacePlan::Fork(_), _) => Self::ParentOfFork,
            (_, FirstPlan::Hired(_)) => Self::Hired,
            (_, FirstPlan::Cloned | FirstPlan::Served(_)) => Self::Apart,
        }
    }

    fn flags(self) -> u64 {
        match self {
            Self::Apart => libc::CLONE_NEWUSER as u64 | namespaces(NetworkPlan::Host),
            Self::ParentOfFork | Self::Hired => 0,
        }
    }

    /// Whether it is to move to a network of its own.
    pub(crate) fn moves(self, plan: &Plan) -> bool {
        self == Self::Apart && plan.network != NetworkPlan::Host
    }

    fn step(self) -> &'static str {
        match self {
            Self::ParentOfFork => "make a process",
            _ => "make a process with namespaces of its own",
        }
    }
}

/// The namespaces beside those of users and mounts, as flags.
pub(crate) fn namespaces(network: NetworkPlan) -> u64 {
    let network = if network == NetworkPlan::Host { 0 } else { libc::CLONE_NEWNET };
    (libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | network) as u64
}

/// A first process, from its birth until it is the guest.
#[derive(Debug)]
pub struct Newborn {
    /// The process to wait for: the first one, or, of a fork, its parent.
    pub child: OwnedFd,
    /// Its number.
    pub pid: u32,
    /// Where it says how far it is.
    pub progress: OwnedFd,
    birth: Birth,
    /// The processor that it leaves to the supervisor while it builds.
    avoids: Option<usize>,
    /// What it will move to.
    network: Option<Network>,
}

impl Newborn {
    /// Makes the process and maps its ids.
    ///
    /// # Errors
    /// The step that failed.
    pub fn make(
        birth: Birth,
        birthplace: Option<BorrowedFd<'_>>,
        identity: Identity,
        own_program: &OwnedFd,
    ) -> Result<Self, Failure> {
        let (progress, there) = wire::pair()?;
        let allowed = sched_getaffinity(None).step("read the CPU affinity")?;
        let cloned = sys::clone_process(birth.flags(), birthplace).step(birth.step())?;
        let (pid, child) = match cloned {
            Cloned::Parent(pid, child) => (pid, child),
            Cloned::Child => {
                drop(progress);
                let anywhere = (birth == Birth::Apart).then_some(allowed);
                first_process::live(birth, (identity, anywhere), own_program, &there)
            }
        };
        let mut newborn = Self { child, pid, progress, birth, avoids: None, network: None };
        if birth == Birth::Apart
            && let Some(pid) = Pid::from_raw(pid.cast_signed())
        {
            // It works while this process does. Once it has built, it goes where it likes.
            newborn.avoids = processors::keep_off_ours(pid, &allowed);
        }
        confine::volunteer_for_oom(pid);
        if birth != Birth::ParentOfFork
            && let Err(failure) = map_ids(pid, identity)
        {
            newborn.discard();
            return Err(failure);
        }
        Ok(newborn)
    }

    /// The first process of a container, which came in by itself.
    #[must_use]
    pub fn hired(child: OwnedFd, pid: u32, progress: OwnedFd) -> Self {
        Self { child, pid, progress, birth: Birth::Hired, avoids: None, network: None }
    }

    /// Whether it can become what the plan asks for.
    #[must_use]
    pub fn suits(&self, plan: &Plan) -> bool {
        self.birth == Birth::of(plan)
    }

    /// Makes its network before anybody asks for one: most do. What keeps it from being made is
    /// told when it is needed.
    pub(crate) fn prepare_network(&mut self) {
        let made = Network::begin(self.pid).and_then(Network::take);
        self.network = made.ok().map(|(network, _)| Network::Made(network));
    }

    /// Begins with its network, where the plan wants one and it was not born into one.
    ///
    /// # Errors
    /// When nobody can be made to make it.
    pub(crate) fn begin_network(&mut self, plan: &Plan) -> Result<(), Failure> {
        if !self.birth.moves(plan) {
            self.network = None;
        } else if self.network.is_none() {
            self.network = Some(Network::begin(self.pid)?);
        }
        Ok(())
    }

    /// Keeps this process where it is in nobody's way while the newborn builds.
    pub(crate) fn leave_alone(&self) -> Option<Stay> {
        self.avoids.and_then(Stay::on)
    }

    /// Ends it.
    pub fn discard(self) {
        ignore(pidfd_send_signal(&self.child, Signal::KILL));
        match self.birth {
            Birth::Hired => drop(ends_within(&self.child, hire::REMOVAL)),
            _ => ignore(wait(&self.child)),
        }
    }

    /// Tells it what to build.
    ///
    /// # Errors
    /// The step that failed, of those on this side.
    pub fn tell(
        &self,
        plan: &Plan,
        socket: &OwnedFd,
        (base, store): (Option<&Base>, Option<&OnDisk>),
        lent: Option<&Lent>,
    ) -> Result<(), Failure> {
        let (image, changes) = match store {
            Some(OnDisk::Image(image)) => (Some(image), None),
            Some(OnDisk::Directory(path)) => (None, Some(path.clone())),
            None => (None, None),
        };
        let go = Go { base: base.is_some(), image: image.is_some(), changes };
        let mut beside = vec![socket.as_fd()];
        beside.extend(base.map(|base| base.mount.as_fd()));
        beside.extend(image.map(AsFd::as_fd));
        beside.extend(lent.iter().flat_map(|lent| [lent.user.as_fd(), lent.mounts.as_fd()]));
        wire::send(&self.progress, plan, &[]).step("tell the first process the plan")?;
        wire::send(&self.progress, &go, &beside).step("let the first process go on")
    }

    /// Tells whoever is first in the kernel that it becomes what it was told itself.
    ///
    /// # Errors
    /// The step that failed, of those on this side.
    pub fn tell_successor(
        &self,
        plan: &Plan,
        socket: &OwnedFd,
        groups: &Groups,
    ) -> Result<(), Failure> {
        let go = Go { base: false, image: false, changes: None };
        let admission = Admission { hold: groups.hold(), network: false };
        wire::send(&self.progress, plan, &[])
            .and_then(|()| wire::send(&self.progress, &go, &[socket.as_fd()]))
            .and_then(|()| wire::send(&self.progress, &admission, &[]))
            .step("tell the first process inside the plan")
    }

    /// Has it join its groups and its network, and become the guest. Who made the network is
    /// about to end.
    ///
    /// # Errors
    /// The step that failed, of those on this side.
    pub(crate) fn admit(&mut self, groups: &Groups) -> Result<Option<Maker>, Failure> {
        let doors = groups.doors()?;
        let (network, maker) = self.network.take().map(Network::take).transpose()?.unzip();
        let admission = Admission { hold: groups.hold(), network: network.is_some() };
        let beside: Vec<_> = network.iter().chain(&doors).map(AsFd::as_fd).collect();
        wire::send(&self.progress, &admission, &beside)
            .step("have the first process join its groups")?;
        Ok(maker.flatten())
    }
}

fn map_ids(pid: u32, identity: Identity) -> Result<(), Failure> {
    let (uid_map, gid_map) = identity.maps();
    let write = |name: &str, content: &str| {
        fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/{pid}/{name}"))
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .step_with(|| format!("write {name}"))
    };
    if !identity.is_roots() {
        write("setgroups", "deny")?;
    }
    write("gid_map", &gid_map)?;
    write("uid_map", &uid_map)
}

/// The workspace's directory with its owner shown as `agent`: only root can do
/// that, and only root needs it, for whom the two differ.
#[derive(Debug)]
pub struct Base {
    mount: OwnedFd,
}

impl Base {
    /// Prepares it, where there is one.
    ///
    /// # Errors
    /// The step that failed.
    pub fn prepare(plan: &Plan, identity: Identity) -> Result<Option<Self>, Failure> {
        let Some(path) = plan.workspace.base() else { return Ok(None) };
        if !identity.is_roots() {
            return Ok(None);
        }
        let stat = rustix::fs::stat(path).step_with(|| format!("look at {}", path.display()))?;
        let mount = mounts::copy_of_one(path)?;
        let namespace = owner_namespace((stat.st_uid, stat.st_gid), identity.agent_outside())?;
        mounts::map_owners(mount.as_fd(), namespace.as_fd())?;
        Ok(Some(Self { mount }))
    }

    /// One more handle of it.
    ///
    /// # Errors
    /// When there are too many.
    pub fn mount(&self) -> Result<OwnedFd, Failure> {
        self.mount.try_clone().step("duplicate a descriptor")
    }
}

/// A user namespace that only serves to say who is who.
fn owner_namespace((user, group): (u32, u32), agent: u32) -> Result<OwnedFd, Failure> {
    const STEP: &str = "make a namespace for the workspace's owner";
    let [uid_map, gid_map] = [user, group].map(|id| format!("{id} {agent} 1\n"));
    let (life, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).step(STEP)?;
    let cloned = sys::clone_process(libc::CLONE_NEWUSER as u64, None).step(STEP)?;
    let (pid, child) = match cloned {
        Cloned::Parent(pid, child) => (pid, child),
        Cloned::Child => sys::live_as_long_as(life.as_fd()),
    };
    drop(life);
    let made = fs::write(format!("/proc/{pid}/uid_map"), uid_map)
        .and_then(|()| fs::write(format!("/proc/{pid}/gid_map"), gid_map))
        .step("map the workspace's owner")
        .and_then(|()| open_namespace(pid, "user"));
    drop(held);
    ignore(pidfd_send_signal(&child, Signal::KILL));
    wait(&child)?;
    made
}

/// A namespace of a process.
///
/// # Errors
/// When the process is gone.
pub fn open_namespace(pid: u32, kind: &str) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/{pid}/ns/{kind}"), flags, Mode::empty())
        .step_with(|| format!("open a {kind} namespace"))
}

/// Waits for a child's end.
///
/// # Errors
/// When it is no child.
pub fn wait(child: &OwnedFd) -> Result<(), Failure> {
    loop {
        let id = rustix::process::WaitId::PidFd(child.as_fd());
        match rustix::process::waitid(id, rustix::process::WaitIdOptions::EXITED) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map(|_| ()).step("wait for a process"),
        }
    }
}

/// Moves this process into namespaces that were lent, as their builder.
///
/// # Errors
/// When the kernel refuses.
pub fn enter(lent: &Lent) -> Result<(), Failure> {
    enter_users(lent.user.as_fd())?;
    enter_mounts(lent)
}

/// The same for the user namespace alone, unless this process is in it.
///
/// # Errors
/// When the kernel refuses.
pub fn enter_users(namespace: BorrowedFd<'_>) -> Result<(), Failure> {
    if is_own_namespace(namespace) {
        return Ok(());
    }
    let user = Some(LinkNameSpaceType::User);
    rustix::thread::move_into_link_name_space(namespace, user)
        .step("enter the sandbox's user namespace")
}

/// Moves this process to a network that was made for it.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> Result<(), Failure> {
    let network = Some(LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(namespace, network)
        .step("enter the sandbox's network")
}

/// The same for the mount namespace.
///
/// # Errors
/// When the kernel refuses.
pub fn enter_mounts(lent: &Lent) -> Result<(), Failure> {
    let mounts = Some(LinkNameSpaceType::Mount);
    rustix::thread::move_into_link_name_space(lent.mounts.as_fd(), mounts)
        .step("enter the sandbox's mount namespace")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn who_only_has_to_be_there_holds_nothing_and_ends_with_its_maker() {
        let directory = tempfile::tempdir().unwrap();
        let open = || rustix::fs::open(directory.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let lock = open();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let (life, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let child = match sys::clone_process(0, None).unwrap() {
            Cloned::Parent(_, child) => child,
            Cloned::Child => sys::live_as_long_as(life.as_fd()),
        };
        drop((life, lock));
        let other = open();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while flock(&other, FlockOperation::NonBlockingLockExclusive).is_err() {
            assert!(std::time::Instant::now() < deadline, "the lock is held");
            std::thread::yield_now();
        }
        assert!(!ends_within(&child, Duration::ZERO), "it is there");
        drop(held);
        assert!(ends_within(&child, Duration::from_secs(60)), "it is gone");
        wait(&child).unwrap();
    }
}
