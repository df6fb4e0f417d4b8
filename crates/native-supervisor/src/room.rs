//! Building the room: everything the first process of a sandbox does between
//! being cloned into its namespaces and becoming the guest.
//!
//! It starts as the user who makes the sandbox, with every capability inside
//! the new user namespace and none outside, and ends as `agent` with none.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cofferdam_types::Kept;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountPropagationFlags, UnmountFlags};

use crate::failure::{Failure, Step};
use crate::identity::Identity;
use crate::mounts::{self, Attributes, RootAccess};
use crate::root::{self, Resolver, Source};
use crate::sentry::{self, Programs};
use crate::sys;
use crate::wire::{FirstPlan, NetworkPlan, Plan};

/// Where the layers and other parts of a sandbox are in its room, out of its reach: under
/// a mount that covers them.
const VAULT: &str = ".cofferdam";

/// Where a room is in the mount namespace that it is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// It is the root.
    Root,
    /// It is a directory, from which a kernel that is a program serves it. Around it is
    /// what that program needs, and nothing else.
    Served,
}

impl Setting {
    /// What a plan asks for.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        match plan.first {
            FirstPlan::Served(_) => Self::Served,
            FirstPlan::Cloned | FirstPlan::Hired(_) => Self::Root,
        }
    }

    fn room(self) -> &'static Path {
        Path::new(match self {
            Self::Root => "/",
            Self::Served => sentry::ROOM,
        })
    }

    fn vault(self) -> PathBuf {
        self.room().join(VAULT)
    }

    pub(crate) fn workspace(self) -> PathBuf {
        self.room().join("workspace")
    }
}

/// What covers them, a name among them: an empty directory that nobody may enter.
const COVER: &str = "cover";

/// What the supervisor needs to know of a room to take snapshots of it.
#[derive(Debug)]
pub struct Vault {
    /// The directory under the cover.
    pub directory: OwnedFd,
    /// The store of this sandbox's own layers, a name in the vault.
    pub store: String,
    /// The frozen layers, topmost first, as names in the vault.
    pub lower: Vec<String>,
}

/// Files of kernel state that are nobody's business, shown empty.
const MASKED_FILES: &[&str] = &[
    "kcore",
    "keys",
    "key-users",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "sched_debug",
    "slabinfo",
    "sysrq-trigger",
    "timer_list",
    "vmallocinfo",
];

/// Directories of kernel state that are nobody's business, shown empty.
const MASKED_DIRECTORIES: &[&str] = &["acpi", "asound", "scsi"];

/// Directories of kernel controls, shown read-only.
const READ_ONLY: &[&str] = &["bus", "fs", "irq", "sys"];

/// What a root has besides what is put into it; parents first.
const DIRECTORIES: &[&str] = &[
    ".cofferdam",
    ".cofferdam/base",
    ".cofferdam/cover",
    ".cofferdam/empty",
    ".cofferdam/s0",
    ".cofferdam/temporary",
    "dev",
    "dev/pts",
    "dev/shm",
    "etc",
    "etc/ssl",
    "home",
    "home/agent",
    "proc",
    "run",
    "sys",
    "tmp",
    "var",
    "workspace",
];

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// The one that every program takes for granted.
const NULL: &[&str] = &["null"];

/// What the supervisor has prepared, because only it could.
#[derive(Debug, Default)]
pub struct Prepared {
    /// The workspace's directory.
    pub base: Option<OwnedFd>,
    /// The file system for changes.
    pub image: Option<OwnedFd>,
    /// The plain directory for changes.
    pub changes: Option<PathBuf>,
}

/// What a room is made of, taken from the host while its mounts are in sight.
pub struct Materials {
    sources: Vec<Source>,
    devices: Vec<(&'static str, OwnedFd)>,
    base: Option<OwnedFd>,
    store: Option<OwnedFd>,
    resolver: Resolver,
    /// Where another kernel serves the room.
    programs: Option<Programs>,
}

/// Takes from the host what a room is made of. From here on, mounts are this process's
/// own.
///
/// # Errors
/// The step that failed.
pub fn take(plan: &Plan, prepared: Prepared) -> Result<Materials, Failure> {
    isolate_mounts()?;
    let base = match (plan.workspace.base(), prepared.base) {
        (Some(_), Some(base)) => Some(base),
        (Some(directory), None) => Some(mounts::copy_of(directory)?),
        (None, _) => None,
    };
    if let Some(base) = &base {
        mounts::restrict(base.as_fd(), Attributes::READ_ONLY)?;
    }
    let store = match (prepared.image, prepared.changes) {
        (Some(image), _) => Some(image),
        (None, Some(directory)) => Some(mounts::copy_of(&directory)?),
        (None, None) => None,
    };
    let (devices, programs) = match sentry::of(plan) {
        Some(sentry) => (NULL, Some(Programs::take(sentry)?)),
        None => (DEVICES, None),
    };
    let devices = take_devices(devices)?;
    let resolver = Resolver::of(plan.network);
    let sources = root::take(&plan.root)?;
    Ok(Materials { sources, devices, base, store, resolver, programs })
}

/// Builds a sandbox's file system and moves into it, in the mount namespace this process
/// is in. It is first mounted at `site`. `processes` is the view of them, where this
/// process is not one of those that it is to show.
///
/// # Errors
/// The step that failed.
pub fn build(
    plan: &Plan,
    identity: Identity,
    materials: Materials,
    site: &Path,
    processes: Option<OwnedFd>,
) -> Result<Vault, Failure> {
    let Materials { sources, mut devices, base, store, resolver, programs } = materials;
    let (store, kept) = match store {
        Some(store) => (store, Kept::OnDisk),
        None => (sized_store(plan, identity)?, Kept::InMemory),
    };
    let owner = identity.builder().to_string();
    let options =
        [("size", "8m"), ("nr_inodes", "8k"), ("mode", "755"), ("uid", &owner), ("gid", &owner)];
    let new_root = || mounts::new_file_system("tmpfs", &options, Attributes::WRITABLE);
    mounts::place(new_root()?, site)?;
    rustix::process::chdir(site).step("enter the new root")?;
    // Before anything of an image is in it: from here on no link leads out of it. The old
    // root stays below until the kernel has seen that a /proc was in sight.
    rustix::process::pivot_root(".", ".").step("change the root")?;
    become_builder(identity)?;
    let served = match programs {
        Some(programs) => Some((sentry::enter_room(new_root()?)?, programs)),
        None => None,
    };

    let vault = Path::new(VAULT);
    for directory in DIRECTORIES {
        root::make_directory(Path::new(directory))?;
    }
    rustix::fs::chmod(vault.join(COVER), Mode::empty()).step("close the cover")?;
    rustix::fs::symlink("/tmp", "var/tmp").step("link var/tmp")?;
    rustix::fs::symlink("/run", "var/run").step("link var/run")?;
    // First what would otherwise cover a directory that is to be read.
    mount_temporary(plan, identity, kept)?;
    root::put(sources)?;
    root::introduce(&plan.root, &resolver, identity.agent())?;
    match &served {
        // Those inside are the other kernel's.
        Some((_, programs)) => programs.put_inside()?,
        None => {
            put_devices(std::mem::take(&mut devices))?;
            link_devices()?;
            mount_kernel_views(processes)?;
        }
    }

    let store_name = "s0".to_owned();
    mounts::place(store, vault.join(&store_name))?;
    let mut lower = Vec::new();
    if let Some(base) = base {
        mounts::place(base, vault.join("base"))?;
        lower.push("base".to_owned());
    }

    if let Some((around, programs)) = served {
        sentry::leave_room(&around)?;
        put_devices(devices)?;
        programs.put_around()?;
        sentry::mount_own()?;
    }
    rustix::mount::unmount(".", UnmountFlags::DETACH).step("leave the old root")?;
    let setting = Setting::of(plan);
    rustix::process::chdir(setting.vault()).step("enter the vault")?;
    open_workspace(identity, setting, &store_name, 0, &lower)?;
    close_vault(setting, store_name, lower)
}

/// Builds a sandbox's file system from another's, whose mounts this process has
/// a copy of, with a workspace on top of its frozen layers.
///
/// # Errors
/// The step that failed.
pub fn build_fork(plan: &Plan, identity: Identity, lower: &[String]) -> Result<Vault, Failure> {
    isolate_mounts()?;
    let setting = Setting::of(plan);
    let vault = setting.vault();
    rustix::mount::unmount(&vault, UnmountFlags::DETACH).step("uncover the layers")?;
    mounts::seal_root(setting.room(), RootAccess::Open)?;
    become_builder(identity)?;
    rustix::process::chdir(setting.room()).step("enter the root")?;

    let taken = |number: &u32| !vault.join(format!("s{number}")).exists();
    let number = (0..1000).find(taken).ok_or_else(|| Failure::new("too many forks of forks"))?;
    let store_name = format!("s{number}");
    let store = sized_store(plan, identity)?;
    let place = vault.join(&store_name);
    root::make_directories(&place)?;
    mounts::place(store, &place)?;

    mount_temporary(plan, identity, Kept::InMemory)?;
    match setting {
        Setting::Root => mount_kernel_views(None)?,
        Setting::Served => {
            rustix::process::chdir("/").step("leave the room")?;
            sentry::mount_own()?;
        }
    }
    rustix::process::chdir(&vault).step("enter the vault")?;
    open_workspace(identity, setting, &store_name, 0, lower)?;
    close_vault(setting, store_name, lower.to_vec())
}

/// The proxy's listener, where the sandbox may reach a proxy.
///
/// # Errors
/// When it cannot be made.
pub fn listen_for_proxy(network: NetworkPlan) -> Result<Option<OwnedFd>, Failure> {
    let NetworkPlan::Proxy(port) = network else { return Ok(None) };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).step("listen for the proxy")?;
    Ok(Some(listener.into()))
}

/// From here on, mounts are this process's own.
fn isolate_mounts() -> Result<(), Failure> {
    sys::own_mounts().step("make a mount namespace")?;
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", flags).step("make all mounts private")
}

/// Files made from here on belong to root inside, where there is one.
///
/// # Errors
/// When the kernel refuses.
pub fn become_builder(identity: Identity) -> Result<(), Failure> {
    let id = identity.builder();
    let (uid, gid) = (rustix::thread::Uid::from_raw(id), rustix::thread::Gid::from_raw(id));
    rustix::thread::set_thread_res_gid(gid, gid, gid).step("become the group inside")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step("become the user inside")
}

/// A file system of the workspace's size.
fn sized_store(plan: &Plan, identity: Identity) -> Result<OwnedFd, Failure> {
    let owner = identity.builder().to_string();
    let size = plan.limits.disk.max(4096).to_string();
    let inodes = plan.limits.inodes.saturating_add(16).to_string();
    let options = [
        ("size", size.as_str()),
        ("nr_inodes", &inodes),
        ("mode", "755"),
        ("uid", &owner),
        ("gid", &owner),
    ];
    mounts::new_file_system("tmpfs", &options, Attributes::WRITABLE)
}

/// Makes layer `number` of a store (where changes go, and the kernel's own
/// working space beside it) and shows the workspace: the new layer over the
/// frozen ones. The working directory is the vault.
///
/// # Errors
/// The step that failed.
pub fn open_workspace(
    identity: Identity,
    setting: Setting,
    store: &str,
    number: u32,
    lower: &[String],
) -> Result<(), Failure> {
    let (upper, work) = (upper_of(store, number), format!("{store}/{number}/w"));
    root::make_directories(Path::new(&upper))?;
    root::make_directories(Path::new(&work))?;
    hand_over(Path::new(&upper), identity, 0o755)?;
    let workspace = setting.workspace();
    if lower.is_empty() {
        return mounts::bind(Path::new(&upper), workspace, Attributes::WRITABLE);
    }
    mounts::stack(lower, &upper, &work, &workspace)
}

/// Where the changes of layer `number` of a store are, in the vault.
#[must_use]
pub fn upper_of(store: &str, number: u32) -> String {
    format!("{store}/{number}/u")
}

/// Gives a directory to `agent`.
fn hand_over(directory: &Path, identity: Identity, mode: u32) -> Result<(), Failure> {
    rustix::fs::chmod(directory, Mode::from_raw_mode(mode)).step("set a directory's mode")?;
    if identity.is_roots() {
        let agent = identity.agent();
        let (uid, gid) = (rustix::fs::Uid::from_raw(agent), rustix::fs::Gid::from_raw(agent));
        rustix::fs::chown(directory, Some(uid), Some(gid)).step("hand over a directory")?;
    }
    Ok(())
}

/// Hides the layers for good and seals the root.
fn close_vault(setting: Setting, store: String, lower: Vec<String>) -> Result<Vault, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let vault = setting.vault();
    let directory = rustix::fs::open(&vault, flags, Mode::empty()).step("open the vault")?;
    rustix::process::chdir("/").step("enter the root")?;
    mounts::bind(&vault.join(COVER), &vault, Attributes::READ_ONLY)?;
    mounts::seal_root(setting.room(), RootAccess::Sealed)?;
    Ok(Vault { directory, store, lower })
}

fn take_devices(names: &[&'static str]) -> Result<Vec<(&'static str, OwnedFd)>, Failure> {
    let take = |name: &&'static str| {
        let device = mounts::copy_of(&Path::new("/dev").join(name))?;
        mounts::restrict(device.as_fd(), Attributes::DEVICE)?;
        Ok((*name, device))
    };
    names.iter().map(take).collect()
}

fn put_devices(devices: Vec<(&'static str, OwnedFd)>) -> Result<(), Failure> {
    for (name, device) in devices {
        let path = Path::new("dev").join(name);
        root::make_place(&path)?;
        mounts::place(device, &path)?;
    }
    Ok(())
}

fn link_devices() -> Result<(), Failure> {
    let links = [
        ("/proc/self/fd", "dev/fd"),
        ("/proc/self/fd/0", "dev/stdin"),
        ("/proc/self/fd/1", "dev/stdout"),
        ("/proc/self/fd/2", "dev/stderr"),
        ("pts/ptmx", "dev/ptmx"),
    ];
    for (target, link) in links {
        rustix::fs::symlink(target, link).step_with(|| format!("link {link}"))?;
    }
    Ok(())
}

/// `/tmp`, the home and shared memory, all on one file system of limited size.
fn mount_temporary(plan: &Plan, identity: Identity, workspace: Kept) -> Result<(), Failure> {
    let size = plan.limits.temporary(workspace).max(1 << 20).to_string();
    let inodes = plan.limits.temporary_inodes().saturating_add(16).to_string();
    let options = [("size", size.as_str()), ("nr_inodes", &inodes), ("mode", "755")];
    let temporary = mounts::new_file_system("tmpfs", &options, Attributes::WRITABLE)?;
    // The kernel's own view of the detached mount is not reachable by name, so
    // it is put where the vault is and its directories are shown from there.
    let place = Path::new(".cofferdam/temporary");
    mounts::place(temporary, place)?;
    for (name, target, mode) in
        [("tmp", "tmp", 0o1777), ("home", "home/agent", 0o755), ("shm", "dev/shm", 0o1777)]
    {
        let directory = place.join(name);
        root::make_directory(&directory)?;
        hand_over(&directory, identity, mode)?;
        mounts::bind(&directory, target, Attributes::WRITABLE)?;
    }
    Ok(())
}

/// The processes of this sandbox, and its terminals.
fn mount_kernel_views(processes: Option<OwnedFd>) -> Result<(), Failure> {
    let processes = match processes {
        Some(processes) => processes,
        None => mounts::new_file_system("proc", &[], Attributes::KERNEL)?,
    };
    mounts::place(processes, "proc")?;
    for name in READ_ONLY {
        let path = Path::new("proc").join(name);
        if path.exists() {
            mounts::bind(&path, &path, Attributes::READ_ONLY)?;
        }
    }
    for name in MASKED_FILES {
        let path = Path::new("proc").join(name);
        // What only root may touch is safe from a user that root's id does not
        // even exist for.
        let open_to_all = std::fs::metadata(&path).is_ok_and(|file| file.mode() & 0o007 != 0);
        if open_to_all {
            mounts::bind(Path::new("dev/null"), &path, Attributes::DEVICE)?;
        }
    }
    for name in MASKED_DIRECTORIES {
        let path = Path::new("proc").join(name);
        if path.exists() {
            mounts::bind(Path::new(".cofferdam/empty"), &path, Attributes::READ_ONLY)?;
        }
    }
    // All of the machine's are counted together.
    let options = [("mode", "0620"), ("ptmxmode", "0666"), ("max", "256")];
    let terminals = mounts::new_file_system("devpts", &options, Attributes::DEVICE)?;
    mounts::place(terminals, "dev/pts")
}
