//! A sandbox whose kernel is a program: gVisor's Sentry, started by its runtime, runsc.
//!
//! The first process is cloned and builds its room as in any sandbox, but the room is a
//! directory of a root that holds next to nothing else, and what the first process becomes
//! is not the guest but the runtime, with the rights that the room's builder has: all in a
//! user namespace of ids that nobody has, none outside. The runtime's processes, the Sentry
//! and the one that serves it files, are below it in the same namespaces and control groups.
//! So they end with it, see nothing of the host, and leave nothing that somebody would have
//! to find. What runs inside has the Sentry for its kernel; should it take that over, it is
//! where a native sandbox begins.
//!
//! What it does the Sentry tells in its log, which is a pipe to the supervisor.
//!
//! Inside, this program is executed once more, finds the supervisor's socket at its standard
//! input, and is a first process that comes in, as those of containers are.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use cofferdam_types::Limits;
use rustix::fs::{
    CWD, FileType, MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create,
    mknodat,
};

use crate::audit::CALLS;
use crate::failure::{Failure, Step};
use crate::mounts::{self, Attributes};
use crate::root;
use crate::sys;
use crate::wire::{FirstPlan, Plan, Sentry};

/// The room, as the runtime finds it.
pub const ROOM: &str = "/room";

/// The runtime's own files: what it is to do, and what it knows of what it did.
pub const BUNDLE: &str = "/runtime/bundle";
/// See [`BUNDLE`].
pub const STATE: &str = "/runtime/state";

/// What the Sentry has and other sandboxes have not: a directory and a file of the room that
/// nobody may open, to be shown in their places.
pub const HIDDEN: [&str; 2] = ["/dev/net", "/dev/fuse"];

/// Where the runtime's own files are.
const RUNTIME: &str = "runtime";

/// This program, inside.
pub const PROGRAM: &str = "/.cofferdam-program";

/// The runtime's program. It looks for itself by name.
const RUNSC: &str = "/runsc";

/// The word that tells this program to come in by its standard input.
pub const ENTER: &str = "enter-by-stdin";

/// Where the Sentry tells of calls: a pipe, in the root around the room.
const TOLD: &str = "/runtime/told";

/// How much the runtime may say, which lives as long as the sandbox does.
const SAID: u64 = 64 << 10;

/// What a root has for the runtime.
const GROUND: &[&str] = &["dev", "proc", "room", RUNTIME, "tmp"];

/// Tasks of the host that they are themselves, and that each process inside takes at most.
const OWN_TASKS: u32 = 512;
const TASKS_EACH: u32 = 4;

/// What the plan wants served, if it does.
pub(crate) fn of(plan: &Plan) -> Option<&Sentry> {
    match &plan.first {
        FirstPlan::Served(sentry) => Some(sentry),
        FirstPlan::Cloned | FirstPlan::Hired(_) => None,
    }
}

/// The limits of the host's control groups. They hold the runtime's processes, which are
/// more than those inside; how many of those there are the Sentry limits. What memory it
/// takes itself, some 20 MB, is the sandbox's as well.
pub(crate) fn around(plan: &Plan) -> Limits {
    let limits = plan.limits.clone();
    match of(plan) {
        Some(_) => Limits {
            pids: limits.pids.saturating_mul(TASKS_EACH).saturating_add(OWN_TASKS),
            ..limits
        },
        None => limits,
    }
}

/// The programs, taken from the host.
pub(crate) struct Programs {
    entry: OwnedFd,
    runtime: OwnedFd,
}

impl Programs {
    pub(crate) fn take(sentry: &Sentry) -> Result<Self, Failure> {
        let take = |program: &Path| {
            let program = mounts::copy_of(program)?;
            mounts::restrict(program.as_fd(), Attributes::READ_ONLY)?;
            Ok(program)
        };
        Ok(Self { entry: take(&sentry.entry)?, runtime: take(&sentry.program)? })
    }

    /// Puts this program into the room that is the working directory, and hides what is the
    /// Sentry's own.
    pub(crate) fn put_inside(&self) -> Result<(), Failure> {
        put(&self.entry, PROGRAM)?;
        let [directory, file] = HIDDEN.map(below);
        root::make_directory(directory)?;
        root::make_place(file)?;
        for path in [directory, file] {
            rustix::fs::chmod(path, Mode::empty()).step("close what is hidden")?;
        }
        Ok(())
    }

    /// Puts the runtime's program into the root around it.
    pub(crate) fn put_around(&self) -> Result<(), Failure> {
        put(&self.runtime, RUNSC)
    }
}

fn put(program: &OwnedFd, path: &'static str) -> Result<(), Failure> {
    root::make_place(below(path))?;
    mounts::place(program, below(path))
}

/// A path as one from a root that is the working directory.
fn below(path: &'static str) -> &'static Path {
    Path::new(path.trim_start_matches('/'))
}

/// Makes the places around a room in the working directory, and has the room for its root
/// from here on, so that no link in it leads out of it; returns the way back.
pub(crate) fn enter_room(room: OwnedFd) -> Result<OwnedFd, Failure> {
    GROUND.iter().try_for_each(|name| root::make_directory(Path::new(name)))?;
    mounts::place(room, below(ROOM))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let around = rustix::fs::open(".", flags, Mode::empty()).step("open the root around")?;
    rustix::process::chdir(below(ROOM)).step("enter the room")?;
    rustix::process::chroot(".").step("have the room for a root")?;
    Ok(around)
}

/// Goes back.
pub(crate) fn leave_room(around: &OwnedFd) -> Result<(), Failure> {
    rustix::process::fchdir(around).step("leave the room")?;
    rustix::process::chroot(".").step("have another root than the room")
}

/// This program, from inside.
pub(crate) fn open_program() -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(PROGRAM, flags, Mode::empty()).step("open this program")
}

/// The runtime's files, and the processes that it is one of, in the root around a room that
/// is the working directory.
pub(crate) fn mount_own() -> Result<(), Failure> {
    let options = [("size", "8m"), ("mode", "755")];
    let own = mounts::new_file_system("tmpfs", &options, Attributes::WRITABLE)?;
    mounts::place(own, RUNTIME)?;
    // Nothing of it is hidden: then no new one could be mounted below, and the Sentry has
    // to. It is not what is seen inside.
    let processes = mounts::new_file_system("proc", &[], Attributes::KERNEL)?;
    mounts::place(processes, "proc")
}

/// What the runtime is told, and where it complains.
pub(crate) struct Runtime {
    /// A file in memory that cannot grow. What is not written there is lost, and nobody waits.
    pub(crate) log: OwnedFd,
    audit: bool,
    words: Vec<CString>,
    configuration: String,
}

impl Runtime {
    pub(crate) fn new(plan: &Plan, sentry: &Sentry) -> Result<Self, Failure> {
        let log = file_of_size(SAID).step("make a log of the runtime's")?;
        let telling = if plan.audit { telling() } else { Vec::new() };
        let words = [NAME.to_owned()].into_iter().chain(telling).chain(sentry.words.clone());
        let words: Result<_, _> = words.map(CString::new).collect();
        let words = words.map_err(|_| Failure::new("a word for the runtime has a NUL byte"))?;
        let configuration = sentry.configuration.clone();
        Ok(Self { log, audit: plan.audit, words, configuration })
    }

    /// Makes the pipe in which the Sentry is to tell of calls, where it is to; returns the end
    /// where they arrive. It is the runtime that opens the other one, by name.
    pub(crate) fn listen(&self) -> Result<Option<OwnedFd>, Failure> {
        if !self.audit {
            return Ok(None);
        }
        let owner = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, TOLD, FileType::Fifo, owner, 0).step("make a pipe for what is told")?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(TOLD, flags, Mode::empty()).step("open what is told").map(Some)
    }

    /// Becomes the runtime, with this socket as what is inside finds at its standard input.
    /// Returns only on failure.
    pub(crate) fn become_it(&self, supervisor: &OwnedFd) -> Failure {
        let program = match self.prepare(supervisor) {
            Ok(program) => program,
            Err(failure) => return failure,
        };
        let words: Vec<&CStr> = self.words.iter().map(CString::as_c_str).collect();
        let errno = sys::execute(program.as_fd(), &words).raw_os_error().unwrap_or(0);
        Failure { step: "runsc could not be executed".to_owned(), errno }
    }

    fn prepare(&self, supervisor: &OwnedFd) -> Result<OwnedFd, Failure> {
        for directory in [BUNDLE, STATE] {
            root::make_directory(Path::new(directory))?;
        }
        root::make_file(&Path::new(BUNDLE).join("config.json"), &self.configuration)?;
        sys::die_with_parent().step("die with the supervisor")?;
        for (descriptor, number) in [(supervisor, 0), (&self.log, 1), (&self.log, 2)] {
            sys::place_descriptor(descriptor.as_fd(), number).step("set a standard stream")?;
        }
        sys::close_on_execute_from(3).step("close what is not the runtime's")?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open(RUNSC, flags, Mode::empty()).step("open the runtime's program")
    }
}

/// A file in memory that has this size for ever.
fn file_of_size(size: u64) -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("runtime.log", flags)?;
    ftruncate(&file, size)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// Has the Sentry, and no other process of the runtime's, tell of calls.
fn telling() -> Vec<String> {
    vec![
        "--strace".to_owned(),
        format!("--strace-syscalls={}", CALLS.join(",")),
        format!("--debug-log={TOLD}"),
        "--debug-log-format=json".to_owned(),
        "--debug-command=boot".to_owned(),
    ]
}

/// What the runtime is called.
const NAME: &str = "runsc";

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;
    use crate::hire::said;

    #[test]
    fn a_runtime_that_never_stops_complaining_fills_nothing() {
        let mut log = File::from(file_of_size(SAID).unwrap());
        assert_eq!(said(&log), "it did not say why");
        writeln!(log, "first of all:\nno room").unwrap();
        assert_eq!(said(&log), "first of all: no room");
        let refused = (0..100).find_map(|_| log.write_all(&[b'x'; 4096]).err());
        assert!(refused.is_some(), "{} bytes were taken", 100 * 4096);
        assert_eq!(log.metadata().unwrap().len(), SAID);
        assert!(said(&log).starts_with("xxx"), "the end of what was kept");
    }
}
