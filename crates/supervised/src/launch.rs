//! Starting a supervisor, by either of two ways. Both give it nothing of this
//! process's but one end of a socket pair: no descriptor, no variable, no
//! argument.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use cofferdam_native_supervisor::failure::ignore;
use cofferdam_native_supervisor::sys::{self, Cloned};
use cofferdam_native_supervisor::{processors, supervisor};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::PipeFlags;
use rustix::process::Pid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

/// The first descriptor that is no standard stream.
const FIRST: i32 = 3;

/// This end of the socket pair, and the supervisor's number.
pub(crate) type Launched = (OwnedFd, Pid);

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Executes the supervisor's program.
#[expect(clippy::disallowed_methods, reason = "the supervisor is this product's own program")]
pub(crate) fn spawn(program: &OwnedFd) -> io::Result<Launched> {
    let (here, there) = pair()?;
    let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg0("cofferdam-supervisor")
        .env_clear()
        .stdin(Stdio::from(there))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((here, number(child.id())?))
}

/// Forks this process into a supervisor: what a program's start costs, half a
/// millisecond, is saved. `program` is for those of its guests that must be one.
///
/// Refused where this process has threads: a fork has only one of them, and what
/// the others were about to do is never finished.
pub(crate) fn fork(program: &OwnedFd) -> io::Result<Launched> {
    // A directory has a link from each directory in it, and two besides.
    if std::fs::metadata("/proc/self/task")?.nlink() != 3 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (here, there) = pair()?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let (gate, gatekeeper) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    match sys::clone_process(0, None)? {
        Cloned::Parent(pid, _) => {
            let pid = number(pid)?;
            put_aside(pid);
            drop(gatekeeper);
            Ok((here, pid))
        }
        Cloned::Child => {
            drop(gatekeeper);
            let code = match be_supervisor(program, &there, &null, &gate) {
                Ok(code) if code == ExitCode::SUCCESS => 0,
                // The host sees its socket close.
                _ => 1,
            };
            std::process::exit(code);
        }
    }
}

/// Has a process that was just forked begin on another processor. The kernel may
/// well leave it on this one, to wait until we sleep; but the two are to work
/// side by side. It must make no process before this is over, or that one would
/// be kept from this processor for good.
fn put_aside(pid: Pid) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if processors::keep_off_ours(pid, &allowed).is_some() {
        // It has moved. From here on it may run where it could before; if that is
        // refused, it is gone.
        ignore(sched_setaffinity(Some(pid), &allowed));
    }
}

/// In the fork: leaves behind what it inherited, and supervises.
fn be_supervisor(
    program: &OwnedFd,
    there: &OwnedFd,
    null: &OwnedFd,
    gate: &OwnedFd,
) -> io::Result<ExitCode> {
    sys::forget_origin(c"cofferdam-supervisor")?;
    // Its end is all that ever comes.
    rustix::io::retry_on_intr(|| rustix::io::read(gate, &mut [0]))?;
    let program = rustix::io::fcntl_dupfd_cloexec(program, FIRST)?;
    for (descriptor, number) in [(there, 0), (null, 1), (null, 2)] {
        sys::place_descriptor(descriptor.as_fd(), number)?;
    }
    // The caller's are never closed again: the fork ends without going back.
    sys::close_from_but(FIRST, program.as_fd())?;
    Ok(supervisor::main(program))
}

fn number(pid: u32) -> io::Result<Pid> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_forked() {
        let program = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        // The test runs in a thread of its own.
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| fork(&program)).join().unwrap();
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Unsupported);
        });
    }
}
