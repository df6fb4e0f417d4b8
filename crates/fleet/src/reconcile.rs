//! What an earlier life of this server left: taken up by the jobs it belongs to, or
//! removed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_sandbox::{Backend, Sandbox};
use cofferdam_store::{JobQuery, Line, Status, StoreError};
use cofferdam_types::{Event, JobId, Limits, SandboxId, error_chain};
use tokio::time::timeout;

use crate::fleet::{self, Fleet};

/// Jobs and events read from the store at once.
const PAGE: u32 = 512;

/// How long finding and removing the remains of one back end may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long ending one sandbox may take; no job is taken up meanwhile.
const ENDING: Duration = Duration::from_secs(10);

/// How often uploads and keys that nobody needs any more are forgotten.
const EXPIRY: Duration = Duration::from_secs(600);

/// Removes what an earlier life left and no job goes on with. `born`: made when this
/// life began, so that what is younger is known to be of this life.
pub(crate) async fn reconcile(fleet: Arc<Fleet>, born: SandboxId) {
    let owners = match owners(&fleet).await {
        Ok(owners) => owners,
        Err(error) => {
            tracing::error!(%error, "what an earlier life left cannot be told from what is in use");
            return;
        }
    };
    for backend in fleet.outfit.backends() {
        let clearing = clear(&fleet, &*backend, &owners, born);
        if timeout(PATIENCE, clearing).await.is_err() {
            tracing::error!(backend = backend.name(), "removing remains took too long");
        }
    }
    match fleet.blobs.sweep().await {
        Ok(0) => {}
        Ok(swept) => tracing::info!(swept, "removed what was half written"),
        Err(error) => tracing::warn!(%error, "what was half written is left"),
    }
    sweep_files(&fleet).await;
}

/// A job that a sandbox belongs to.
struct Owner {
    job: JobId,
    /// Whether it rests: it goes on without the sandbox, when it does.
    rests: bool,
}

/// The sandboxes of this server's jobs that are not over.
async fn owners(fleet: &Fleet) -> Result<HashMap<SandboxId, Owner>, StoreError> {
    let mut owners = HashMap::new();
    let mut before = None;
    loop {
        // One that was told to go on and has not yet begun to is pending.
        let statuses = vec![Status::Pending, Status::Running];
        let query = JobQuery { user: None, statuses, before, limit: PAGE };
        let jobs = fleet.store.jobs(query).await?;
        let Some(last) = jobs.last() else { return Ok(owners) };
        before = Some(last.id);
        for row in jobs.into_iter().filter(|row| row.node == Some(fleet.node())) {
            let sandbox = last_sandbox(fleet, row.id).await?;
            let owner = Owner { job: row.id, rests: row.paused };
            owners.extend(sandbox.map(|sandbox| (sandbox, owner)));
        }
    }
}

async fn last_sandbox(fleet: &Fleet, job: JobId) -> Result<Option<SandboxId>, StoreError> {
    let (mut found, mut after) = (None, 0);
    loop {
        let page = fleet.store.events(job, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.seq;
        let records = page.iter().filter_map(|line| Line::record(line).ok());
        for record in records {
            if let Event::SandboxOpened { sandbox, .. } = record.event {
                found = Some(sandbox);
            }
        }
    }
}

async fn clear(
    fleet: &Fleet,
    backend: &dyn Backend,
    owners: &HashMap<SandboxId, Owner>,
    born: SandboxId,
) {
    let found = match backend.reconcile().await {
        Ok(found) => found,
        Err(error) => {
            let error = error_chain(&error);
            tracing::error!(backend = backend.name(), error, "remains cannot be removed");
            return;
        }
    };
    for error in &found.left {
        tracing::error!(backend = backend.name(), error, "remains cannot be removed");
    }
    if !found.removed.is_empty() {
        tracing::info!(backend = backend.name(), count = found.removed.len(), "removed remains");
    }
    for id in found.alive {
        let owner = owners.get(&id);
        if id > born || owner.is_some_and(|owner| !owner.rests) {
            continue;
        }
        // No job is taken up meanwhile; one that was may have its sandbox back.
        let _nobody = fleet.taking_up.write().await;
        if owner.is_some_and(|owner| fleet.running.has(owner.job)) {
            continue;
        }
        let ended = async {
            let sandbox = Sandbox::reattach(backend, id, Limits::default()).await?;
            Ok::<_, cofferdam_sandbox::SandboxError>(sandbox.close().await?)
        };
        match timeout(ENDING, ended).await {
            Ok(Ok(())) => tracing::info!(sandbox = %id, "ended a sandbox that no job goes on with"),
            Ok(Err(error)) => {
                tracing::warn!(sandbox = %id, error = error_chain(&error), "a sandbox is left");
            }
            Err(_) => tracing::warn!(sandbox = %id, "a sandbox does not end; it is left"),
        }
    }
}

/// Removes what was put aside and not removed before the earlier life ended. Files that
/// nobody has put aside may be somebody else's.
async fn sweep_files(fleet: &Arc<Fleet>) {
    for aside in fleet.data.aside().unwrap_or_default() {
        fleet::remove(aside).await;
    }
}

/// Forgets uploads and keys that nobody needs any more, again and again.
pub(crate) async fn expire(fleet: Arc<Fleet>) {
    loop {
        tokio::select! {
            () = fleet.stopping.cancelled() => return,
            () = tokio::time::sleep(EXPIRY) => {}
        }
        match fleet.store.expire(fleet.bounds.uploads).await {
            Ok(uploads) => {
                for upload in uploads {
                    fleet.blobs.remove(&upload.blob.key).await.ok();
                }
            }
            Err(error) => tracing::warn!(%error, "nothing could be forgotten"),
        }
    }
}
