//! A first process that a container engine starts, where the supervisor does not clone it.
//!
//! The engine is asked by a command. The container's entry is this program, which comes in
//! by a socket that is mounted into the container: from then on it is a first process like
//! any other, but for its room. It has no right to build one, so the supervisor does, from
//! outside, in the container's namespaces, and it is the same room that every sandbox has:
//! of the container's own files nothing is left to see. What runs in there never had a right
//! that it would have to give up.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::net::{SocketFlags, acceptfrom_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::failure::{Failure, Step, ignore};
use crate::identity::Identity;
use crate::mounts;
use crate::room::{self, Prepared, Vault};
use crate::start::{Base, Lent, Newborn, enter_mounts, enter_users, open_namespace};
use crate::store::OnDisk;
use crate::sys::{self, Cloned};
use crate::waiting::timespec;
use crate::wire::{self, Commission, First, Hire, Plan, Report};
use crate::{confine, procfs, supervisor};

/// Where a container finds the way in.
pub const DOOR: &str = "/.cofferdam-door";

/// A directory of the container's, where its room is first mounted.
pub const SITE: &str = "/room";

/// The word that tells this program to come in by it.
pub const ENTER: &str = "enter";

/// The same in the sandbox's directory.
const OUTSIDE: &str = "door";

/// How long an engine may take to start a container.
pub const START: Duration = Duration::from_secs(60);

/// How long it may take to remove one.
pub(crate) const REMOVAL: Duration = Duration::from_secs(20);

/// How long it is left alone before it is asked again.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_millis(1000),
    Duration::from_millis(2000),
];

/// How long a container waits for a sandbox.
const WARMTH: Duration = Duration::from_secs(600);

/// What the engine's command said, in the sandbox's directory.
const LOG: &str = "engine.log";

/// How much of what an engine says is told.
const TOLD: usize = 600;

/// A first process that came in, and its room.
pub(crate) struct Hired {
    pub(crate) newborn: Newborn,
    pub(crate) identity: Identity,
    pub(crate) namespaces: Lent,
    /// The engine's command, which has started the container and is about to end.
    pub(crate) errand: Child,
}

/// Has the engine start the container, and waits until its first process has come in.
///
/// # Errors
/// When the engine cannot, or takes too long; what there is of the container is left to be
/// removed.
pub(crate) fn bring(hire: &Hire, identity: Identity, host: &OwnedFd) -> Result<Hired, Failure> {
    let door = supervisor::listen_at(OUTSIDE)?;
    // The directory around it is closed to all others.
    rustix::fs::chmod(OUTSIDE, Mode::from_raw_mode(0o666)).step("open the door")?;
    let log = File::create(LOG).step("make a log of the engine's")?;
    let mut child = command(hire, &hire.start)
        .stderr(log)
        .spawn()
        .step_with(|| format!("run {}", first_word(&hire.start)))?;
    let arrived = wait_for_entry(&door, &mut child, hire, host);
    drop(door);
    ignore(fs::remove_file(OUTSIDE));
    let brought = arrived.and_then(|progress| {
        let peer = rustix::net::sockopt::socket_peercred(&progress).step("see who came in")?;
        adopt(peer.pid, progress, identity)
    });
    match brought {
        Ok((newborn, identity, namespaces)) => {
            Ok(Hired { newborn, identity, namespaces, errand: child })
        }
        Err(failure) => {
            finish(&mut child, Instant::now() + REMOVAL);
            Err(failure)
        }
    }
}

/// Waits for the end of an engine's command; whether it succeeded. One that is killed leaves
/// its engine at work on what it was asked for, so that is the last resort.
pub(crate) fn finish(child: &mut Child, deadline: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                ignore(child.kill());
                ignore(child.wait());
                return false;
            }
        }
    }
}

/// Takes a process that came in as the first one.
fn adopt(
    pid: Pid,
    progress: OwnedFd,
    identity: Identity,
) -> Result<(Newborn, Identity, Lent), Failure> {
    let child = pidfd_open(pid, PidfdFlags::empty()).step("hold the first process")?;
    let number = pid.as_raw_nonzero().get().unsigned_abs();
    confine::volunteer_for_oom(number);
    let namespaces =
        Lent { user: open_namespace(number, "user")?, mounts: open_namespace(number, "mnt")? };
    let uid_map = procfs::read(format!("/proc/{number}/uid_map")).step("see who is who")?;
    let identity = identity.mapped_by(&uid_map).within(namespaces.user.as_fd());
    Ok((Newborn::hired(child, number, progress), identity, namespaces))
}

fn wait_for_entry(
    door: &OwnedFd,
    child: &mut Child,
    hire: &Hire,
    host: &OwnedFd,
) -> Result<OwnedFd, Failure> {
    let deadline = Instant::now() + START;
    let mut ended = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::new(format!(
                "{} did not start the container within {} s",
                hire.engine,
                START.as_secs()
            )));
        }
        let mut watched = [PollFd::new(door, PollFlags::IN), PollFd::new(host, PollFlags::empty())];
        // The end of the command is looked at between waits.
        let wait = timespec(left.min(Duration::from_millis(20)));
        if poll(&mut watched, Some(&wait)).is_err() {
            continue;
        }
        let [came, gone] = watched.map(|fd| !fd.revents().is_empty());
        if came {
            let (entry, _) =
                acceptfrom_with(door, SocketFlags::CLOEXEC).step("let the first process in")?;
            return Ok(entry);
        }
        if gone {
            return Err(Failure::new("the host is gone"));
        }
        if !ended && let Some(status) = child.try_wait().step("look after the engine's command")? {
            if !status.success() {
                let log = File::open(LOG).step("read what the engine said")?;
                return Err(Failure::new(format!(
                    "{} could not start the container: {}",
                    hire.engine,
                    said(&log)
                )));
            }
            ended = true;
        }
    }
}

/// The end of what an engine has said, as far as it was kept.
pub(crate) fn said(log: &File) -> String {
    let mut bytes = vec![0; 64 << 10];
    let read = log.read_at(&mut bytes, 0).unwrap_or(0);
    let bytes = bytes.get(..read).unwrap_or_default().split(|byte| *byte == 0).next();
    let text = String::from_utf8_lossy(bytes.unwrap_or_default());
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    if text.is_empty() {
        return "it did not say why".to_owned();
    }
    let skipped = text.chars().count().saturating_sub(TOLD);
    text.chars().skip(skipped).collect()
}

/// The process that built a room, and the mounts it worked with. The kernel takes its time
/// to let go of both: whoever drops this waits for that.
pub(crate) struct Builder {
    process: OwnedFd,
    /// The last that holds them.
    mounts: Option<OwnedFd>,
}

impl Drop for Builder {
    fn drop(&mut self) {
        ignore(crate::start::wait(&self.process));
        self.mounts = None;
    }
}

/// Builds the room in the container's namespaces.
///
/// # Errors
/// The step that failed.
pub(crate) fn furnish(
    plan: &Plan,
    place: (Identity, &Lent),
    base: Option<&Base>,
    store: Option<&OnDisk>,
) -> Result<(Vault, Builder), Failure> {
    let (here, there) = wire::pair()?;
    match sys::clone_process(0, None).step("make a process")? {
        Cloned::Parent(_, process) => {
            drop(there);
            let mut builder = Builder { process, mounts: None };
            let outcome = wire::receive::<Result<(String, Vec<String>), Failure>>(&here)?;
            let (outcome, beside) = outcome.ok_or_else(|| Failure::new("a helper process died"))?;
            let (store, lower) = outcome?;
            let mut beside = beside.into_iter();
            let directory = beside.next().ok_or_else(|| Failure::new("the vault is missing"))?;
            builder.mounts = beside.next();
            Ok((Vault { directory, store, lower }, builder))
        }
        Cloned::Child => {
            match furnish_inside(plan, place, base, store) {
                Ok((vault, mounts)) => {
                    let told: Result<_, Failure> = Ok((vault.store, vault.lower));
                    let beside = [vault.directory.as_fd(), mounts.as_fd()];
                    ignore(wire::send(&there, &told, &beside));
                }
                Err(failure) => {
                    let told: Result<(String, Vec<String>), _> = Err(failure);
                    ignore(wire::send(&there, &told, &[]));
                }
            }
            std::process::exit(0);
        }
    }
}

fn furnish_inside(
    plan: &Plan,
    (identity, namespaces): (Identity, &Lent),
    base: Option<&Base>,
    store: Option<&OnDisk>,
) -> Result<(Vault, OwnedFd), Failure> {
    let mut prepared = Prepared { base: base.map(Base::mount).transpose()?, ..Prepared::default() };
    match store {
        Some(OnDisk::Image(image)) => {
            prepared.image = Some(image.try_clone().step("duplicate a descriptor")?);
        }
        Some(OnDisk::Directory(path)) => prepared.changes = Some(path.clone()),
        None => {}
    }
    enter_users(namespaces.user.as_fd())?;
    let materials = room::take(plan, prepared)?;
    // Without anybody to hold it, the namespace it leaves would be taken apart on the way.
    let left = open_namespace(std::process::id(), "mnt")?;
    enter_mounts(namespaces)?;
    let processes = mounts::copy_of(Path::new("/proc"))?;
    let vault = room::build(plan, identity, materials, Path::new(SITE), Some(processes))?;
    Ok((vault, left))
}

/// Has the engine remove what may be left of a container; whether it says that it has. It may
/// be at it itself, and in its own way: then it is asked again. What it does not remove, the
/// next start does.
pub fn remove(hire: &Hire) -> bool {
    let deadline = Instant::now() + REMOVAL;
    for pause in PAUSES {
        // Where its program is not there, it will not be in a moment.
        let Ok(mut child) = command(hire, &hire.remove).stderr(Stdio::null()).spawn() else {
            return false;
        };
        if finish(&mut child, deadline) {
            return true;
        }
        std::thread::sleep(pause);
    }
    false
}

/// Has the engine start a container for a sandbox whose plan comes later. Ends the container
/// where none comes; `None` then.
pub(crate) fn keep_warm(
    hire: &Hire,
    identity: Identity,
    host: &OwnedFd,
) -> Result<Option<(Commission, Hired)>, Failure> {
    let hired = bring(hire, identity, host).inspect_err(|_| {
        remove(hire);
    })?;
    // A host that is gone is noticed below.
    ignore(wire::send(host, &Report::Warm, &[]));
    let wait = timespec(WARMTH);
    let mut watched =
        [PollFd::new(host, PollFlags::IN), PollFd::new(&hired.newborn.child, PollFlags::IN)];
    let woken = rustix::io::retry_on_intr(|| poll(&mut watched, Some(&wait)));
    let [spoken, ended] = watched.map(|fd| !fd.revents().is_empty());
    if woken.is_ok()
        && spoken
        && !ended
        && let Some((first, beside)) = wire::receive::<First>(host)?
        && let Some(commission) = first.commission(beside)
    {
        return Ok(Some((commission, hired)));
    }
    let Hired { newborn, mut errand, .. } = hired;
    newborn.discard();
    finish(&mut errand, Instant::now() + REMOVAL);
    remove(hire);
    Ok(None)
}

#[expect(clippy::disallowed_methods, reason = "an engine is a program of the host's")]
fn command(hire: &Hire, words: &[String]) -> Command {
    let mut command = Command::new(first_word(words));
    command
        .args(words.iter().skip(1))
        .env_clear()
        .envs(hire.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(Path::new("/"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // An interrupt at a terminal is the caller's.
        .process_group(0);
    command
}

fn first_word(words: &[String]) -> &str {
    words.first().map_or("", String::as_str)
}
