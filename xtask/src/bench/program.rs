//! Programs of the host: what a sandbox is compared with.
//!
//! Each is waited for, with an end to the patience, and ended by its own id.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// How long a program may take that is expected to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a program may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(20);

/// A program to be started.
#[expect(clippy::disallowed_methods, reason = "sandboxes are compared with the host's programs")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Where a program is.
///
/// # Errors
/// When it is not there.
pub(super) fn find(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name));
    found
        .filter(|path| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok())
        .find(|path| path.is_file())
        .with_context(|| format!("there is no program {name}"))
}

/// The time from a program's start to its end, which must be a good one.
pub(super) fn time(command: &mut Command) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let mut child = Companion(command.spawn().with_context(|| name(command))?);
    let status = child.ends_within(PATIENCE)?;
    let taken = start.elapsed();
    match status {
        Some(status) if status.success() => Ok(taken),
        Some(status) => bail!("{} ended with {status}", name(command)),
        None => bail!("{} did not end in time", name(command)),
    }
}

/// What a program writes to its stdout. Its end must be a good one; else the
/// error has the last line that it wrote to its stderr.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    // Files take any amount, and do not wait for whoever else holds them open.
    let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut child = Companion(command.spawn().with_context(|| name(command))?);
    let status = child.ends_within(PATIENCE)?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    match status {
        Some(status) if status.success() => text(out),
        Some(status) => {
            let said = text(err)?;
            let last = said.lines().rfind(|line| !line.trim().is_empty());
            bail!("{} ended with {status}: {}", name(command), last.unwrap_or("no word").trim())
        }
        None => bail!("{} did not end in time", name(command)),
    }
}

fn text(mut file: File) -> anyhow::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn name(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let words = program.file_name().into_iter().chain(command.get_args().take(1));
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Marks an outcome that nothing depends on; a comment beside it says why.
pub(super) fn ignore<Anything>(_: Anything) {}

/// A program that runs as long as this is held.
pub(crate) struct Companion(pub(crate) Child);

impl Companion {
    /// Waits for its end; `None` if it does not end in time.
    pub(super) fn ends_within(&mut self, patience: Duration) -> anyhow::Result<Option<ExitStatus>> {
        let handle = pidfd_open(self.pid(), PidfdFlags::empty())?;
        let timeout = Timespec::try_from(patience)?;
        let mut watched = [PollFd::new(&handle, PollFlags::IN)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(None),
            other => other.map_err(Into::into).and_then(|_| Ok(Some(self.0.wait()?))),
        }
    }

    /// Its id.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn stop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        // It may have ended since; then there is nobody to ask.
        ignore(kill_process(self.pid(), Signal::TERM));
        if matches!(self.ends_within(GRACE), Ok(Some(_))) {
            return;
        }
        ignore(self.0.kill());
        ignore(self.0.wait());
    }
}

impl Deref for Companion {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Companion {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = command("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_time_of_a_program_that_fails_is_not_taken() {
        assert!(time(&mut shell("exit 0")).is_ok());
        assert!(time(&mut shell("exit 3")).unwrap_err().to_string().contains("exit status: 3"));
        assert!(time(&mut command("/does/not/exist")).is_err());
    }

    #[test]
    fn a_failure_says_what_the_program_said_last() {
        assert_eq!(output(&mut shell("echo yes; echo no >&2")).unwrap(), "yes\n");
        let error = output(&mut shell("echo first >&2; echo last >&2; exit 1")).unwrap_err();
        assert_eq!(error.to_string(), "sh -c ended with exit status: 1: last");
    }

    #[test]
    fn a_companion_ends_when_it_is_let_go() {
        let companion = Companion(shell("exec sleep 1000").spawn().unwrap());
        let handle = pidfd_open(companion.pid(), PidfdFlags::empty()).unwrap();
        drop(companion);
        let mut watched = [PollFd::new(&handle, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&mut watched, Some(&now)), Ok(1), "it has ended");
    }
}
