//! Who works on a job: one process at a time, fenced by a number that only grows.

use std::collections::HashSet;
use std::time::Duration;

use cofferdam_types::JobId;
use futures_util::future::join_all;

use super::lab::{
    Failure, HOUR, Lab, ask, check, complete, ended, fails, noted, same, taken_up, until,
};
use crate::error::StoreError;
use crate::ids::{NodeId, UserId};
use crate::job::Status;
use crate::lease::{Lease, LeaseAsk};

super::promises! {
    leased: "a lease names its node and its epoch, and leaves the rest of the row as it was";
    once: "a job is leased to one at a time";
    raced: "of many that ask at once, no two get the same job";
    given_back: "a lease that was given back is void, and the job can be leased again";
    late_release: "a lease that is another's by now cannot be given back";
    expired: "a lease that has run out can be taken over, and its holder is fenced";
    slow: "a lease that has run out and is nobody else's still holds";
    renewed: "a renewed lease stays in force";
    lost: "renewing names the leases that are no longer the node's";
    reclaimed: "reclaiming ends all leases of a node, and no other's";
    over: "a job that is over is not leased";
    crashed: "a job that ran when its server died is leased again as it was";
}

/// Takes a job whose lease runs out by itself.
async fn take_over(lab: &Lab, node: NodeId, job: JobId) -> Result<Lease, Failure> {
    until("a lease runs out", || async {
        Ok(lab.lease(node, 10).await?.into_iter().find(|lease| lease.job.id == job))
    })
    .await
}

/// A short lease, on the only job there is.
async fn briefly(lab: &Lab, node: NodeId) -> Result<Lease, Failure> {
    lab.submit(UserId::generate()).await?;
    let mut leases =
        lab.store.lease(LeaseAsk { span: Duration::from_millis(1), ..ask(node, 1) }).await?;
    leases.pop().ok_or_else(|| Failure("nothing was leased".to_owned()))
}

async fn leased(lab: &Lab) -> Result<(), Failure> {
    let job = lab.submit(UserId::generate()).await?;
    let before = lab.row(job).await?;
    let (first, second) = (NodeId::generate(), NodeId::generate());
    let lease = lab.take(first, job).await?;
    same!(lease.before, None, "who held it before");
    check!(lease.job.epoch > before.epoch, "the epoch is {}", lease.job.epoch);
    let mut wanted = before.clone();
    wanted.node = Some(first);
    wanted.epoch = lease.job.epoch;
    same!(lease.job, wanted, "the lease");
    same!(lab.row(job).await?, wanted, "the row");
    same!(lab.events(job).await?.len(), 1, "events: a lease is none");
    lab.store.release(job, lease.job.epoch).await?;
    same!(lab.row(job).await?.node, Some(first), "the node that held it last");
    let again = lab.take(second, job).await?;
    same!(again.before, Some(first), "who held it before");
    same!(again.job.node, Some(second), "who holds it");
    check!(again.job.epoch > lease.job.epoch, "the epoch has not grown");
    Ok(())
}

async fn once(lab: &Lab) -> Result<(), Failure> {
    let node = NodeId::generate();
    lab.leased(node).await?;
    same!(lab.lease(node, 10).await?, vec![], "leases of the same node");
    lab.nothing_to_lease("it is leased").await?;
    same!(lab.lease(node, 0).await?, vec![], "no leases wanted");
    Ok(())
}

async fn raced(lab: &Lab) -> Result<(), Failure> {
    let users: Vec<UserId> = (0..4).map(|_| UserId::generate()).collect();
    for _ in 0..10 {
        for user in &users {
            lab.submit(*user).await?;
        }
    }
    let workers = (0..8).map(|_| async {
        let node = NodeId::generate();
        let mut got = Vec::new();
        loop {
            let leases = lab.lease(node, 3).await?;
            check!(leases.len() <= 3, "{} leases in place of 3", leases.len());
            if leases.is_empty() {
                return Ok(got);
            }
            got.extend(leases.into_iter().map(|lease| lease.job.id));
        }
    });
    let mut all = Vec::new();
    for got in join_all(workers).await {
        all.extend(got?);
    }
    let different: HashSet<JobId> = all.iter().copied().collect();
    same!((all.len(), different.len()), (40, 40), "leases, and jobs leased");
    Ok(())
}

async fn given_back(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let (job, epoch) = (lease.job.id, lease.job.epoch);
    lab.store.release(job, epoch).await?;
    let late = lab.try_append(&lease, vec![noted("late")], None).await?;
    fails!(late, StoreError::Fenced, "an append after giving back");
    let node = NodeId::generate();
    lab.take(node, job).await?;
    let late = lab.try_append(&lease, vec![noted("late")], None).await?;
    fails!(late, StoreError::Fenced, "an append after another has taken over");
    lab.store.release(JobId::generate(), 1).await?;
    Ok(())
}

async fn late_release(lab: &Lab) -> Result<(), Failure> {
    let old = lab.leased(NodeId::generate()).await?;
    let job = old.job.id;
    lab.store.release(job, old.job.epoch).await?;
    let new = lab.take(NodeId::generate(), job).await?;
    lab.store.release(job, old.job.epoch).await?;
    lab.nothing_to_lease("only an old lease was given back").await?;
    lab.append(&new, vec![taken_up()]).await
}

async fn expired(lab: &Lab) -> Result<(), Failure> {
    let (first, second) = (NodeId::generate(), NodeId::generate());
    let old = briefly(lab, first).await?;
    let new = take_over(lab, second, old.job.id).await?;
    same!(new.before, Some(first), "who held it before");
    check!(new.job.epoch > old.job.epoch, "the epoch has not grown");
    let late = lab.try_append(&old, vec![noted("late")], None).await?;
    fails!(late, StoreError::Fenced, "an append of the first");
    let held = vec![(old.job.id, old.job.epoch)];
    same!(lab.store.renew(first, held, HOUR).await?, vec![old.job.id], "leases lost");
    lab.append(&new, vec![taken_up()]).await
}

async fn slow(lab: &Lab) -> Result<(), Failure> {
    let node = NodeId::generate();
    let lease = briefly(lab, node).await?;
    // The lease of one millisecond is over when this wait is.
    tokio::time::sleep(Duration::from_millis(20)).await;
    lab.append(&lease, vec![taken_up()]).await?;
    let held = vec![(lease.job.id, lease.job.epoch)];
    same!(lab.store.renew(node, held, HOUR).await?, vec![], "leases lost");
    lab.nothing_to_lease("it was renewed").await
}

async fn renewed(lab: &Lab) -> Result<(), Failure> {
    let node = NodeId::generate();
    let mut held = Vec::new();
    for _ in 0..3 {
        let lease = lab.leased(node).await?;
        held.push((lease.job.id, lease.job.epoch));
    }
    // A renewal may shorten a lease as well.
    same!(lab.store.renew(node, held.clone(), Duration::ZERO).await?, vec![], "leases lost");
    same!(lab.store.renew(node, held.clone(), HOUR).await?, vec![], "leases lost");
    lab.nothing_to_lease("all are renewed").await?;
    let first: Vec<_> = held.iter().copied().take(1).collect();
    same!(lab.store.renew(node, first.clone(), Duration::ZERO).await?, vec![], "leases lost");
    for (job, _) in first {
        take_over(lab, NodeId::generate(), job).await?;
    }
    lab.nothing_to_lease("the others are in force").await?;
    same!(lab.store.renew(node, vec![], HOUR).await?, vec![], "of no leases, those lost");
    Ok(())
}

async fn lost(lab: &Lab) -> Result<(), Failure> {
    let node = NodeId::generate();
    let held = lab.leased(node).await?.job;
    let returned = lab.leased(node).await?.job;
    let others = lab.leased(NodeId::generate()).await?.job;
    lab.store.release(returned.id, returned.epoch).await?;
    let strange = JobId::generate();
    let asked = vec![
        (held.id, held.epoch),
        (returned.id, returned.epoch),
        (others.id, others.epoch),
        (strange, 1),
    ];
    let mut lost = lab.store.renew(node, asked, HOUR).await?;
    lost.sort();
    let mut wanted = vec![returned.id, others.id, strange];
    wanted.sort();
    same!(lost, wanted, "leases lost");
    let stale = vec![(held.id, held.epoch.saturating_sub(1))];
    same!(lab.store.renew(node, stale, HOUR).await?, vec![held.id], "of an old epoch, those lost");
    lab.take(NodeId::generate(), returned.id).await?;
    Ok(())
}

async fn reclaimed(lab: &Lab) -> Result<(), Failure> {
    let (node, other) = (NodeId::generate(), NodeId::generate());
    let mine = [lab.running(node).await?, lab.running(node).await?];
    let others = lab.running(other).await?;
    same!(lab.store.reclaim(NodeId::generate()).await?, 0, "leases of a node without any");
    same!(lab.store.reclaim(node).await?, 2, "leases reclaimed");
    for lease in &mine {
        let late = lab.try_append(lease, vec![noted("late")], None).await?;
        fails!(late, StoreError::Fenced, "an append of the earlier life");
    }
    lab.append(&others, vec![noted("still here")]).await?;
    let again = lab.lease(node, 10).await?;
    same!(again.len(), 2, "jobs that can be leased again");
    for lease in &again {
        same!(lease.before, Some(node), "who held it before");
        lab.append(lease, vec![taken_up()]).await?;
    }
    same!(lab.store.reclaim(node).await?, 2, "leases reclaimed again");
    same!(lab.store.reclaim(node).await?, 0, "leases that are left");
    Ok(())
}

async fn over(lab: &Lab) -> Result<(), Failure> {
    let job = lab.over(complete()).await?;
    lab.nothing_to_lease("it is over").await?;
    let lease = briefly(lab, NodeId::generate()).await?;
    lab.append(&lease, vec![taken_up(), ended(complete())]).await?;
    // Its lease of one millisecond runs out, and nobody gave it back.
    tokio::time::sleep(Duration::from_millis(20)).await;
    lab.nothing_to_lease("both are over").await?;
    same!(lab.row(job).await?.status, Status::Complete, "the status");
    Ok(())
}

async fn crashed(lab: &Lab) -> Result<(), Failure> {
    let node = NodeId::generate();
    let old = briefly(lab, node).await?;
    lab.append(&old, vec![taken_up(), noted("half")]).await?;
    let before = lab.row(old.job.id).await?;
    let new = take_over(lab, NodeId::generate(), old.job.id).await?;
    same!(new.job.status, Status::Running, "the status");
    same!(new.job.last_seq, before.last_seq, "the last number");
    same!(new.job.started, before.started, "when it was started");
    lab.append(&new, vec![taken_up()]).await?;
    same!(lab.row(old.job.id).await?.started, before.started, "when it was first started");
    Ok(())
}
