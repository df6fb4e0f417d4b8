//! Who works on a job: one process at a time, fenced by a number that only grows.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cofferdam_types::JobId;
use futures_util::future::join_all;

use super::lab::{
    Failure, HOUR, Lab, ask, cancel, check, complete, ended, fails, noted, resume, same, taken_up,
    until,
};
use crate::error::StoreError;
use crate::ids::{NodeId, UserId};
use crate::job::Status;
use crate::lease::{Lease, LeaseAsk};
use crate::order::Order;

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
    not_taken: "of two leases that have run out, the one that is not taken still holds";
    left: "a job is left to the server that has begun it as long as that one is there";
    own: "a server that comes back gets its own jobs at once";
    gone: "a job goes to another server once its own was not seen for as long as a lease lasts";
    seen: "a server that only renews is there";
    crashed: "a job that ran when its server died is leased again as it was";
}

/// So long a short lease lasts, and so long a server is missed that is there no more.
const BRIEF: Duration = Duration::from_millis(1);

/// An ask for short leases. For whoever asks so, hardly any other server is there.
fn brief(node: NodeId, most: u32) -> LeaseAsk {
    LeaseAsk { span: BRIEF, ..ask(node, most) }
}

/// Takes another server's job, once that one and its lease are gone, and keeps it.
async fn take_over(lab: &Lab, node: NodeId, job: JobId) -> Result<Lease, Failure> {
    let lease = until("a job can be taken over", || async {
        let leases = lab.store.lease(brief(node, 10)).await?;
        Ok(leases.into_iter().find(|lease| lease.job.id == job))
    })
    .await?;
    let held = vec![(job, lease.job.epoch)];
    same!(lab.store.renew(node, held, HOUR).await?, vec![], "leases lost");
    Ok(lease)
}

/// A short lease, on the only job there is.
async fn briefly(lab: &Lab, node: NodeId) -> Result<Lease, Failure> {
    lab.submit(UserId::generate()).await?;
    lab.store
        .lease(brief(node, 1))
        .await?
        .pop()
        .ok_or_else(|| Failure("nothing was leased".to_owned()))
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
    let again = take_over(lab, second, job).await?;
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
    take_over(lab, NodeId::generate(), job).await?;
    let late = lab.try_append(&lease, vec![noted("late")], None).await?;
    fails!(late, StoreError::Fenced, "an append after another has taken over");
    lab.store.release(JobId::generate(), 1).await?;
    Ok(())
}

async fn late_release(lab: &Lab) -> Result<(), Failure> {
    let old = lab.leased(NodeId::generate()).await?;
    let job = old.job.id;
    lab.store.release(job, old.job.epoch).await?;
    let new = take_over(lab, NodeId::generate(), job).await?;
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
    same!(lab.lease(NodeId::generate(), 10).await?, vec![], "leases of another, of a job begun");
    lab.append(&lease, vec![noted("another has asked")]).await?;
    for (most, per_user) in [(0, 10), (10, 0)] {
        let ask = LeaseAsk { per_user, ..brief(NodeId::generate(), most) };
        same!(lab.store.lease(ask).await?, vec![], "leases that nobody may have");
    }
    lab.append(&lease, vec![noted("nobody has taken it")]).await?;
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
    lab.take(node, returned.id).await?;
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

async fn not_taken(lab: &Lab) -> Result<(), Failure> {
    let leases = [briefly(lab, lab.node).await?, briefly(lab, lab.node).await?];
    let taken = until("a job can be taken over", || async {
        Ok(lab.store.lease(brief(NodeId::generate(), 1)).await?.pop())
    })
    .await?;
    for lease in &leases {
        let outcome = lab.try_append(lease, vec![taken_up()], None).await?;
        if lease.job.id == taken.job.id {
            fails!(outcome, StoreError::Fenced, "an append to the job that was taken");
        } else {
            outcome?;
        }
    }
    Ok(())
}

/// Sees that only its own server gets a job, and at once; gives it back.
async fn only_its_own(lab: &Lab, job: JobId, when: &str) -> Result<(), Failure> {
    same!(lab.lease(NodeId::generate(), 10).await?, vec![], format!("for another, {when}"));
    let lease = lab.take(lab.node, job).await?;
    same!(lease.before, Some(lab.node), "who held it before");
    Ok(lab.store.release(job, lease.job.epoch).await?)
}

async fn left(lab: &Lab) -> Result<(), Failure> {
    let leased = lab.leased(lab.node).await?;
    let job = leased.job.id;
    lab.store.release(job, leased.job.epoch).await?;
    only_its_own(lab, job, "before it was taken up").await?;
    let lease = lab.take(lab.node, job).await?;
    lab.append(&lease, vec![taken_up()]).await?;
    lab.store.release(job, lease.job.epoch).await?;
    only_its_own(lab, job, "once it was given back").await?;
    lab.store.order(job, Order::Pause).await?;
    lab.store.order(job, resume()).await?;
    only_its_own(lab, job, "once it was resumed").await?;
    let lease = lab.take(lab.node, job).await?;
    lab.append(&lease, vec![ended(complete())]).await?;
    lab.store.release(job, lease.job.epoch).await?;
    lab.store.order(job, resume()).await?;
    only_its_own(lab, job, "once it goes on after its end").await?;
    lab.kept(job, cancel()).await?;
    only_its_own(lab, job, "once it is to stop").await?;
    let new = lab.submit(UserId::generate()).await?;
    lab.take(NodeId::generate(), new).await?;
    Ok(())
}

async fn own(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(lab.node).await?;
    same!(lab.store.reclaim(lab.node).await?, 1, "leases reclaimed");
    only_its_own(lab, lease.job.id, "once it was reclaimed").await?;
    lab.take(lab.node, lease.job.id).await?;
    let lapsed = briefly(lab, NodeId::generate()).await?;
    let node = lapsed.job.node.unwrap_or(lab.node);
    let again = until("the lease runs out", || async { Ok(lab.lease(node, 10).await?.pop()) });
    let again = again.await?;
    same!((again.job.id, again.before), (lapsed.job.id, Some(node)), "what it got");
    let late = lab.try_append(&lapsed, vec![noted("late")], None).await?;
    fails!(late, StoreError::Fenced, "an append under its earlier lease");
    lab.append(&again, vec![taken_up()]).await
}

async fn gone(lab: &Lab) -> Result<(), Failure> {
    const SPAN: Duration = Duration::from_millis(200);
    // Clocks that count milliseconds cut a part of one off.
    const INEXACT: Duration = Duration::from_millis(5);
    let other = NodeId::generate();
    let begun = Instant::now();
    let lease = lab.running(lab.node).await?;
    lab.store.release(lease.job.id, lease.job.epoch).await?;
    let new = until("its server is missed", || async {
        Ok(lab.store.lease(LeaseAsk { span: SPAN, ..ask(other, 10) }).await?.pop())
    })
    .await?;
    let waited = begun.elapsed();
    check!(waited + INEXACT >= SPAN, "it was given away after {waited:?}");
    same!((new.job.id, new.before), (lease.job.id, Some(lab.node)), "what was taken over");
    lab.store.release(new.job.id, new.job.epoch).await?;
    same!(lab.lease(lab.node, 10).await?, vec![], "leases of the first, which is back too late");
    lab.take(other, new.job.id).await?;
    Ok(())
}

async fn seen(lab: &Lab) -> Result<(), Failure> {
    // Longer ones for a machine that is too busy for the shorter.
    for span in [250, 1000, 4000].map(Duration::from_millis) {
        let lease = lab.running(lab.node).await?;
        lab.store.release(lease.job.id, lease.job.epoch).await?;
        // The lease itself is too long ago when this wait is over.
        tokio::time::sleep(span).await;
        let begun = Instant::now();
        same!(lab.store.renew(lab.node, vec![], HOUR).await?, vec![], "leases lost");
        let leases = lab.store.lease(LeaseAsk { span, ..ask(NodeId::generate(), 10) }).await?;
        if !leases.iter().any(|other| other.job.id == lease.job.id) {
            return Ok(());
        }
        let waited = begun.elapsed();
        check!(waited >= span, "it was given away after {waited:?}, which is less than {span:?}");
    }
    Err(Failure("the machine is too busy to tell".to_owned()))
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
