//! A program that the desktop is made of: started, listened to, ended.
//!
//! It runs in a process group of its own with what it starts, and is gone when the
//! value is.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::timeout;

use super::error::DeskError;

/// How many of its last words are kept.
const LAST_WORDS: usize = 2000;

/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// A program that runs.
pub(super) struct Program {
    name: &'static str,
    child: Child,
    /// Comes whenever some child of this process has ended.
    some_ended: unix::Signal,
    heard: Option<Arc<Mutex<Heard>>>,
    /// Whether what it started is to stay when it has ended.
    leaves: bool,
}

/// Where a program is, if it is installed.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| {
        rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
    })
}

/// A command that has yet to be started.
#[expect(
    clippy::disallowed_methods,
    reason = "the aide runs inside the sandbox, and so does what it starts"
)]
pub(super) fn command(path: PathBuf) -> Command {
    let mut command = Command::new(path);
    command.stdin(Stdio::null());
    command
}

impl Program {
    /// Starts it. Its stdout is what the command says; its stderr is kept.
    pub(super) fn start(name: &'static str, mut command: Command) -> Result<Self, DeskError> {
        command.stderr(Stdio::piped()).process_group(0);
        let failed = |error: io::Error| DeskError::Start { program: name, why: error.to_string() };
        // Before it runs, so that its end is not missed.
        let some_ended = unix::signal(SignalKind::child()).map_err(failed)?;
        let mut child = command.spawn().map_err(failed)?;
        let heard = child.stderr.take().map(listen).transpose().map_err(failed)?;
        Ok(Self { name, child, some_ended, heard, leaves: false })
    }

    /// Returns when it has ended.
    pub(super) async fn ended(&mut self) {
        let Some(pid) = self.pid() else { return };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that there is no process to wait for.
        while let Ok(None) = waitid(WaitId::Pid(pid), look) {
            self.some_ended.recv().await;
        }
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// How it ended and what it said last.
    pub(super) fn obituary(&mut self) -> String {
        let how = match self.child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "it runs".to_owned(),
            Err(error) => error.to_string(),
        };
        let words = self.last_words();
        let words = words.trim();
        let name = self.name;
        if words.is_empty() { format!("{name}: {how}") } else { format!("{name}: {how}: {words}") }
    }

    /// What it writes to its stdout.
    pub(super) fn take_stdout(&mut self) -> Option<OwnedFd> {
        self.child.stdout.take().map(OwnedFd::from)
    }

    /// Its status, if it has ended.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to end, and kills it if it does not.
    pub(super) async fn end(mut self) {
        self.signal(Signal::TERM);
        timeout(GRACE, self.ended()).await.ok();
        // What is left of its group goes with the value.
    }

    /// What it said last on its stderr, up to now.
    pub(super) fn last_words(&self) -> String {
        let Some(heard) = &self.heard else { return String::new() };
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.catch_up();
        String::from_utf8_lossy(heard.words.make_contiguous()).into_owned()
    }

    /// Lets go of it, once it has ended, without ending what it started.
    pub(super) fn leave(mut self) {
        self.leaves = self.status().is_some();
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.pid() {
            // A group that is gone needs no signal.
            kill_process_group(group, signal).ok();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // What it left in its group keeps the number taken; if nothing is left, the
        // signal goes nowhere.
        if !self.leaves {
            self.signal(Signal::KILL);
        }
        self.child.wait().ok();
    }
}

/// Reads what a program says until it says no more, and keeps the end of it. The
/// thread has no owner who waits for it: a descendant of the program may hold the
/// pipe open for as long as it likes.
fn listen(stderr: ChildStderr) -> io::Result<Arc<Mutex<Heard>>> {
    rustix::io::ioctl_fionbio(&stderr, true)?;
    let ear = stderr.as_fd().try_clone_to_owned()?;
    let heard = Arc::new(Mutex::new(Heard { stderr, words: VecDeque::new() }));
    let ours = Arc::clone(&heard);
    std::thread::spawn(move || {
        loop {
            let more = poll(&mut [PollFd::new(&ear, PollFlags::IN)], None);
            let mut heard = ours.lock().unwrap_or_else(PoisonError::into_inner);
            if more.is_err_and(|error| error != Errno::INTR) || !heard.catch_up() {
                return;
            }
        }
    });
    Ok(heard)
}

/// What a program said, and where it says more.
struct Heard {
    stderr: ChildStderr,
    words: VecDeque<u8>,
}

impl Heard {
    /// Reads what there is; whether there may be more one day.
    fn catch_up(&mut self) -> bool {
        let mut piece = [0; 1024];
        loop {
            match self.stderr.read(&mut piece) {
                Ok(0) => return false,
                Ok(length) => {
                    self.words.extend(piece.iter().take(length));
                    let excess = self.words.len().saturating_sub(LAST_WORDS);
                    self.words.drain(..excess);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }
}
