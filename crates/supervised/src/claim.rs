//! Getting a workspace's directory for a new sandbox, which then is the only one
//! that may change it.
//!
//! Another sandbox that works on the directory is waited for; one whose owner was
//! killed is just applying its changes. What a dead one has left is applied
//! before anything new begins: work on an older state would be lost when the
//! rest is applied later, or the rest would.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cofferdam_native_supervisor::claim::Claim;
use cofferdam_native_supervisor::failure::Failure;
use cofferdam_native_supervisor::wire::WorkspacePlan;
use cofferdam_native_supervisor::{doubt, remains};
use cofferdam_sandbox::OpenError;
use cofferdam_types::SandboxId;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::{explain, reconcile};

/// How soon a directory is tried again at first, and at most how late.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// A sandbox of this home that belongs to a directory.
#[derive(Clone)]
struct Tenant {
    id: SandboxId,
    state: PathBuf,
}

/// The sandboxes of a home, each with the directory that it works or worked on.
#[derive(Debug)]
pub(crate) struct Tenancies {
    home: PathBuf,
    /// What was read of their plans, which never change.
    read: Mutex<HashMap<SandboxId, PathBuf>>,
}

/// Claims a directory, given by its real path, for a sandbox of this home.
pub(crate) async fn claim(
    tenancies: &Tenancies,
    directory: &Path,
    patience: Duration,
) -> Result<Claim, OpenError> {
    let deadline = Instant::now() + patience;
    let mut pause = PAUSES.0;
    loop {
        let taken = Claim::take(directory).map_err(|failure| explain::step(&failure))?;
        if let Some(claim) = taken
            && let Some(claim) = settle(tenancies, directory, claim).await?
        {
            return Ok(claim);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(occupied(tenancies, directory, patience));
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Applies what dead sandboxes left for a claimed directory; `None` while
/// somebody else is at it.
async fn settle(
    tenancies: &Tenancies,
    directory: &Path,
    claim: Claim,
) -> Result<Option<Claim>, OpenError> {
    let tenants = tenancies.of(directory, Some(&claim));
    if tenants.is_empty() {
        return Ok(Some(claim));
    }
    // There may be much to apply; and whoever stops waiting does not stop that.
    let work = spawn_blocking(move || {
        for Tenant { id, state } in tenants {
            match clear(&state, id, &claim) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(failure) => return Err((state, failure)),
            }
        }
        Ok(Some(claim))
    });
    let done = work.await.map_err(|error| OpenError::Step {
        step: "apply what an earlier sandbox left".to_owned(),
        source: std::io::Error::other(error),
    })?;
    done.map_err(|(state, failure)| unapplied(directory, &state, &failure))
}

/// Whether a dead sandbox is cleared away; not when somebody else does that just
/// now, or its supervisor or its last process is still ending.
fn clear(state: &Path, id: SandboxId, claim: &Claim) -> Result<bool, Failure> {
    match remains::take_lock(state) {
        Ok(Some(_lock)) => reconcile::clear(state, id, Some(claim)),
        Ok(None) => Ok(false),
        // Removed while it was being looked at.
        Err(failure) if failure.errno == rustix::io::Errno::NOENT.raw_os_error() => Ok(true),
        Err(failure) => Err(failure),
    }
}

impl Tenancies {
    pub(crate) fn new(home: PathBuf) -> Self {
        Self { home, read: Mutex::default() }
    }

    /// The sandboxes that work or worked on a directory.
    fn of(&self, directory: &Path, claim: Option<&Claim>) -> Vec<Tenant> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *read);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.home).into_iter().flatten().flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let state = entry.path();
            let Some(path) = before.remove(&id).or_else(|| directory_of(&state)) else { continue };
            if path == directory || claim.is_some_and(|claim| claim.is_at(&path)) {
                found.push(Tenant { id, state });
            }
            read.insert(id, path);
        }
        found
    }
}

/// What the sandbox with this state works or worked on. A plan that another release
/// wrote cannot be told from any other; the cleaning up at each start says that it
/// is there.
fn directory_of(state: &Path) -> Option<PathBuf> {
    match remains::kept_plan(state).ok()??.workspace {
        WorkspacePlan::Directory(path, _) => Some(path),
        _ => None,
    }
}

fn occupied(tenancies: &Tenancies, directory: &Path, patience: Duration) -> OpenError {
    let who = match tenancies.of(directory, None).first() {
        Some(tenant) => format!("another sandbox ({})", tenant.id),
        None => "another sandbox".to_owned(),
    };
    let (directory, waited) = (directory.display(), patience.as_secs());
    OpenError::Occupied {
        cause: format!("{who} works on {directory}, still after {waited} s of waiting"),
        remedy: "let it end, or end it, and try again; or use a copy of the directory".to_owned(),
    }
}

fn unapplied(directory: &Path, state: &Path, failure: &Failure) -> OpenError {
    let directory = directory.display();
    OpenError::Occupied {
        cause: format!(
            "changes that an earlier sandbox made to {directory} are not applied yet: {failure}"
        ),
        remedy: match doubt::of(state) {
            Some(_) => doubt::remedy(state),
            None => format!(
                "make room, mend the permissions or unmount what is in the way, and try again; or, \
                 to give those changes up, delete {}",
                state.display()
            ),
        },
    }
}
