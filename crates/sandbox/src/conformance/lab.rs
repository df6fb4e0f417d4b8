//! Where cases are tried: sandboxes and host directories that are gone
//! afterwards, and short ways to ask for what most cases ask for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cofferdam_types::{Outcome, SandboxId};

use crate::backend::{Backend, RoomError, Spec, Workspace};
use crate::command::Command;
use crate::error::{CallError, FilesError, SandboxError};
use crate::process::{OutputChunk, Process};
use crate::result::ExecResult;
use crate::sandbox::Sandbox;

/// How long a command of a case may run, unless the case says otherwise.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a condition may take to come true.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// Between two looks at a condition.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long closing a sandbox may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The promise is broken.
    #[error("{0}")]
    Broken(String),
    /// The promise cannot be tried, or is not made, here.
    #[error("not applicable: {0}")]
    NotApplicable(String),
}

impl Failure {
    pub(super) fn broken(reason: impl Into<String>) -> Self {
        Self::Broken(reason.into())
    }
}

/// The error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

macro_rules! broken_by {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Broken(chain(&error))
            }
        })*
    };
}
broken_by!(CallError, FilesError, SandboxError, RoomError, std::io::Error);

/// Ends the case unless this is so.
macro_rules! check {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Failure::Broken(format!($($message)+)));
        }
    };
}
pub(super) use check;

/// What a case works with.
pub struct Lab<'a> {
    pub(super) backend: &'a dyn Backend,
    sandboxes: Mutex<Vec<Arc<Sandbox>>>,
    directories: Mutex<Vec<PathBuf>>,
}

impl<'a> Lab<'a> {
    pub(super) fn new(backend: &'a dyn Backend) -> Self {
        Self { backend, sandboxes: Mutex::default(), directories: Mutex::default() }
    }

    fn sandboxes(&self) -> MutexGuard<'_, Vec<Arc<Sandbox>>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a sandbox that is closed at the end of the case.
    pub(super) async fn open(&self, spec: Spec) -> Result<Arc<Sandbox>, Failure> {
        let sandbox = Arc::new(Sandbox::open(self.backend, spec).await?);
        self.sandboxes().push(Arc::clone(&sandbox));
        Ok(sandbox)
    }

    /// An empty one with nothing special.
    pub(super) async fn scratch(&self) -> Result<Arc<Sandbox>, Failure> {
        self.open(Spec::scratch()).await
    }

    /// One over a directory of the host.
    pub(super) async fn over(&self, directory: &Path) -> Result<Arc<Sandbox>, Failure> {
        let workspace = Workspace::Directory(directory.to_owned());
        self.open(Spec { workspace, ..Spec::scratch() }).await
    }

    /// Takes up a sandbox again; it is closed at the end of the case.
    pub(super) async fn reattach(&self, id: SandboxId) -> Result<Arc<Sandbox>, Failure> {
        let limits = Spec::scratch().limits;
        let sandbox = Arc::new(Sandbox::reattach(self.backend, id, limits).await?);
        self.sandboxes().push(Arc::clone(&sandbox));
        Ok(sandbox)
    }

    /// Takes a sandbox out of the lab's hands.
    pub(super) fn release(&self, sandbox: Arc<Sandbox>) -> Result<Sandbox, Failure> {
        self.sandboxes().retain(|other| !Arc::ptr_eq(other, &sandbox));
        Arc::into_inner(sandbox).ok_or_else(|| Failure::broken("the sandbox is still in use"))
    }

    /// Closes a sandbox before the end of the case.
    pub(super) async fn close(&self, sandbox: Arc<Sandbox>) -> Result<(), Failure> {
        close(self.release(sandbox)?).await
    }

    /// A new directory of the host, removed at the end of the case.
    pub(super) fn directory(&self) -> Result<PathBuf, Failure> {
        let name = format!("cofferdam-conformance-{}", SandboxId::generate());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        self.directories.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Ok(path)
    }

    /// Closes what is still open and removes what was made.
    pub(super) async fn close_all(&self) -> Result<(), Failure> {
        let mut outcome = Ok(());
        let sandboxes = std::mem::take(&mut *self.sandboxes());
        for sandbox in sandboxes {
            outcome = outcome.and(match Arc::into_inner(sandbox) {
                Some(sandbox) => close(sandbox).await,
                None => Err(Failure::broken("a sandbox is still in use after the case")),
            });
        }
        let directories =
            std::mem::take(&mut *self.directories.lock().unwrap_or_else(PoisonError::into_inner));
        for directory in directories {
            outcome = outcome.and(fs::remove_dir_all(directory).map_err(Failure::from));
        }
        outcome
    }
}

async fn close(sandbox: Sandbox) -> Result<(), Failure> {
    match tokio::time::timeout(CLOSE_TIMEOUT, sandbox.close()).await {
        Ok(closed) => Ok(closed?),
        Err(_) => Err(Failure::broken(format!("not closed within {CLOSE_TIMEOUT:?}"))),
    }
}

/// Runs a command that is bounded in time.
pub(super) async fn run(sandbox: &Sandbox, command: Command) -> Result<ExecResult, Failure> {
    let command = match command.exec.timeout_ms {
        Some(_) => command,
        None => command.timeout(Some(COMMAND_TIMEOUT)),
    };
    Ok(sandbox.run(sandbox.next_call_id(), command).await?)
}

/// Runs a script.
pub(super) async fn sh(sandbox: &Sandbox, script: &str) -> Result<ExecResult, Failure> {
    run(sandbox, sandbox.shell(script)).await
}

/// Runs a script that must succeed, for what it prints.
pub(super) async fn text(sandbox: &Sandbox, script: &str) -> Result<String, Failure> {
    let result = sh(sandbox, script).await?;
    let stdout = String::from_utf8_lossy(&result.stdout).trim_end().to_owned();
    let stderr = String::from_utf8_lossy(&result.stderr);
    check!(
        result.outcome.success(),
        "`{script}` ended as {:?}, with {stdout:?} and {stderr:?}",
        result.outcome
    );
    Ok(stdout)
}

/// Runs a script that must fail by itself: not by time, not by loss.
pub(super) async fn fails(sandbox: &Sandbox, script: &str) -> Result<(), Failure> {
    let result = sh(sandbox, script).await?;
    let failed = matches!(result.outcome, Outcome::Exited { exit_code } if exit_code != 0);
    check!(failed, "`{script}` was to fail, but ended as {:?}", result.outcome);
    Ok(())
}

/// Starts a script in the background of the case.
pub(super) async fn start(sandbox: &Sandbox, script: &str) -> Result<Process, Failure> {
    let command = sandbox.shell(script).timeout(Some(2 * COMMAND_TIMEOUT));
    Ok(sandbox.start(sandbox.next_call_id(), command).await?)
}

/// Takes output until stdout contains this text, and gives all of it.
pub(super) async fn read_until(process: &mut Process, wanted: &str) -> Result<String, Failure> {
    let mut stdout = Vec::new();
    let read = async {
        while let Some(chunk) = process.next_output().await {
            if let OutputChunk::Stdout(bytes) = chunk {
                stdout.extend_from_slice(&bytes);
                if String::from_utf8_lossy(&stdout).contains(wanted) {
                    return true;
                }
            }
        }
        false
    };
    let found = tokio::time::timeout(DEADLINE, read).await.unwrap_or(false);
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    check!(found, "{wanted:?} was not printed; this was: {stdout:?}");
    Ok(stdout)
}

/// Waits until a script succeeds; also until it can be started at all.
pub(super) async fn until(sandbox: &Sandbox, script: &str) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        let command = sandbox.shell(script).timeout(Some(COMMAND_TIMEOUT));
        match sandbox.run(sandbox.next_call_id(), command).await {
            Ok(result) if result.outcome.success() => return Ok(()),
            Ok(_) | Err(CallError::NotStarted { .. } | CallError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Err(Failure::broken(format!("`{script}` did not come true within {DEADLINE:?}")))
}

/// A number that appears in no other command line of the machine.
pub(super) fn unique_number() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    1_000_000_000 + RandomState::new().build_hasher().finish() % 1_000_000_000
}
