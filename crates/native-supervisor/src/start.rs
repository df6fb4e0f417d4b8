//! Starting the first process of a sandbox: cloned into its namespaces, given
//! what it needs, and confined.
//!
//! The two sides talk over a socket pair that is gone once the guest
//! runs: the supervisor says when the user ids are mapped, the first process
//! hands out what only it could make, or says which step failed.

use std::ffi::CStr;
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::thread::LinkNameSpaceType;
use serde::{Deserialize, Serialize};

use crate::cgroup::Groups;
use crate::failure::{Failure, Step, ignore};
use crate::identity::Identity;
use crate::room::{self, Prepared, Vault};
use crate::store::OnDisk;
use crate::sys::{self, Cloned};
use crate::wire::{self, NetworkPlan, Plan, WorkspacePlan};
use crate::{confine, mounts};

/// What the first process says while it starts.
#[derive(Debug, Serialize, Deserialize)]
pub enum Progress {
    /// A fork's first process has this number; beside it a descriptor of it.
    Born(u32),
    /// The room is built; beside it the vault and the proxy's listener.
    Built {
        /// The store of its layers.
        store: String,
        /// The frozen layers.
        lower: Vec<String>,
    },
    /// It is confined and about to become the guest; beside it where reported
    /// calls arrive.
    Confined {
        /// The version of Landlock.
        landlock: u32,
    },
    /// A step failed.
    Failed(Failure),
}

/// What the supervisor says to the first process: your ids are mapped, go on.
/// Beside it, where they had to be prepared, the workspace's directory and the
/// place for changes.
#[derive(Debug, Serialize, Deserialize)]
struct Go {
    base: bool,
    store: bool,
}

/// The namespaces to begin a fork from.
#[derive(Debug)]
pub struct Lent {
    /// The user namespace.
    pub user: OwnedFd,
    /// The mount namespace.
    pub mounts: OwnedFd,
}

/// What the first process is made of.
pub struct Ingredients<'a> {
    /// The sandbox.
    pub plan: &'a Plan,
    /// Who it is.
    pub identity: Identity,
    /// Its control groups.
    pub groups: &'a Groups,
    /// The socket the guest listens on.
    pub listener: OwnedFd,
    /// For a fork, what it begins from.
    pub lent: Option<Lent>,
    /// This program, to be executed again as the guest.
    pub own_program: OwnedFd,
    /// Where changes are kept on disk.
    pub store: &'a Option<OnDisk>,
}

/// The first process, being started.
#[derive(Debug)]
pub struct Starting {
    /// The process to wait for: the first one, or, of a fork, its parent.
    pub child: OwnedFd,
    /// Its number.
    pub child_pid: u32,
    /// Where it says how far it is.
    pub progress: OwnedFd,
}

/// Starts the first process.
///
/// # Errors
/// The step that failed, of those on this side.
pub fn start(ingredients: Ingredients<'_>) -> Result<Starting, Failure> {
    let plan = ingredients.plan;
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .step("make a socket pair")?;
    let birthplace = ingredients.groups.birthplace()?;
    let doors = ingredients.groups.doors()?;
    let forked = ingredients.lent.is_some();
    let flags = if forked { 0 } else { libc::CLONE_NEWUSER as u64 | namespaces(plan.network) };
    let cloned = sys::clone_process(flags, birthplace.as_ref().map(AsFd::as_fd));
    let (child_pid, child) = match cloned.step(clone_step(flags))? {
        Cloned::Parent(pid, child) => (pid, child),
        Cloned::Child => {
            drop(here);
            let outcome = become_guest(ingredients, doors, &there);
            if let Err(failure) = outcome {
                // Nobody to tell means that the supervisor is gone too.
                ignore(wire::send(&there, &Progress::Failed(failure), &[]));
            }
            std::process::exit(1);
        }
    };
    confine::volunteer_for_oom(child_pid);
    if !forked {
        map_ids(child_pid, ingredients.identity)?;
        let base = prepare_base(plan, ingredients.identity)?;
        let store = match ingredients.store {
            Some(OnDisk::Image(image)) => Some(image),
            _ => None,
        };
        let go = Go { base: base.is_some(), store: store.is_some() };
        let beside: Vec<_> = base.iter().chain(store).map(AsFd::as_fd).collect();
        wire::send(&here, &go, &beside).step("let the first process go on")?;
    }
    Ok(Starting { child, child_pid, progress: here })
}

/// What failed when a process could not be cloned, in words that help.
fn clone_step(flags: u64) -> &'static str {
    if flags & libc::CLONE_NEWUSER as u64 != 0 {
        "make a process with namespaces of its own"
    } else {
        "make a process"
    }
}

fn namespaces(network: NetworkPlan) -> u64 {
    let network = if network == NetworkPlan::Host { 0 } else { libc::CLONE_NEWNET };
    (libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | network)
        as u64
}

fn map_ids(pid: u32, identity: Identity) -> Result<(), Failure> {
    let (uid_map, gid_map) = identity.maps();
    let write = |name: &str, content: &str| {
        fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/{pid}/{name}"))
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .step(format!("write {name}"))
    };
    if identity != Identity::OwnRange {
        write("setgroups", "deny")?;
    }
    write("gid_map", &gid_map)?;
    write("uid_map", &uid_map)
}

/// The workspace's directory with its owner shown as `agent`: only root can do
/// that, and only root needs it, for whom the two differ.
fn prepare_base(plan: &Plan, identity: Identity) -> Result<Option<OwnedFd>, Failure> {
    let WorkspacePlan::Directory(path, _) = &plan.workspace else { return Ok(None) };
    if identity != Identity::OwnRange {
        return Ok(None);
    }
    let stat = rustix::fs::stat(path).step(format!("look at {}", path.display()))?;
    let agent = identity.agent_outside();
    let owners = owner_namespace(
        &format!("{} {agent} 1\n", stat.st_uid),
        &format!("{} {agent} 1\n", stat.st_gid),
    )?;
    let base = mounts::copy_of_one(path)?;
    mounts::map_owners(base.as_fd(), owners.as_fd())?;
    Ok(Some(base))
}

/// A user namespace that only serves to say who is who.
fn owner_namespace(uid_map: &str, gid_map: &str) -> Result<OwnedFd, Failure> {
    let cloned = sys::clone_process(libc::CLONE_NEWUSER as u64, None)
        .step("make a namespace for the workspace's owner")?;
    let (pid, child) = match cloned {
        Cloned::Parent(pid, child) => (pid, child),
        Cloned::Child => loop {
            std::thread::park();
        },
    };
    let made = fs::write(format!("/proc/{pid}/uid_map"), uid_map)
        .and_then(|()| fs::write(format!("/proc/{pid}/gid_map"), gid_map))
        .step("map the workspace's owner")
        .and_then(|()| open_namespace(pid, "user"));
    ignore(rustix::process::pidfd_send_signal(&child, rustix::process::Signal::KILL));
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
        .step(format!("open a {kind} namespace"))
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
    let user = Some(LinkNameSpaceType::User);
    rustix::thread::move_into_link_name_space(lent.user.as_fd(), user)
        .step("enter the sandbox's user namespace")?;
    let mounts = Some(LinkNameSpaceType::Mount);
    rustix::thread::move_into_link_name_space(lent.mounts.as_fd(), mounts)
        .step("enter the sandbox's mount namespace")
}

/// In the new process: from here to the guest, or to an error.
fn become_guest(
    ingredients: Ingredients<'_>,
    doors: Vec<OwnedFd>,
    progress: &OwnedFd,
) -> Result<(), Failure> {
    rustix::process::setsid().step("begin a session")?;
    if ingredients.lent.is_none() {
        let Some((go, beside)) = wire::receive::<Go>(progress)? else {
            return Err(Failure::new("the supervisor is gone"));
        };
        let mut beside = beside.into_iter();
        let prepared = Prepared {
            base: if go.base { beside.next() } else { None },
            store: if go.store { beside.next() } else { None },
        };
        join(doors)?;
        let vault =
            room::build(ingredients.plan, ingredients.identity, prepared, ingredients.store)?;
        return finish(ingredients, vault, progress);
    }
    join(doors)?;
    become_fork(ingredients, progress)
}

/// In the parent of a fork's first process: makes it and waits for its end.
fn become_fork(mut ingredients: Ingredients<'_>, progress: &OwnedFd) -> Result<(), Failure> {
    let WorkspacePlan::Fork(lower) = &ingredients.plan.workspace else {
        return Err(Failure::new("namespaces were lent for what is no fork"));
    };
    let Some(lent) = ingredients.lent.take() else {
        return Err(Failure::new("a fork without namespaces to begin from"));
    };
    enter(&lent)?;
    drop(lent);
    sys::die_with_parent().step("die with the supervisor")?;
    let flags = namespaces(ingredients.plan.network);
    match sys::clone_process(flags, None).step("make a process with namespaces of its own")? {
        Cloned::Parent(pid, child) => {
            wire::send(progress, &Progress::Born(pid), &[child.as_fd()])
                .step("announce the first process")?;
            ingredients.close();
            close_socket(progress);
            wait(&child)?;
            std::process::exit(0);
        }
        Cloned::Child => {
            let vault = room::build_fork(ingredients.plan, ingredients.identity, lower)?;
            finish(ingredients, vault, progress)
        }
    }
}

impl Ingredients<'_> {
    /// Lets go of what only the first process needs.
    fn close(self) {}
}

/// The waiting parent of a fork must not keep the socket open whose end says
/// that the guest runs.
fn close_socket(progress: &OwnedFd) {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(null) = rustix::fs::open("/dev/null", flags, Mode::empty()) {
        use std::os::fd::AsRawFd;
        ignore(sys::place_descriptor(null.as_fd(), progress.as_raw_fd()));
    }
}

/// Joins the control groups by the descriptors that were opened for it.
fn join(doors: Vec<OwnedFd>) -> Result<(), Failure> {
    for door in doors {
        rustix::io::write(door, b"0").step("join a control group")?;
    }
    Ok(())
}

fn finish(ingredients: Ingredients<'_>, vault: Vault, progress: &OwnedFd) -> Result<(), Failure> {
    let plan = ingredients.plan;
    // Only now: the namespace takes the groups the process is in as its root.
    sys::hide_groups().step("hide the control groups")?;
    rustix::system::sethostname(b"cofferdam").step("set the host name")?;
    let proxy = room::open_network(plan.network)?;
    let hold = ingredients.groups.hold();
    confine::limit_processes(&plan.limits, hold)?;

    let mut beside = vec![vault.directory.as_fd()];
    beside.extend(proxy.iter().map(AsFd::as_fd));
    let built = Progress::Built { store: vault.store.clone(), lower: vault.lower.clone() };
    wire::send(progress, &built, &beside).step("hand out the room's parts")?;

    let null = open_null()?;
    confine::drop_privileges(ingredients.identity)?;
    let landlock = confine::landlock()?;
    sys::die_with_parent().step("die with the supervisor")?;
    let reports = if plan.without_filter { None } else { confine::filter(plan.audit, hold)? };
    let beside: Vec<_> = reports.iter().map(AsFd::as_fd).collect();
    wire::send(progress, &Progress::Confined { landlock }, &beside)
        .step("report to the supervisor")?;
    drop(reports);

    for number in 0..3 {
        sys::place_descriptor(null.as_fd(), number).step("close the standard streams")?;
    }
    sys::place_descriptor(ingredients.listener.as_fd(), GUEST_SOCKET)
        .step("hand over the guest's socket")?;
    if ingredients.identity != Identity::OwnRange {
        // The supervisor reads what the guest's children execute. Of a process
        // that cannot be dumped, an ordinary user may only read what became
        // another program inside the user namespace; root may in any case.
        sys::close_on_execute_from(GUEST_SOCKET + 1).step("close what is not the guest's")?;
        return Err(sys::execute(ingredients.own_program.as_fd(), GUEST_NAME))
            .step("start the guest");
    }
    // Their descriptors are closed all at once, and must not be closed again.
    std::mem::forget((ingredients, vault, proxy, null));
    sys::close_from(GUEST_SOCKET + 1).step("close what is not the guest's")?;
    sys::give_back_code();
    // The guest is entered rather than executed: an executed one would spend half
    // a millisecond on what its C library does before it begins.
    std::process::exit(i32::from(run_guest() != ExitCode::SUCCESS));
}

/// The name by which this program is told to be the guest.
pub const GUEST_NAME: &CStr = c"cofferdam-guest";

/// Is the guest, until there is nothing to serve.
#[must_use]
pub fn run_guest() -> ExitCode {
    cofferdam_guest::run(cofferdam_guest::Serve::Listener)
}

/// Where the guest expects its socket.
const GUEST_SOCKET: i32 = 3;

fn open_null() -> Result<OwnedFd, Failure> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .step("open /dev/null")
}
