//! What is told to whoever watches: what is durable, and nothing is missed.

use std::time::Duration;

use cofferdam_types::JobId;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::lab::{Failure, Lab, cancel, complete, ended, noted, resume, same, say, taken_up};
use crate::ids::{NodeId, UserId};
use crate::order::Order;
use crate::store::Change;

super::promises! {
    events: "new events are told once they can be read";
    ordered: "an order is told once it can be read";
    submitted: "a new job is told as something to lease";
    freed: "a job that can be leased again is told";
    many: "everybody who watches is told";
}

/// How long news may take.
const NEWS: Duration = Duration::from_secs(20);

/// Waits until this is told, or that something may have been missed.
async fn told(
    watch: &mut Receiver<Change>,
    what: &str,
    wanted: impl Fn(&Change) -> bool,
) -> Result<(), Failure> {
    let wait = async {
        loop {
            match watch.recv().await {
                Ok(Change::Everything) | Err(RecvError::Lagged(_)) => return Ok(()),
                Ok(change) if wanted(&change) => return Ok(()),
                Ok(_) => {}
                Err(RecvError::Closed) => return Err(Failure(format!("{what}: the end"))),
            }
        }
    };
    let late = |_| Failure(format!("{what}: not told within {NEWS:?}"));
    tokio::time::timeout(NEWS, wait).await.map_err(late)?
}

fn events_of(job: JobId, at_least: u64) -> impl Fn(&Change) -> bool {
    move |change| matches!(change, Change::Events { job: id, last } if *id == job && *last >= at_least)
}

fn queue(change: &Change) -> bool {
    *change == Change::Queue
}

async fn events(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.leased(NodeId::generate()).await?;
    let job = lease.job.id;
    let mut watch = lab.store.watch();
    for last in [2, 4, 6, 8, 10] {
        let (appended, news) =
            futures_util::future::join(lab.append(&lease, vec![noted("a"), noted("b")]), async {
                told(&mut watch, "events", events_of(job, last + 1)).await?;
                Ok::<_, Failure>(lab.store.events(job, last, 10).await?.len())
            })
            .await;
        appended?;
        same!(news?, 1, "events that can be read when they are told");
    }
    Ok(())
}

async fn ordered(lab: &Lab) -> Result<(), Failure> {
    let job = lab.running(NodeId::generate()).await?.job.id;
    let mut watch = lab.store.watch();
    let order = move |change: &Change| *change == Change::Ordered { job };
    let (kept, news) = futures_util::future::join(lab.kept(job, say("hello")), async {
        told(&mut watch, "an order", order).await?;
        lab.unheard(job).await
    })
    .await;
    kept?;
    same!(news?, vec![say("hello")], "orders that can be read when they are told");
    lab.kept(job, cancel()).await?;
    told(&mut watch, "a second order", order).await
}

async fn submitted(lab: &Lab) -> Result<(), Failure> {
    let mut watch = lab.store.watch();
    let job = lab.submit(UserId::generate()).await?;
    told(&mut watch, "a new job", queue).await?;
    lab.take(NodeId::generate(), job).await?;
    Ok(())
}

async fn freed(lab: &Lab) -> Result<(), Failure> {
    let node = NodeId::generate();
    let lease = lab.running(node).await?;
    let (job, epoch) = (lease.job.id, lease.job.epoch);
    let mut watch = lab.store.watch();
    lab.store.release(job, epoch).await?;
    told(&mut watch, "a lease that was given back", queue).await?;
    let lease = lab.take(node, job).await?;
    let mut watch = lab.store.watch();
    lab.store.reclaim(node).await?;
    told(&mut watch, "leases that were reclaimed", queue).await?;
    let again = lab.take(node, job).await?;
    assert_greater(&lease.job, &again.job)?;
    lab.append(&again, vec![taken_up(), ended(complete())]).await?;
    lab.store.release(job, again.job.epoch).await?;
    let mut watch = lab.store.watch();
    lab.store.order(job, resume()).await?;
    told(&mut watch, "a job that was woken", queue).await?;
    lab.store.order(job, Order::Pause).await?;
    let mut watch = lab.store.watch();
    lab.kept(job, cancel()).await?;
    told(&mut watch, "a job that is to stop", queue).await
}

fn assert_greater(before: &crate::JobRow, after: &crate::JobRow) -> Result<(), Failure> {
    super::lab::check!(after.epoch > before.epoch, "the epoch has not grown");
    Ok(())
}

async fn many(lab: &Lab) -> Result<(), Failure> {
    let mut watches: Vec<_> = (0..20).map(|_| lab.store.watch()).collect();
    let job = lab.submit(UserId::generate()).await?;
    for watch in &mut watches {
        told(watch, "a new job", events_of(job, 1)).await?;
    }
    Ok(())
}
