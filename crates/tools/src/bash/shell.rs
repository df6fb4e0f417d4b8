//! The shell that a command is run by: a process of its own for each call, which
//! takes up the directory, the exported variables and the functions that the call
//! before it left, and leaves its own.
//!
//! A script that ends its shell (`exit`, `set -e`, a time-out) leaves the state as
//! it was before. Of commands that run side by side in one conversation the first
//! leaves its state. Each conversation has its own.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cofferdam_sandbox::{Command, HOME, Sandbox};
use cofferdam_types::ThreadId;

use crate::tools::Call;
use crate::trouble::Trouble;

/// What runs a script in `bash`, and in a plain shell where there is no `bash`.
const BASH: &str = include_str!("restore.bash");
const SH: &str = include_str!("restore.sh");

/// Bytes of a script in one argument; the kernel takes 128 KiB.
const PIECE: usize = 96 << 10;

/// The longest script: the kernel takes about 2 MiB of arguments in all.
const LONGEST: usize = 1 << 20;

/// What becomes of the state that a command leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// The next call takes it up.
    State,
    /// It is forgotten.
    Nothing,
}

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `bash`.
    Bash,
    /// `/bin/sh`, whatever that is.
    Plain,
}

/// What is known of a sandbox's shells.
#[derive(Default)]
pub(crate) struct Shell {
    /// There is no `bash` in the sandbox.
    plain: AtomicBool,
    /// The conversations in which a command runs that will leave its state.
    busy: Mutex<HashSet<ThreadId>>,
}

/// The right to leave a conversation's state; given back when dropped.
pub(crate) struct Turn<'a> {
    shell: &'a Shell,
    thread: ThreadId,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut busy = self.shell.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.remove(&self.thread);
    }
}

impl Shell {
    /// The turn to leave a state, unless another command has it.
    pub(crate) fn turn(&self, thread: ThreadId) -> Option<Turn<'_>> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        // Lazily: a turn that is dropped is given back.
        busy.insert(thread).then(|| Turn { shell: self, thread })
    }

    /// The shell to be tried.
    pub(crate) fn kind(&self) -> Kind {
        if self.plain.load(Ordering::Relaxed) { Kind::Plain } else { Kind::Bash }
    }

    /// Takes note that a shell is not there; says whether another may be.
    pub(crate) fn is_missing(&self, kind: Kind) -> bool {
        self.plain.store(true, Ordering::Relaxed);
        kind == Kind::Bash
    }
}

impl Kind {
    /// The command that runs a script.
    pub(crate) fn command(
        self,
        sandbox: &Sandbox,
        call: &Call<'_>,
        script: &str,
        leaves: Leaves,
    ) -> Command {
        let shell: &[&str] = match self {
            Self::Plain => &["/bin/sh", "-c", SH, "sh"],
            Self::Bash => &["bash", "--noprofile", "--norc", "-c", BASH, "bash"],
        };
        let names = sandbox.argv([""]).exec.env;
        let names: Vec<_> = names.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        let state = format!("{HOME}/.cofferdam-shell-{}", call.thread);
        let (number, names) = (call.call.to_string(), names.join(" "));
        let save = if leaves == Leaves::State { "save" } else { "leave" };
        let given = [state.as_str(), &number, save, &names];
        let words = shell.iter().copied().chain(given).map(str::as_bytes);
        sandbox.argv(words.chain(script.as_bytes().chunks(PIECE)))
    }
}

/// Refuses what no shell could be given.
pub(crate) fn check(script: &str) -> Result<(), Trouble> {
    if script.trim().is_empty() {
        return Err(Trouble::refused("bash: `command` is empty"));
    }
    if script.contains('\0') {
        return Err(Trouble::refused("bash: `command` holds a NUL byte, which no shell can take"));
    }
    if script.len() > LONGEST {
        return Err(Trouble::Refused(format!(
            "bash: `command` has {} bytes; at most {LONGEST} will do. \
             Write it to a file with write_file and run that",
            script.len()
        )));
    }
    Ok(())
}
