//! Cleaning up after sandboxes whose supervisor was killed.
//!
//! A supervisor holds the lock of its sandbox's directory. Whoever gets the lock
//! knows that it is dead; the kernel has then killed the sandbox's processes
//! with it. What is left are control groups, files, and changes that belong into
//! the workspace's directory: nothing of those is lost. They are applied while
//! nobody else works on that directory, and before anybody does again.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use cofferdam_native_supervisor::cgroup;
use cofferdam_native_supervisor::claim::Claim;
use cofferdam_native_supervisor::failure::Failure;
use cofferdam_native_supervisor::{places, remains, store};
use cofferdam_sandbox::{Reconciled, RoomError};
use cofferdam_types::SandboxId;

use crate::control::failed;

/// How long a dead sandbox's control group may take to let itself be removed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Finds the dead among the sandboxes of `home` and removes them.
pub(crate) fn reconcile(home: &Path) -> Result<Reconciled, RoomError> {
    let mut found = Reconciled::default();
    let mut failure = None;
    let entries = match fs::read_dir(home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        other => other.map_err(|source| RoomError::Step {
            step: format!("read {}", home.display()),
            source,
        })?,
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Ok(id) = name.parse::<SandboxId>() {
            // One that cannot be removed does not keep the others.
            failure = visit(&path, id, &mut found).err().or(failure);
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => Ok(found),
    }
}

fn visit(path: &Path, id: SandboxId, found: &mut Reconciled) -> Result<(), RoomError> {
    let lock = match remains::take_lock(path) {
        Ok(lock) => lock,
        // Removed while it was being looked at.
        Err(failure) if is_missing(&failure) => return Ok(()),
        Err(failure) => return Err(failed(&failure)),
    };
    if lock.is_none() {
        if path.join(remains::CONTROL).exists() {
            found.alive.push(id);
        }
        return Ok(());
    }
    let had_groups = remove_groups(id);
    // One that keeps nothing on disk leaves it empty; so does a maker who died early or
    // makes it just now, and then there is nothing to tell.
    if fs::remove_dir(path).is_err() {
        clear(path, id, None).map_err(|failure| failed(&failure))?;
    } else if !had_groups {
        return Ok(());
    }
    found.removed.push(id);
    Ok(())
}

/// Removes a dead sandbox's control groups; whether there were any.
fn remove_groups(id: SandboxId) -> bool {
    let groups = places::remains_of(&id.to_string());
    groups.iter().for_each(|group| cgroup::remove_directory(group, PATIENCE));
    !groups.is_empty()
}

/// Applies what a dead sandbox left for its workspace's directory, and removes
/// the rest. Its lock is held; the directory is claimed, or claimed here.
pub(crate) fn clear(path: &Path, id: SandboxId, claim: Option<&Claim>) -> Result<(), Failure> {
    remove_groups(id);
    if let Some(plan) = remains::kept_plan(path)?
        && let Some(store) = store::reopen(path)?
    {
        remains::apply_changes(&plan, store.as_fd(), claim)?;
    }
    remains::remove_state(path)
}

fn is_missing(failure: &Failure) -> bool {
    failure.errno == rustix::io::Errno::NOENT.raw_os_error()
}
