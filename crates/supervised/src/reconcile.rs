//! Cleaning up after sandboxes whose supervisor was killed.
//!
//! A supervisor holds the lock of its sandbox's directory. Whoever gets the lock
//! knows that it is dead; the kernel has then killed the sandbox's processes
//! with it. Those that an engine started end a little later: it is told to end them
//! where they may still write. What is left are control groups, files, and changes that belong into
//! the workspace's directory: nothing of those is lost. They are applied while
//! nobody else works on that directory, and before anybody does again.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_native_supervisor::cgroup;
use cofferdam_native_supervisor::claim::Claim;
use cofferdam_native_supervisor::failure::Failure;
use cofferdam_native_supervisor::wire::FirstPlan;
use cofferdam_native_supervisor::{doubt, hire, places, remains, store};
use cofferdam_sandbox::{Reconciled, RoomError};
use cofferdam_types::SandboxId;

/// How long a dead sandbox's control groups may take to let themselves be removed, and the last
/// that has its changes to let go of them.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long either is waited for before it is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// The sandboxes of `home` if none of them is dead: a quick look.
pub(crate) fn all_alive(home: &Path) -> Option<Reconciled> {
    let mut found = Reconciled::default();
    for (path, id) in sandboxes(home).ok()? {
        if remains::take_lock(&path).ok()?.is_some() {
            return None;
        }
        note_alive(&path, id, &mut found);
    }
    Some(found)
}

/// Finds the dead among the sandboxes of `home` and removes them. One that cannot be
/// removed does not keep the others.
pub(crate) fn reconcile(home: &Path) -> Result<Reconciled, RoomError> {
    let mut found = Reconciled::default();
    for (path, id) in sandboxes(home)? {
        if let Err(failure) = visit(&path, id, &mut found) {
            let help = doubt::of(&path).map(|_| format!("; {}", doubt::remedy(&path)));
            found.left.push(format!("sandbox {id}: {failure}{}", help.unwrap_or_default()));
        }
    }
    Ok(found)
}

fn sandboxes(home: &Path) -> Result<Vec<(PathBuf, SandboxId)>, RoomError> {
    let entries = match fs::read_dir(home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|source| RoomError::Step {
            step: format!("read {}", home.display()),
            source,
        })?,
    };
    let named = entries.flatten().filter_map(|entry| {
        let id = entry.file_name().to_string_lossy().parse().ok()?;
        Some((entry.path(), id))
    });
    Ok(named.collect())
}

/// Its lock is held by somebody.
fn note_alive(path: &Path, id: SandboxId, found: &mut Reconciled) {
    if path.join(remains::CONTROL).exists() {
        found.alive.push(id);
    }
}

fn visit(path: &Path, id: SandboxId, found: &mut Reconciled) -> Result<(), Failure> {
    let lock = match remains::take_lock(path) {
        Ok(lock) => lock,
        // Removed while it was being looked at.
        Err(failure) if is_missing(&failure) => return Ok(()),
        Err(failure) => return Err(failure),
    };
    if lock.is_none() {
        note_alive(path, id, found);
        return Ok(());
    }
    let groups = places::remains_of(&id.to_string());
    cgroup::remove_all(&groups, PATIENCE);
    // One that keeps nothing on disk leaves it empty; so does a maker who died early or
    // makes it just now, and then there is nothing to tell.
    if fs::remove_dir(path).is_err() {
        clear_patiently(path, id)?;
    } else if groups.is_empty() {
        return Ok(());
    }
    found.removed.push(id);
    Ok(())
}

/// Applies what a dead sandbox left for its workspace's directory, and removes
/// the rest. Its lock is held; the directory is claimed, or claimed here. `false` while
/// something that is about to end still has the changes.
pub(crate) fn clear(path: &Path, id: SandboxId, claim: Option<&Claim>) -> Result<bool, Failure> {
    // Whoever is killed may write until it has ended.
    if !cgroup::remove_all(&places::remains_of(&id.to_string()), PAUSE) {
        return Ok(false);
    }
    let plan = match remains::kept_plan(path) {
        // Whatever it said: there is nothing that it could be needed for.
        Err(_) if !store::is_there(path) => None,
        plan => plan?,
    };
    if let Some(plan) = plan {
        // What an engine started does not end with its supervisor, and is not to write on.
        let hire = match &plan.first {
            FirstPlan::Hired(hire) => Some(hire),
            _ => None,
        };
        if let Some(hire) = hire
            && store::is_plain(path)
            && !hire::remove(hire)
        {
            let (engine, container) = (&hire.engine, &hire.container);
            return Err(Failure::new(format!(
                "{engine} does not remove the container {container}, which may still write"
            )));
        }
        if let Some(doubt) = doubt::of(path) {
            return Err(Failure::new(doubt));
        }
        match store::reopen(path) {
            Err(failure) if store::is_in_use(&failure) => {
                hire.map(hire::remove);
                return Ok(false);
            }
            store => {
                if let Some(store) = store? {
                    remains::apply_changes(&plan, store.as_fd(), claim)?;
                }
            }
        }
    }
    remains::remove_state(path).map(|()| true)
}

/// The same for somebody who has a little time.
fn clear_patiently(path: &Path, id: SandboxId) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while !clear(path, id, None)? {
        if Instant::now() >= deadline {
            return Err(Failure::new("something still has its changes; they are kept"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn is_missing(failure: &Failure) -> bool {
    failure.errno == rustix::io::Errno::NOENT.raw_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_cannot_be_removed_is_told_and_does_not_keep_the_others() {
        let home = tempfile::tempdir().unwrap();
        let [kept, gone, early] = [(); 3].map(|()| SandboxId::generate());
        for (id, file) in [(kept, Some(remains::PLAN)), (gone, Some("remains")), (early, None)] {
            let path = home.path().join(id.to_string());
            fs::create_dir(&path).unwrap();
            file.into_iter().for_each(|file| fs::write(path.join(file), "unreadable").unwrap());
        }
        // Changes that nobody knows what to do with.
        fs::create_dir(home.path().join(kept.to_string()).join("layers")).unwrap();
        assert_eq!(all_alive(home.path()), None);
        let found = reconcile(home.path()).unwrap();
        assert_eq!((found.alive, found.removed), (Vec::new(), vec![gone]));
        let [left] = found.left.as_slice() else { panic!("{:?}", found.left) };
        assert!(left.contains(&kept.to_string()) && left.contains("another release"), "{left}");
        let mut names: Vec<_> =
            fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| name.to_string_lossy().parse::<SandboxId>().is_ok());
        assert_eq!(names, [kept.to_string().as_str()]);
    }

    #[test]
    fn a_plan_that_cannot_be_read_and_has_no_changes_beside_it_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let ids = [&[][..], b"another release's"].map(|plan| {
            let id = SandboxId::generate();
            let path = home.path().join(id.to_string());
            fs::create_dir(&path).unwrap();
            fs::write(path.join(remains::PLAN), plan).unwrap();
            id
        });
        let mut found = reconcile(home.path()).unwrap();
        found.removed.sort();
        let mut ids = ids.to_vec();
        ids.sort();
        assert_eq!((found.removed, found.left), (ids, Vec::new()));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn where_all_are_alive_a_look_is_enough() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(all_alive(&home.path().join("none")), Some(Reconciled::default()));
        let id = SandboxId::generate();
        let path = home.path().join(id.to_string());
        fs::create_dir(&path).unwrap();
        fs::write(path.join(remains::CONTROL), "").unwrap();
        let _lock = remains::take_lock(&path).unwrap().unwrap();
        let alive = Reconciled { alive: vec![id], ..Reconciled::default() };
        assert_eq!(all_alive(home.path()), Some(alive));
    }
}
