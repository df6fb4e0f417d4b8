//! The state directory: what the aide's processes leave for one another about each
//! kernel.
//!
//! Of the kernel NAME there are, beside each other:
//!
//! | file | who holds or writes it |
//! | --- | --- |
//! | `NAME.lock` | locked by the keeper as long as it lives |
//! | `NAME.json` | the connection file, for the kernel and for Jupyter's programs |
//! | `NAME.ready` | the keeper, once the kernel answers; gone when the kernel is |
//! | `NAME.end` | the keeper: how the last kernel of this name ended |
//! | `NAME.cell` | locked by the cell that runs |
//! | `NAME.running` | a cell; one that is left behind means that it was cut off |
//! | `NAME.used` | touched by every cell |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jupyter_protocol::ConnectionInfo;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use serde::{Deserialize, Serialize};

/// What names the state directory, and where it is below the home otherwise.
const VARIABLE: &str = "COFFERDAM_AIDE_STATE";
const BELOW_HOME: &str = ".cofferdam/aide";

/// No file here is longer.
const MAX_FILE: u64 = 64 << 10;

/// No name of a kernel is longer.
const MAX_NAME: usize = 64;

/// The files of one kernel.
#[derive(Clone, Debug)]
pub(super) struct State {
    directory: PathBuf,
    name: String,
}

/// What a cell needs to know of a kernel that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) connection: ConnectionInfo,
    pub(super) dialect: Dialect,
    pub(super) interrupt: Interrupt,
    /// The process that started the kernel, and the kernel's own.
    pub(super) keeper: i32,
    pub(super) kernel: i32,
}

/// Which kernels need something of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Dialect {
    /// ipykernel.
    Python,
    /// Deno's.
    Deno,
    /// Any other, of which nothing is known but Jupyter's protocol.
    Other,
}

/// How a kernel is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Interrupt {
    /// By a message on its control channel.
    Message,
    /// By SIGINT.
    Signal,
}

impl State {
    /// The files of the kernel of this name.
    pub(super) fn of(name: &str) -> Result<Self, String> {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(letter) {
            return Err(format!(
                "{name:?} is no name for a kernel: up to {MAX_NAME} letters, digits, - and _"
            ));
        }
        let directory = match std::env::var_os(VARIABLE) {
            Some(directory) => PathBuf::from(directory),
            None => match std::env::var_os("HOME") {
                Some(home) => PathBuf::from(home).join(BELOW_HOME),
                None => return Err(format!("neither {VARIABLE} nor HOME is set")),
            },
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        Ok(Self { directory, name: name.to_owned() })
    }

    /// The name of the kernel.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The connection file.
    pub(super) fn connection(&self) -> PathBuf {
        self.file("json")
    }

    /// Writes the connection file.
    pub(super) fn write_connection(&self, connection: &ConnectionInfo) -> io::Result<()> {
        self.replace("json", &serde_json::to_vec(connection)?)
    }

    /// What the keeper wrote, if the kernel is ready and its keeper lives.
    pub(super) fn ready(&self) -> Option<Ready> {
        let ready: Ready = serde_json::from_slice(&self.read("ready")?).ok()?;
        alive(ready.keeper).then_some(ready)
    }

    /// Says that the kernel is ready.
    pub(super) fn write_ready(&self, ready: &Ready) -> io::Result<()> {
        self.replace("ready", &serde_json::to_vec(ready)?)
    }

    /// How the last kernel of this name ended, in words.
    pub(super) fn end(&self) -> Option<String> {
        String::from_utf8(self.read("end")?).ok()
    }

    /// Takes away what tells of a kernel, and says how it ended.
    pub(super) fn write_end(&self, how: &str) -> io::Result<()> {
        let written = self.replace("end", how.as_bytes());
        for kind in ["ready", "json", "used", "running"] {
            remove(&self.file(kind));
        }
        written
    }

    /// Says better why the kernel ended, unless there is a new one.
    pub(super) fn explain_end(&self, how: &str) -> io::Result<()> {
        if self.ready().is_some() { Ok(()) } else { self.replace("end", how.as_bytes()) }
    }

    /// Ends what a keeper that was killed left behind.
    pub(super) fn clear_leftovers(&self) {
        let left = self.read("ready").and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(Ready { kernel, .. }) = left
            && self.is_ours(kernel)
        {
            kill_group(kernel);
        }
        for kind in ["ready", "json", "used", "running", "end"] {
            remove(&self.file(kind));
        }
    }

    /// Locks `NAME.lock`; `None` if another keeper has it.
    pub(super) fn try_lock_keeper(&self) -> io::Result<Option<File>> {
        self.try_lock("lock")
    }

    /// Locks `NAME.cell`; `None` if another cell has it.
    pub(super) fn try_lock_cell(&self) -> io::Result<Option<File>> {
        self.try_lock("cell")
    }

    /// Whether a cell was cut off: its code may still run.
    pub(super) fn is_cut_off(&self) -> bool {
        self.file("running").exists()
    }

    /// Notes that a cell's code begins.
    pub(super) fn begin_cell(&self) -> io::Result<()> {
        self.touch_used()?;
        self.replace("running", b"")
    }

    /// Notes that a cell's code has ended and all that it gave was taken.
    pub(super) fn end_cell(&self) -> io::Result<()> {
        remove(&self.file("running"));
        self.touch_used()
    }

    /// When a cell last began or ended, as a value to compare.
    pub(super) fn last_use(&self) -> Option<std::time::SystemTime> {
        fs::metadata(self.file("used")).and_then(|data| data.modified()).ok()
    }

    fn touch_used(&self) -> io::Result<()> {
        self.replace("used", b"")
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.directory.join(format!("{}.{kind}", self.name))
    }

    fn read(&self, kind: &str) -> Option<Vec<u8>> {
        let path = self.file(kind);
        let length = fs::metadata(&path).ok()?.len();
        if length > MAX_FILE { None } else { fs::read(path).ok() }
    }

    /// Writes a file that nobody ever sees half.
    fn replace(&self, kind: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.file(&format!("{kind}.{}.new", std::process::id()));
        let written = || {
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            fs::rename(&new, self.file(kind))
        };
        // A part of it would take room where there is none.
        written().inspect_err(|_| remove(&new))
    }

    fn try_lock(&self, kind: &str) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(false).mode(0o600).open(self.file(kind))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a process is a kernel that was started with our connection file: its
    /// number may have passed to another.
    fn is_ours(&self, pid: i32) -> bool {
        let wanted = self.connection();
        let wanted = wanted.as_os_str().as_encoded_bytes();
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|argument| argument == wanted)
    }
}

/// Whether a process is there.
pub(super) fn alive(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return false };
    matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM))
}

/// Ends a process and those it started, at once.
pub(super) fn kill_group(pid: i32) {
    signal_group(pid, Signal::KILL);
}

/// Sends a signal to a process and those it started.
pub(super) fn signal_group(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|pid| pid.as_raw_nonzero().get() > 1) {
        // It may be gone already, which is what a signal to it would have to achieve.
        kill_process_group(pid, signal).ok();
    }
}

fn remove(path: &Path) {
    // What is not there needs no removing, and of what cannot be removed the next
    // write says why.
    fs::remove_file(path).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["", ".", "..", "a/b", "a b", "ä", &"x".repeat(MAX_NAME + 1)] {
            assert!(State::of(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_process_that_is_gone_is_not_alive() {
        assert!(alive(i32::try_from(std::process::id()).unwrap()));
        assert!(!alive(0));
        assert!(!alive(i32::MAX));
    }
}
