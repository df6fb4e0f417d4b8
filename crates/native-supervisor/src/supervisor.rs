//! The life of one sandbox, from its plan to its removal.

mod end;

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind, listen,
    socket_with,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::audit::Auditor;
use crate::cgroup::Groups;
use crate::claim::Claim;
use crate::doubt::Witness;
use crate::failure::{Failure, Step, ignore};
use crate::follow::{Parts, follow};
use crate::guest_door::GuestDoor;
use crate::hire::{self, Hired};
use crate::identity::Identity;
use crate::places::{self, Places};
use crate::procfs;
use crate::relief::Relief;
use crate::remains;
use crate::room::Setting;
use crate::sentry;
use crate::snapshot::Workspace;
use crate::start::{self, Base, Birth, Lent, Newborn};
use crate::store::{self, OnDisk};
use crate::sys;
use crate::waiting::{readable_within, timespec};
use crate::wire::{
    self, Built, Commission, First, FirstPlan, GroupKind, Hire, Order, Patience, Plan, Report,
    WorkspacePlan,
};

/// What a supervisor calls itself before it has a plan, and from then on: whoever looks at the
/// machine's processes can tell which of them have a sandbox.
const WAITING: &CStr = c"cofferdam-ready";
const AT_WORK: &CStr = c"cofferdam-super";

/// How long a control group may take to let itself be removed.
const REMOVAL: Duration = Duration::from_secs(5);

/// After this time without anything to do memory is given back.
const QUIET: Duration = Duration::from_secs(1);

/// A plan that does not come within this time is not about to come. One that comes in the next
/// moment waits for a network, which takes a third of it.
const SOON: Duration = Duration::from_millis(3);

/// At most this many hosts are attached at once.
const MAX_HOSTS: usize = 8;

/// Makes the sandbox that the host on standard input asks for, and stays until
/// it is gone. `own_program` is this program as a static executable, for a guest
/// that has to be one.
#[must_use]
pub fn main(own_program: OwnedFd) -> ExitCode {
    let host = match rustix::io::dup(rustix::stdio::stdin()) {
        Ok(host) => host,
        Err(_) => return ExitCode::FAILURE,
    };
    // A supervisor may be started before there is a plan for it; what does not
    // depend on one is made meanwhile.
    let ground = Ground::prepare(own_program);
    let mut newborn = match &ground {
        Ok(ground) if !readable_within(&host, Duration::ZERO) => ground.newborn(),
        _ => None,
    };
    if let Some(newborn) = &mut newborn
        && !readable_within(&host, SOON)
    {
        newborn.prepare_network();
    }
    let outcome = match (wire::receive::<First>(&host), ground) {
        (Ok(Some((First::Warm { state, hire }, lock))), Ok(ground)) => {
            newborn.into_iter().for_each(Newborn::discard);
            let warm = rustix::process::chdir(&state)
                .step("enter the container's directory")
                .and_then(|()| hire::keep_warm(&hire, ground.identity, &host));
            match warm {
                Ok(Some((commission, hired))) => {
                    drop(lock);
                    Supervisor::begin(commission, &ground, (None, Some(hired)), &host)
                }
                Ok(None) => {
                    ignore(remains::remove_state(&state));
                    return ExitCode::SUCCESS;
                }
                Err(failure) => {
                    ignore(remains::remove_state(&state));
                    Err(failure)
                }
            }
        }
        (Ok(Some((first, beside))), Ok(ground)) => match first.commission(beside) {
            Some(commission) => Supervisor::begin(commission, &ground, (newborn, None), &host),
            None => return ExitCode::FAILURE,
        },
        (Ok(None), _) => return ExitCode::FAILURE,
        (Err(failure), _) | (_, Err(failure)) => Err(failure),
    };
    match outcome {
        Ok(supervisor) => supervisor.watch(host),
        Err(failure) => {
            // Without a host nobody needs to know.
            ignore(wire::send(&host, &Report::Failed(failure), &[]));
            ExitCode::FAILURE
        }
    }
}

/// What any sandbox of this supervisor is made on.
struct Ground {
    identity: Identity,
    own_program: OwnedFd,
}

impl Ground {
    fn prepare(own_program: OwnedFd) -> Result<Self, Failure> {
        rustix::process::setsid().step("begin a session")?;
        cofferdam_guest::heed_children().step("heed its children")?;
        ignore(rustix::thread::set_name(WAITING));
        // What is made for the sandbox must not depend on the caller's habits.
        rustix::process::umask(Mode::from_raw_mode(0o022));
        allow_many_files();
        // Out of the way of the first descriptors, which the guest has its own
        // use for.
        let own_program =
            rustix::io::fcntl_dupfd_cloexec(&own_program, 8).step("hold this program")?;
        let uid_map = procfs::read("/proc/self/uid_map").step("read /proc")?;
        Ok(Self { identity: Identity::choose(&uid_map), own_program })
    }

    /// A first process for the plan that most likely comes. Where it has to be
    /// born into a group of its own there is none; where it cannot be made, that
    /// is told when it is needed.
    fn newborn(&self) -> Option<Newborn> {
        if places::is_unified() {
            return None;
        }
        Newborn::make(Birth::Apart, None, self.identity, &self.own_program).ok()
    }
}

/// A sandbox that runs.
struct Supervisor {
    plan: Plan,
    built: Built,
    groups: Groups,
    child: OwnedFd,
    init_handle: OwnedFd,
    workspace: Workspace,
    /// Of the file system that has the changes, where it is an image.
    witness: Option<Witness>,
    auditor: Option<Auditor>,
    /// Where the sandbox's kernel is a program, which is not to be killed.
    relief: Option<Relief>,
    proxy: Option<OwnedFd>,
    guest: GuestDoor,
    door: Option<OwnedFd>,
    /// Let go of before the claim: whoever gets that may find what this sandbox left.
    lock: OwnedFd,
    claim: Option<Claim>,
    /// How long it waits for a host: not at all until it is told to be kept.
    linger: Duration,
    /// What its host waits for when it ends.
    patience: Patience,
    /// The command by which an engine was asked for the first process, until it has ended.
    errand: Option<std::process::Child>,
    /// Who built the room, until the host was told that it is there.
    builder: Option<hire::Builder>,
    /// Where the machine, or whoever manages services on it, asks it to end.
    farewell: Option<OwnedFd>,
}

impl Supervisor {
    fn begin(
        commission: Commission,
        ground: &Ground,
        (mut newborn, hired): (Option<Newborn>, Option<Hired>),
        host: &OwnedFd,
    ) -> Result<Self, Failure> {
        let Commission { plan, beside, outlets, patience } = commission;
        ignore(rustix::thread::set_name(AT_WORK));
        let mut groups = Groups::default();
        let firsts = (&mut newborn, hired);
        match Self::build(&plan, beside, ground, firsts, &mut groups, host) {
            Ok(supervisor) => {
                let relief = sentry::of(&plan).and_then(|_| groups.relief());
                let mut supervisor = Self { groups, relief, patience, ..supervisor };
                let dialled = supervisor.guest.dial(&outlets);
                // The guest has them: whoever reads there is to see the end of what it runs.
                drop(outlets);
                let reported = dialled.and_then(|connection| {
                    let ready = Report::Ready(supervisor.built.clone());
                    wire::send(host, &ready, &[connection.as_fd()]).step("report to the host")
                });
                supervisor.builder = None;
                match reported {
                    Ok(()) => Ok(supervisor),
                    // Nobody has heard of it, so nobody would end it.
                    Err(failure) => {
                        supervisor.end(&[]);
                        Err(failure)
                    }
                }
            }
            Err(failure) => {
                newborn.into_iter().for_each(Newborn::discard);
                groups.remove(REMOVAL);
                if let Some(hire) = hire_of(&plan) {
                    hire::remove(hire);
                }
                // What cannot be removed now is found and removed later.
                ignore(remains::remove_state(&plan.state));
                Err(failure)
            }
        }
    }

    /// Makes the sandbox.
    fn build(
        plan: &Plan,
        descriptors: Vec<OwnedFd>,
        ground: &Ground,
        (newborn, ready): (&mut Option<Newborn>, Option<Hired>),
        groups: &mut Groups,
        host: &OwnedFd,
    ) -> Result<Self, Failure> {
        // The host's directories, processes and groups are all reached by name.
        rustix::process::chdir(&plan.state).step("enter the sandbox's directory")?;
        let mut descriptors = descriptors.into_iter();
        let lock = descriptors.next().ok_or_else(|| Failure::new("the lock is missing"))?;
        let (mut claim, mut lent) = (None, None);
        match (&plan.workspace, descriptors.next(), descriptors.next()) {
            (WorkspacePlan::Directory(..), Some(handed_over), _) => {
                claim = Some(Claim::inherited(handed_over));
            }
            (WorkspacePlan::Directory(..), None, _) => {
                return Err(Failure::new("the claim on the directory is missing"));
            }
            (_, Some(user), Some(mounts)) => lent = Some(Lent { user, mounts }),
            _ => {}
        }
        let mut identity = ground.identity;
        if let Some(lent) = &lent {
            identity = identity.within(lent.user.as_fd());
        }
        // Whoever attaches later needs it, and whoever has to apply changes.
        if claim.is_some() || plan.linger_ms.is_some() {
            remains::keep_plan(plan)?;
        }
        let limits = sentry::around(plan);
        let (guest, socket) = GuestDoor::make()?;
        let door = match plan.linger_ms {
            Some(_) => Some(listen_at(remains::CONTROL)?),
            None => None,
        };
        let mut hired = None;
        let mut newborn = match (newborn.take(), hire_of(plan)) {
            (other, Some(hire)) => {
                other.into_iter().for_each(Newborn::discard);
                let brought = match ready {
                    Some(hired) => hired,
                    None => hire::bring(hire, identity, host)?,
                };
                identity = brought.identity;
                *groups = Groups::of_container(brought.newborn.pid, &plan.limits);
                let Hired { newborn, namespaces, errand, .. } = brought;
                hired = Some((namespaces, errand));
                newborn
            }
            (Some(newborn), None) if newborn.suits(plan) => newborn,
            (other, None) => {
                other.into_iter().for_each(Newborn::discard);
                let places = Places::find();
                if places.need_birthplace() {
                    *groups = Groups::make(&places, &plan.id, &limits);
                }
                let birthplace = groups.birthplace()?;
                let birthplace = birthplace.as_ref().map(AsFd::as_fd);
                Newborn::make(Birth::of(plan), birthplace, identity, &ground.own_program)?
            }
        };
        let mut parts = Parts::default();
        let mut builder = None;
        let mut store = None;
        let mut witness = None;
        let mut maker = None;
        let mut stay = None;
        let followed = store::make(plan, identity)
            .and_then(|made| {
                if let Some(OnDisk::Image(image)) = &made {
                    witness = Some(Witness::of(image)?);
                }
                store = made;
                Base::prepare(plan, identity)
            })
            .and_then(|base| {
                let from = match &hired {
                    // The room is built for it.
                    Some((namespaces, _)) => {
                        let place = (identity, namespaces);
                        let furnished = hire::furnish(plan, place, base.as_ref(), store.as_ref())?;
                        parts.vault = Some(furnished.0);
                        builder = Some(furnished.1);
                        (None, None)
                    }
                    None => (base.as_ref(), store.as_ref()),
                };
                stay = newborn.leave_alone();
                newborn.tell(plan, &socket, from, lent.as_ref())?;
                parts.base = base;
                // While the first process builds its room.
                newborn.begin_network(plan)?;
                if groups.kind() == GroupKind::None {
                    *groups = Groups::make(&Places::find().to_join(), &plan.id, &limits);
                }
                maker = newborn.admit(groups)?;
                match sentry::of(plan) {
                    Some(_) => newborn.tell_successor(plan, &socket, groups),
                    None => Ok(()),
                }
            })
            .and_then(|()| follow(&newborn, plan, identity, host, &mut parts));
        drop((stay, maker));
        if let Err(failure) = followed {
            newborn.discard();
            return Err(failure);
        }
        let Newborn { child, pid: child_pid, .. } = newborn;
        let (init, init_handle) = match parts.init {
            Some(init) => init,
            None => (child_pid, child.try_clone().step("duplicate a descriptor")?),
        };
        let vault = parts.vault.ok_or_else(|| Failure::new("the room was not handed over"))?;
        let (namespaces, errand) = match hired {
            Some((namespaces, errand)) => (namespaces, Some(errand)),
            None => {
                let user = start::open_namespace(init, "user")?;
                (Lent { user, mounts: start::open_namespace(init, "mnt")? }, None)
            }
        };
        let sized = !matches!(store, Some(OnDisk::Directory(_)));
        let built = Built {
            init,
            groups: groups.kind(),
            groups_hold: groups.hold(),
            sized_workspace: sized,
            landlock: parts.landlock,
            users: identity.kind(),
            audit: parts.auditor.is_some(),
            own_kernel: sentry::of(plan).is_some(),
        };
        let supervisor = Self {
            plan: plan.clone(),
            built,
            groups: Groups::default(),
            child,
            init_handle,
            workspace: Workspace::new(vault, identity, namespaces, Setting::of(plan)),
            witness,
            auditor: parts.auditor,
            relief: None,
            proxy: parts.proxy,
            guest,
            door,
            lock,
            claim,
            linger: Duration::ZERO,
            patience: Patience::Enough,
            errand,
            builder,
            farewell: None,
        };
        Ok(supervisor)
    }

    /// Serves hosts and the audit trail until the sandbox is to end.
    fn watch(mut self, host: OwnedFd) -> ExitCode {
        // Where that cannot be had, a machine that goes down is like one that is cut off.
        self.farewell = sys::terminations().ok();
        let mut hosts = vec![host];
        let mut alone_since: Option<Instant> = None;
        let mut quiet_at = Some(Instant::now() + QUIET);
        loop {
            let now = Instant::now();
            let lonely_until = alone_since.map(|since| since + self.linger);
            if lonely_until.is_some_and(|until| now >= until) {
                break;
            }
            let mut mood = Mood::Busy;
            if quiet_at.is_some_and(|at| now >= at) {
                quiet_at = None;
                self.errand.take_if(|errand| !matches!(errand.try_wait(), Ok(None)));
                mood = Mood::Quiet;
            }
            let look_again = self.relief.as_ref().and_then(Relief::look_again);
            let rested = self.auditor.as_ref().and_then(Auditor::look_again);
            let wake = [lonely_until, quiet_at, look_again, rested].into_iter().flatten().min();
            let Ready { ended, reported, short, knocked, spoke } = self.poll(&hosts, wake, mood);
            if ended {
                break;
            }
            if reported {
                self.auditor.iter_mut().for_each(Auditor::attend);
                quiet_at = quiet_at.or(Some(Instant::now() + QUIET));
            }
            if short || look_again.is_some_and(|at| Instant::now() >= at) {
                self.relieve();
            }
            if knocked && let Some(host) = self.admit(hosts.len()) {
                hosts.push(host);
                alone_since = None;
            }
            let Some(index) = spoke else { continue };
            let Some(host) = hosts.get(index) else { continue };
            match wire::receive::<Order>(host) {
                Ok(Some((Order::Close, _))) => break,
                Ok(Some((order, _))) => {
                    quiet_at = quiet_at.or(Some(Instant::now() + QUIET));
                    if self.obey(order, index, &hosts).is_err() {
                        drop(hosts.remove(index));
                    }
                }
                Ok(None) | Err(_) => drop(hosts.remove(index)),
            }
            if hosts.is_empty() && alone_since.is_none() {
                alone_since = Some(Instant::now());
            }
        }
        self.end(&hosts)
    }

    fn poll(&self, hosts: &[OwnedFd], wake: Option<Instant>, mood: Mood) -> Ready {
        let mut watched = vec![PollFd::new(&self.init_handle, PollFlags::IN)];
        watched.extend(self.farewell.iter().map(|farewell| PollFd::new(farewell, PollFlags::IN)));
        let ends = watched.len();
        let report = self.auditor.as_ref().and_then(Auditor::descriptor).map(|reports| {
            watched.push(PollFd::from_borrowed_fd(reports, PollFlags::IN));
            watched.len() - 1
        });
        let relief = self.relief.as_ref().map(|relief| {
            let (told, how) = relief.told();
            watched.push(PollFd::from_borrowed_fd(told, how));
            watched.len() - 1
        });
        let knock = self.door.as_ref().map(|door| {
            watched.push(PollFd::new(door, PollFlags::IN));
            watched.len() - 1
        });
        let first_host = watched.len();
        watched.extend(hosts.iter().map(|host| PollFd::new(host, PollFlags::IN)));
        let timeout = wake.map(|wake| timespec(wake.saturating_duration_since(Instant::now())));
        if mood == Mood::Quiet {
            // Last of all: what runs after this is in memory again.
            sys::give_back_code();
        }
        if poll(&mut watched, timeout.as_ref()).is_err() {
            return Ready::default(); // interrupted
        }
        let active = |index: usize| watched.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ready {
            ended: (0..ends).any(active),
            reported: report.is_some_and(active),
            short: relief.is_some_and(active),
            knocked: knock.is_some_and(active),
            spoke: (0..hosts.len()).find(|index| active(first_host + index)),
        }
    }

    fn relieve(&mut self) {
        if self.relief.as_mut().is_some_and(|relief| relief.look(Instant::now())) {
            self.guest.ask_for_memory();
        }
    }

    /// How many processes were killed for lack of memory.
    fn oom_kills(&self) -> u64 {
        self.groups.oom_kills() + self.relief.as_ref().map_or(0, |relief| relief.kills)
    }

    fn admit(&self, attached: usize) -> Option<OwnedFd> {
        let (host, _) = acceptfrom_with(self.door.as_ref()?, SocketFlags::CLOEXEC).ok()?;
        (attached < MAX_HOSTS).then_some(host)
    }

    fn obey(&mut self, order: Order, index: usize, hosts: &[OwnedFd]) -> Result<(), Failure> {
        let Some(host) = hosts.get(index) else { return Ok(()) };
        let answer = |report: &Report, beside: &[std::os::fd::BorrowedFd<'_>]| {
            wire::send(host, report, beside).step("answer the host")
        };
        match order {
            Order::Describe => match self.guest.dial(&[]) {
                Ok(connection) => answer(&Report::Ready(self.built.clone()), &[connection.as_fd()]),
                Err(failure) => answer(&Report::Failed(failure), &[]),
            },
            Order::Dial => match self.guest.dial(&[]) {
                Ok(connection) => answer(&Report::Dialled(Ok(())), &[connection.as_fd()]),
                Err(failure) => answer(&Report::Dialled(Err(failure)), &[]),
            },
            Order::OomKills => answer(&Report::OomKills(self.oom_kills()), &[]),
            Order::Audit => {
                // What was done before the question is in the answer.
                self.auditor.iter_mut().for_each(Auditor::catch_up);
                let (filed, held) = self.auditor.as_ref().map(Auditor::trail).unwrap_or_default();
                answer(&Report::Audit(filed, held.to_vec()), &[])
            }
            Order::Snapshot => {
                let auditor = &mut self.auditor;
                let snapshot = self.workspace.freeze(self.built.init, &self.groups, || {
                    auditor.iter_mut().for_each(Auditor::catch_up);
                });
                answer(&Report::Snapshot(snapshot), &[])
            }
            Order::Lend(number) => match self.workspace.layers(number) {
                Some(layers) => {
                    let Lent { user, mounts } = self.workspace.namespaces();
                    answer(&Report::Lent(Ok(layers.clone())), &[user.as_fd(), mounts.as_fd()])
                }
                None => {
                    let failure = Failure::new(format!("there is no snapshot {number}"));
                    answer(&Report::Lent(Err(failure)), &[])
                }
            },
            Order::Egress => {
                let beside: Vec<_> = self.proxy.iter().map(AsFd::as_fd).collect();
                answer(&Report::Egress, &beside)
            }
            Order::Keep => {
                self.linger = Duration::from_millis(self.plan.linger_ms.unwrap_or(0));
                answer(&Report::Kept, &[])
            }
            Order::Close => Ok(()),
        }
    }
}

/// Whether there was something to do lately.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Busy,
    /// Not for some time, and what it took can be given back.
    Quiet,
}

/// What there is to do.
#[derive(Default)]
struct Ready {
    ended: bool,
    reported: bool,
    /// Of memory.
    short: bool,
    knocked: bool,
    spoke: Option<usize>,
}

/// How an engine is asked for the first process, where one is.
pub(crate) fn hire_of(plan: &Plan) -> Option<&Hire> {
    match &plan.first {
        FirstPlan::Hired(hire) => Some(hire),
        FirstPlan::Cloned | FirstPlan::Served(_) => None,
    }
}

pub(crate) fn listen_at(name: &str) -> Result<OwnedFd, Failure> {
    let kind = SocketType::SEQPACKET;
    let socket =
        socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).step("make a socket")?;
    let address = SocketAddrUnix::new(Path::new(name)).step("name a socket")?;
    bind(&socket, &address).step_with(|| format!("bind {name}"))?;
    listen(&socket, 8).step_with(|| format!("listen at {name}"))?;
    Ok(socket)
}

/// Removing and applying deep trees takes a descriptor a level.
fn allow_many_files() {
    let now = getrlimit(Resource::Nofile);
    ignore(setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum }));
}
