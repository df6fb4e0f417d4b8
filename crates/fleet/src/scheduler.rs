//! Who is worked on next: leases as long as there is room, and keeps what is held.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_runtime::fail_point;
use cofferdam_store::{Change, LeaseAsk};
use cofferdam_types::JobId;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::JoinSet;

use crate::fleet::Fleet;
use crate::{job, machine};

/// Jobs leased at once.
const BATCH: u32 = 16;

/// How often the queue is looked at although nobody has said that it changed: the
/// lease of a dead server ends silently.
const LOOK: Duration = Duration::from_secs(2);

/// Leases and drives jobs until the fleet stops, then waits for those that run.
pub(crate) async fn schedule(fleet: Arc<Fleet>) {
    let mut changes = fleet.store.watch();
    let mut jobs = JoinSet::new();
    while !fleet.stopping.is_cancelled() {
        let more = fill(&fleet, &mut jobs).await;
        if more {
            continue;
        }
        tokio::select! {
            () = fleet.stopping.cancelled() => break,
            Some(ended) = jobs.join_next() => tell(ended),
            () = changed(&mut changes) => {}
            () = tokio::time::sleep(LOOK) => {}
        }
        while let Some(ended) = jobs.try_join_next() {
            tell(ended);
        }
    }
    while let Some(ended) = jobs.join_next().await {
        tell(ended);
    }
}

fn tell(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a job's driver broke; the job is taken up again");
    }
}

/// Leases as many jobs as there is room for, and starts them. Whether there may be
/// more at once.
async fn fill(fleet: &Arc<Fleet>, jobs: &mut JoinSet<()>) -> bool {
    let running = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
    let room = fleet.bounds.running.saturating_sub(running).min(BATCH);
    if room == 0 || !machine::has_memory() {
        return false;
    }
    fail_point("queued");
    let ask = LeaseAsk {
        node: fleet.node(),
        span: fleet.bounds.lease,
        most: room,
        per_user: fleet.bounds.running_per_user,
    };
    match fleet.store.lease(ask).await {
        Ok(leases) => {
            let full = leases.len() >= room as usize;
            for lease in leases {
                jobs.spawn(job::work(Arc::clone(fleet), lease));
            }
            full && running + room < fleet.bounds.running
        }
        Err(error) => {
            tracing::warn!(%error, "no jobs can be leased");
            false
        }
    }
}

/// Waits until the queue may have changed.
async fn changed(changes: &mut tokio::sync::broadcast::Receiver<Change>) {
    loop {
        match changes.recv().await {
            Ok(Change::Queue | Change::Everything) | Err(RecvError::Lagged(_)) => break,
            Ok(Change::Events { .. } | Change::Ordered { .. }) => {}
            // The store is gone; the clock will have to do.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
    // One look answers all that was said until now.
    while let Ok(_) | Err(TryRecvError::Lagged(_)) = changes.try_recv() {}
}

/// Renews the leases of the jobs that run here; a job whose lease is another's by
/// now is left.
pub(crate) async fn keep_leases(fleet: Arc<Fleet>) {
    let every = fleet.bounds.lease / 3;
    loop {
        tokio::select! {
            () = fleet.stopping.cancelled() => {
                // The jobs that are being left still need theirs.
                if fleet.running.count() == 0 {
                    return;
                }
                tokio::time::sleep(every.min(Duration::from_millis(200))).await;
            }
            () = tokio::time::sleep(every) => {}
        }
        // Also with nothing held: a server that renews is known to be there, and its jobs'
        // files with it.
        let held = fleet.running.leases();
        match fleet.store.renew(fleet.node(), held, fleet.bounds.lease).await {
            Ok(lost) => {
                for job in lost {
                    lose(&fleet, job).await;
                }
            }
            Err(error) => tracing::warn!(%error, "leases cannot be renewed"),
        }
    }
}

/// Leaves a job whose lease is no longer the one it is worked on under.
async fn lose(fleet: &Fleet, job: JobId) {
    match fleet.store.job(job).await {
        // This server has leased it again itself; whoever got that lease has it left.
        Ok(Some(row)) if row.node == Some(fleet.node()) => {}
        Ok(_) => {
            tracing::warn!(%job, "the job was taken over by another server");
            fleet.running.lose(job);
        }
        Err(error) => tracing::warn!(%job, %error, "who has the job is not known"),
    }
}

/// Passes on what the store tells, to readers and to jobs.
pub(crate) async fn listen(fleet: Arc<Fleet>) {
    let mut changes = fleet.store.watch();
    loop {
        let change = tokio::select! {
            () = fleet.stopping.cancelled() => return,
            change = changes.recv() => change,
        };
        match change {
            Ok(Change::Events { job, last }) => fleet.feed.reached(job, last),
            Ok(Change::Ordered { job }) => fleet.running.ordered(job),
            Ok(Change::Queue) => {}
            Ok(Change::Everything) | Err(RecvError::Lagged(_)) => {
                fleet.feed.look_again();
                fleet.running.all_ordered();
            }
            Err(RecvError::Closed) => return,
        }
    }
}
