//! The first process of a sandbox: from its birth to the guest.
//!
//! Nothing of the sandbox's runs before this process has built its room, joined
//! its control groups and given up every right.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitCode;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::confine::{self, Users};
use crate::failure::{Failure, Step, ignore};
use crate::hire::DOOR;
use crate::identity::Identity;
use crate::room::{self, Prepared, Vault};
use crate::sentry::{self, Runtime};
use crate::start::{Admission, Birth, Go, Lent, Progress, enter, enter_network, namespaces, wait};
use crate::sys::{self, Cloned};
use crate::wire::{self, NetworkPlan, Plan, WorkspacePlan};

/// The name by which this program is told to be the guest.
pub const GUEST_NAME: &CStr = c"cofferdam-guest";

/// Where the guest expects its socket.
const GUEST_SOCKET: i32 = 3;

/// What a first process has of its own.
struct FirstProcess<'a> {
    identity: Identity,
    /// The processors to be used again once the room is built, where the supervisor keeps it
    /// off its own until then.
    anywhere: Option<CpuSet>,
    /// The supervisor's program, to be executed again as the guest. The first process of a
    /// container, which an engine executed, has none and needs none.
    own_program: Option<&'a OwnedFd>,
    /// The socket to the supervisor.
    supervisor: &'a OwnedFd,
}

/// In the new process: from here to the guest, or to an error.
pub(crate) fn live(
    birth: Birth,
    (identity, anywhere): (Identity, Option<CpuSet>),
    own_program: &OwnedFd,
    supervisor: &OwnedFd,
) -> ! {
    let first = FirstProcess { identity, anywhere, own_program: Some(own_program), supervisor };
    let lived = first.live(birth);
    first.tell(lived);
    std::process::exit(1);
}

/// In a container that an engine started: comes in by the door, and is a first process from
/// there on.
#[must_use]
pub fn enter_by_door() -> ExitCode {
    knock().map_or(ExitCode::FAILURE, |supervisor| come_in(&supervisor))
}

/// In a kernel that is a program: the same, where the way in is already open.
#[must_use]
pub fn enter_by_stdin() -> ExitCode {
    let Ok(supervisor) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 8) else {
        return ExitCode::FAILURE;
    };
    come_in(&supervisor)
}

fn come_in(supervisor: &OwnedFd) -> ExitCode {
    // Whoever it is, the engine made it that.
    let identity = Identity::Unmapped;
    let first = FirstProcess { identity, anywhere: None, own_program: None, supervisor };
    let entered = is_first().and_then(|()| first.enter());
    first.tell(entered);
    ExitCode::FAILURE
}

/// Only the first process of a sandbox is safe from all others: by the kernel's signals, and by
/// the filter, which knows it by its number.
fn is_first() -> Result<(), Failure> {
    let number = rustix::process::getpid().as_raw_nonzero().get();
    if number == 1 {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the engine has put something before the sandbox's first process, which is number {number}"
    )))
}

fn knock() -> rustix::io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrUnix::new(DOOR)?)?;
    // Out of the way of the first descriptors, which the guest has its own use for.
    rustix::io::fcntl_dupfd_cloexec(&socket, 8)
}

/// Is the guest, until there is nothing to serve.
#[must_use]
pub fn run_guest() -> ExitCode {
    cofferdam_guest::run(cofferdam_guest::Serve::Handed)
}

impl FirstProcess<'_> {
    /// Says what went wrong, if something did.
    fn tell(&self, outcome: Result<(), Failure>) {
        let Err(failure) = outcome else { return };
        // Nobody to tell means that the supervisor is gone too.
        ignore(wire::send(self.supervisor, &Progress::Failed(failure), &[]));
        // Ending with messages unread would take back what was just said.
        while reads(self.supervisor) {}
    }

    /// In a container: the room is there already.
    fn enter(&self) -> Result<(), Failure> {
        let (plan, _) = self.receive::<Plan>()?;
        let (Go { .. }, beside) = self.receive()?;
        let socket = beside.into_iter().next();
        let socket = socket.ok_or_else(|| Failure::new("the socket is missing"))?;
        let hold = self.join(false)?;
        self.finish(&plan, hold, socket, None)
    }

    fn live(&self, birth: Birth) -> Result<(), Failure> {
        rustix::process::setsid().step("begin a session")?;
        match birth {
            Birth::Apart => settle()?,
            Birth::ParentOfFork | Birth::Hired => {}
        }
        let (plan, _) = self.receive::<Plan>()?;
        let (go, beside) = self.receive::<Go>()?;
        let mut beside = beside.into_iter();
        let socket = beside.next().ok_or_else(|| Failure::new("the socket is missing"))?;
        let runtime = sentry::of(&plan).map(|sentry| Runtime::new(&plan, sentry)).transpose()?;
        let next = (socket, runtime);
        let prepared = Prepared {
            base: if go.base { beside.next() } else { None },
            image: if go.image { beside.next() } else { None },
            changes: go.changes,
        };
        match (&plan.workspace, beside.next(), beside.next()) {
            (WorkspacePlan::Fork(lower), Some(user), Some(mounts)) => {
                self.fork(&plan, lower, Lent { user, mounts }, next)
            }
            (WorkspacePlan::Fork(_), ..) => {
                Err(Failure::new("a fork without namespaces to begin from"))
            }
            _ => {
                let materials = room::take(&plan, prepared)?;
                let site = plan.mount_point.as_path();
                let vault = room::build(&plan, self.identity, materials, site, None)?;
                if let Some(anywhere) = &self.anywhere {
                    sched_setaffinity(None, anywhere).step("use every processor again")?;
                }
                let hold = self.join(birth.moves(&plan))?;
                self.go_on(&plan, hold, next, vault)
            }
        }
    }

    /// In its room: becomes the guest, or a kernel that has one.
    fn go_on(
        &self,
        plan: &Plan,
        hold: [bool; 3],
        (socket, runtime): (OwnedFd, Option<Runtime>),
        vault: Vault,
    ) -> Result<(), Failure> {
        let Some(runtime) = runtime else {
            return self.finish(plan, hold, socket, Some(vault));
        };
        sys::hide_groups().step("hide the control groups")?;
        let proxy = room::listen_for_proxy(plan.network)?;
        let told = runtime.listen()?;
        let mut beside = vec![vault.directory.as_fd(), runtime.log.as_fd()];
        beside.extend(proxy.iter().chain(&told).map(AsFd::as_fd));
        let built = Progress::Built {
            store: vault.store.clone(),
            lower: vault.lower.clone(),
            proxy: proxy.is_some(),
        };
        wire::send(self.supervisor, &built, &beside).step("report to the supervisor")?;
        Err(runtime.become_it(self.supervisor))
    }

    fn receive<T: serde::de::DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), Failure> {
        wire::receive(self.supervisor)?.ok_or_else(|| Failure::new("the supervisor is gone"))
    }

    /// Joins the control groups by the descriptors that were opened for it, and moves to the
    /// network that was made for it if it is to; returns what the groups hold.
    fn join(&self, moves: bool) -> Result<[bool; 3], Failure> {
        let (Admission { hold, network }, beside) = self.receive()?;
        let mut doors = beside.into_iter();
        let network = if network { doors.next() } else { None };
        match network {
            Some(network) => enter_network(network.as_fd())?,
            None if moves => return Err(Failure::new("the network is missing")),
            None => {}
        }
        for door in doors {
            rustix::io::write(door, b"0").step("join a control group")?;
        }
        Ok(hold)
    }

    /// In the parent of a fork's first process: makes it and waits for its end.
    fn fork(
        &self,
        plan: &Plan,
        lower: &[String],
        lent: Lent,
        next: (OwnedFd, Option<Runtime>),
    ) -> Result<(), Failure> {
        let hold = self.join(false)?;
        let identity = self.identity.within(lent.user.as_fd());
        enter(&lent)?;
        drop(lent);
        sys::die_with_parent().step("die with the supervisor")?;
        let flags = namespaces(plan.network);
        // Who it is comes before what it says: the supervisor waits no longer once
        // it was told that the process is confined.
        let (announced, announce) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).step("make a pipe")?;
        match sys::clone_process(flags, None).step("make a process with namespaces of its own")? {
            Cloned::Parent(pid, child) => {
                wire::send(self.supervisor, &Progress::Born(pid), &[child.as_fd()])
                    .step("announce the first process")?;
                rustix::io::write(&announce, b"!").step("let the first process go on")?;
                drop((next, announced, announce));
                self.close_socket();
                wait(&child)?;
                std::process::exit(0);
            }
            Cloned::Child => {
                drop(announce);
                settle()?;
                if plan.network != NetworkPlan::Host {
                    sys::loopback_up().step("bring up the loopback interface")?;
                }
                let vault = room::build_fork(plan, identity, lower)?;
                if !reads(&announced) {
                    return Err(Failure::new("whoever made the first process is gone"));
                }
                let first = FirstProcess { identity, ..*self };
                first.go_on(plan, hold, next, vault)
            }
        }
    }

    /// The waiting parent of a fork must not keep the socket open whose end says
    /// that the guest runs.
    fn close_socket(&self) {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(null) = rustix::fs::open("/dev/null", flags, Mode::empty()) {
            ignore(sys::place_descriptor(null.as_fd(), self.supervisor.as_raw_fd()));
        }
    }

    fn finish(
        &self,
        plan: &Plan,
        hold: [bool; 3],
        socket: OwnedFd,
        vault: Option<Vault>,
    ) -> Result<(), Failure> {
        let hired = self.own_program.is_none();
        if !hired {
            // Only now: the namespace takes the groups the process is in as its root.
            sys::hide_groups().step("hide the control groups")?;
        }
        let served = sentry::of(plan).is_some();
        // Where another kernel serves the room, the way out is made around that.
        let proxy = if served { None } else { room::listen_for_proxy(plan.network)? };
        let users = if hired && !served { Users::Shared } else { Users::Own };
        confine::limit_processes(plan, hold, users)?;

        let null = open_null()?;
        if served {
            confine::leave_users()?;
        }
        if hired {
            confine::refuse_privileges()?;
        } else {
            confine::drop_privileges(self.identity)?;
        }
        let landlock = confine::landlock()?;
        if !hired {
            sys::die_with_parent().step("die with the supervisor")?;
        }
        let reports =
            if plan.without_filter { None } else { confine::filter(plan.audit, served, hold)? };
        let mut beside: Vec<_> = vault.iter().map(|vault| vault.directory.as_fd()).collect();
        beside.extend(proxy.iter().chain(&reports).map(AsFd::as_fd));
        let confined = Progress::Confined {
            built: vault.as_ref().map(|vault| (vault.store.clone(), vault.lower.clone())),
            proxy: proxy.is_some(),
            landlock,
        };
        wire::send(self.supervisor, &confined, &beside).step("report to the supervisor")?;
        drop(reports);

        for number in 0..GUEST_SOCKET {
            sys::place_descriptor(null.as_fd(), number).step("close the standard streams")?;
        }
        sys::place_descriptor(socket.as_fd(), GUEST_SOCKET).step("hand over the guest's socket")?;
        // A runtime gives variables to what it executes, and gVisor's kernel shows those of
        // every process to all: whoever is executed once more has none.
        let again = if served { Some(sentry::open_program()?) } else { None };
        let own = self.own_program.filter(|_| !self.identity.enters_guest());
        if let Some(program) = again.as_ref().or(own) {
            sys::close_on_execute_from(GUEST_SOCKET + 1).step("close what is not the guest's")?;
            return Err(sys::execute(program.as_fd(), &[GUEST_NAME])).step("start the guest");
        }
        // Their descriptors are closed all at once, and must not be closed again.
        std::mem::forget((socket, vault, proxy, null));
        sys::close_from(GUEST_SOCKET + 1).step("close what is not the guest's")?;
        // An executed one would spend half a millisecond on what its C library does
        // before it begins.
        std::process::exit(i32::from(run_guest() != ExitCode::SUCCESS));
    }
}

/// Takes one more message; `false` when there will be none.
fn reads(source: &OwnedFd) -> bool {
    rustix::io::read(source, &mut [0]).is_ok_and(|count| count > 0)
}

/// What new namespaces need whatever the plan is.
fn settle() -> Result<(), Failure> {
    rustix::system::sethostname(b"cofferdam").step("set the host name")?;
    confine::limit_watching();
    Ok(())
}

fn open_null() -> Result<OwnedFd, Failure> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .step("open /dev/null")
}
