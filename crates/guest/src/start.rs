//! The start: makes the process what a first process has to be, then serves.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getpid};

use crate::server::{Door, Server};
use crate::sys;

/// The descriptor of the socket that the starter leaves.
const SOCKET: i32 = 3;

/// The environment variable that names the workspace, and where it is otherwise.
const WORKSPACE: &str = "COFFERDAM_WORKSPACE";
const DEFAULT_WORKSPACE: &str = "/workspace";

/// What to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serve {
    /// Hosts that dial the listening Unix socket at descriptor 3, one after the
    /// other, for ever.
    Listener,
    /// Hosts whose connections are handed over the packet socket at descriptor 3,
    /// one after the other, for ever.
    Handed,
    /// The one host at stdin and stdout, until it leaves.
    Stdio,
}

/// Runs the guest. It returns only when there is nothing more to serve.
#[must_use]
pub fn run(serve: Serve) -> ExitCode {
    match try_run(serve) {
        Ok(()) => ExitCode::SUCCESS,
        // There is nobody to tell: the starter sees the code.
        Err(_) => ExitCode::FAILURE,
    }
}

fn try_run(serve: Serve) -> Result<(), Errno> {
    sys::block_signals()?;
    sys::heed_children()?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::set_name(c"cofferdam")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    if getpid().as_raw_nonzero().get() != 1 {
        rustix::process::set_child_subreaper(Some(getpid()))?;
    }
    let door = match serve {
        Serve::Listener => Door::Listener(take(SOCKET)?),
        Serve::Handed => Door::Handed(take(SOCKET)?),
        Serve::Stdio => Door::Stream(take(0)?, take(1)?),
    };
    occupy_first_descriptors()?;
    let workspace =
        std::env::var_os(WORKSPACE).unwrap_or_else(|| OsString::from(DEFAULT_WORKSPACE));
    Server::new(door, workspace.into_vec(), raise_open_files())?.run()
}

/// Moves an inherited descriptor away from the first few.
fn take(fd: i32) -> Result<OwnedFd, Errno> {
    let inherited = sys::inherited(fd).ok_or(Errno::BADF)?;
    rustix::io::fcntl_dupfd_cloexec(&inherited, SOCKET + 1)
}

/// Opens nothing at 0 to 3, so that no other descriptor ever gets one of these
/// numbers: children put theirs there.
fn occupy_first_descriptors() -> Result<(), Errno> {
    // Only to be read: where acts are recorded, one opened for writing would have
    // to wait for that.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let nothing = openat(CWD, "/dev/null", flags, Mode::empty())?;
    let nothing = rustix::io::fcntl_dupfd_cloexec(&nothing, SOCKET + 1)?;
    for target in 0..=SOCKET {
        sys::duplicate_to(std::os::fd::AsFd::as_fd(&nothing), target)?;
    }
    Ok(())
}

/// Lets the guest have as many open files as it may, and returns what it had:
/// that is for commands.
fn raise_open_files() -> Rlimit {
    let before = rustix::process::getrlimit(Resource::Nofile);
    let most = Rlimit { current: before.maximum, maximum: before.maximum };
    // Raising up to the maximum needs no privilege; if it fails there is less room.
    rustix::process::setrlimit(Resource::Nofile, most).ok();
    before
}
