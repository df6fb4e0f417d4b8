//! Whose turn it is.

use std::collections::HashMap;

use cofferdam_types::JobId;
use futures_util::future::join_all;

use super::lab::{Failure, Lab, ask, cancel, check, complete, draft, ended, same, taken_up};
use crate::ids::{NodeId, UserId};
use crate::job::NewJob;
use crate::lease::{Lease, LeaseAsk};

super::promises! {
    oldest: "of one user the oldest job goes first";
    priorities: "greater priorities go first";
    turns: "users take turns, however many jobs one has";
    fewest: "the user with the fewest running jobs goes first";
    turns_one_by_one: "users take turns also when one job runs at a time";
    turns_over_calls: "users take turns over many calls as over one";
    bounded: "not more of a user's jobs are leased than may run at once";
    bounded_race: "nor by many servers that ask at once";
    cancelled_first: "a job that somebody wants to stop goes before all others";
    begun: "a job that was begun goes before those that were not";
    left: "a job that is left to its server holds up no other of its user";
    passing: "a user who may have no more does not hold up others";
}

async fn submit_many(lab: &Lab, user: UserId, count: usize) -> Result<Vec<JobId>, Failure> {
    let mut jobs = Vec::new();
    for _ in 0..count {
        jobs.push(lab.submit(user).await?);
    }
    Ok(jobs)
}

fn ids(leases: &[Lease]) -> Vec<JobId> {
    leases.iter().map(|lease| lease.job.id).collect()
}

fn users(leases: &[Lease]) -> Vec<UserId> {
    leases.iter().map(|lease| lease.job.user).collect()
}

async fn oldest(lab: &Lab) -> Result<(), Failure> {
    let jobs = submit_many(lab, UserId::generate(), 5).await?;
    let first = lab.lease(NodeId::generate(), 2).await?;
    let rest = lab.lease(NodeId::generate(), 10).await?;
    same!([ids(&first), ids(&rest)].concat(), jobs, "the order");
    Ok(())
}

async fn priorities(lab: &Lab) -> Result<(), Failure> {
    let (a, b) = (UserId::generate(), UserId::generate());
    let mut jobs = Vec::new();
    for (user, priority) in [(a, 0), (b, 5), (a, -5), (a, 7), (b, i16::MIN), (b, i16::MAX)] {
        jobs.push((priority, lab.keep(NewJob { priority, ..draft(user) }).await?));
    }
    jobs.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    let wanted: Vec<JobId> = jobs.into_iter().map(|(_, id)| id).collect();
    same!(ids(&lab.lease(NodeId::generate(), 10).await?), wanted, "the order");
    Ok(())
}

async fn turns(lab: &Lab) -> Result<(), Failure> {
    let (greedy, modest, late) = (UserId::generate(), UserId::generate(), UserId::generate());
    submit_many(lab, greedy, 20).await?;
    submit_many(lab, modest, 2).await?;
    submit_many(lab, late, 1).await?;
    let leases = lab.lease(NodeId::generate(), 6).await?;
    same!(users(&leases), vec![greedy, modest, late, greedy, modest, greedy], "whose turn it was");
    Ok(())
}

async fn fewest(lab: &Lab) -> Result<(), Failure> {
    let (busy, idle) = (UserId::generate(), UserId::generate());
    submit_many(lab, busy, 10).await?;
    same!(lab.lease(NodeId::generate(), 3).await?.len(), 3, "jobs that run");
    submit_many(lab, idle, 10).await?;
    let leases = lab.lease(NodeId::generate(), 4).await?;
    let wanted = vec![idle, idle, idle, busy];
    same!(users(&leases), wanted, "whose turn it was");
    Ok(())
}

async fn turns_one_by_one(lab: &Lab) -> Result<(), Failure> {
    let all = [UserId::generate(), UserId::generate(), UserId::generate()];
    for user in all {
        submit_many(lab, user, 3).await?;
    }
    let node = NodeId::generate();
    let mut served = Vec::new();
    for _ in 0..9 {
        let [lease] = &lab.lease(node, 1).await?[..] else {
            return Err(Failure("nothing to lease".to_owned()));
        };
        served.push(lease.job.user);
        lab.append(lease, vec![taken_up(), ended(complete())]).await?;
        lab.store.release(lease.job.id, lease.job.epoch).await?;
    }
    let rounds = [all, all, all].concat();
    same!(served, rounds, "who was served");
    Ok(())
}

async fn turns_over_calls(lab: &Lab) -> Result<(), Failure> {
    let (greedy, modest) = (UserId::generate(), UserId::generate());
    submit_many(lab, greedy, 10).await?;
    submit_many(lab, modest, 3).await?;
    let mut got = Vec::new();
    for _ in 0..8 {
        got.extend(users(&lab.lease(NodeId::generate(), 1).await?));
    }
    let g = greedy;
    same!(got, vec![g, modest, g, modest, g, modest, g, g], "whose turn it was");
    Ok(())
}

async fn bounded(lab: &Lab) -> Result<(), Failure> {
    let (one, other) = (UserId::generate(), UserId::generate());
    submit_many(lab, one, 5).await?;
    submit_many(lab, other, 1).await?;
    let node = NodeId::generate();
    let bounded = |most| LeaseAsk { per_user: 2, ..ask(node, most) };
    let leases = lab.store.lease(bounded(10)).await?;
    same!(users(&leases), vec![one, other, one], "whose turn it was");
    same!(lab.store.lease(bounded(10)).await?, vec![], "more of them");
    let Some(lease) = leases.first() else { return Err(Failure("nothing was leased".to_owned())) };
    lab.append(lease, vec![taken_up(), ended(complete())]).await?;
    lab.store.release(lease.job.id, lease.job.epoch).await?;
    let next = lab.store.lease(bounded(10)).await?;
    same!(users(&next), vec![one], "whose turn it is after one has ended");
    let none = lab.store.lease(LeaseAsk { per_user: 0, ..ask(node, 10) }).await?;
    same!(none, vec![], "jobs of users who may have none");
    Ok(())
}

async fn bounded_race(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    submit_many(lab, user, 20).await?;
    let calls =
        (0..8).map(|_| lab.store.lease(LeaseAsk { per_user: 3, ..ask(NodeId::generate(), 2) }));
    let mut count = 0;
    for leases in join_all(calls).await {
        count += leases?.len();
    }
    check!(count <= 3, "{count} jobs of a user were leased in place of 3");
    let more = lab.store.lease(LeaseAsk { per_user: 3, ..ask(NodeId::generate(), 10) }).await?;
    same!(count + more.len(), 3, "jobs leased in the end");
    Ok(())
}

async fn cancelled_first(lab: &Lab) -> Result<(), Failure> {
    let (one, other) = (UserId::generate(), UserId::generate());
    lab.keep(NewJob { priority: 100, ..draft(one) }).await?;
    let jobs = submit_many(lab, other, 3).await?;
    let Some(last) = jobs.last() else { return Err(Failure("no jobs".to_owned())) };
    lab.kept(*last, cancel()).await?;
    let leases = lab.lease(NodeId::generate(), 1).await?;
    same!(ids(&leases), vec![*last], "the first");
    same!(users(&lab.lease(NodeId::generate(), 1).await?), vec![one], "whose is the second");
    Ok(())
}

async fn begun(lab: &Lab) -> Result<(), Failure> {
    let running = lab.running(lab.node).await?;
    lab.store.release(running.job.id, running.job.epoch).await?;
    lab.keep(NewJob { priority: 100, ..draft(UserId::generate()) }).await?;
    let leases = lab.lease(lab.node, 1).await?;
    same!(ids(&leases), vec![running.job.id], "the first");
    Ok(())
}

async fn left(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    let begun = lab.submit(user).await?;
    let lease = lab.take(lab.node, begun).await?;
    lab.append(&lease, vec![taken_up()]).await?;
    lab.store.release(begun, lease.job.epoch).await?;
    let next = submit_many(lab, user, 2).await?;
    let strange = LeaseAsk { per_user: 1, ..ask(NodeId::generate(), 1) };
    let leases = lab.store.lease(strange).await?;
    same!(ids(&leases).first(), next.first(), "what another server gets");
    let leases = lab.lease(lab.node, 10).await?;
    let wanted = [vec![begun], next.into_iter().skip(1).collect()].concat();
    same!(ids(&leases), wanted, "what its own server gets");
    Ok(())
}

async fn passing(lab: &Lab) -> Result<(), Failure> {
    let (greedy, late) = (UserId::generate(), UserId::generate());
    for _ in 0..30 {
        lab.keep(NewJob { priority: 9, ..draft(greedy) }).await?;
    }
    submit_many(lab, late, 3).await?;
    let ask = LeaseAsk { per_user: 2, ..ask(NodeId::generate(), 10) };
    let mut counts: HashMap<UserId, usize> = HashMap::new();
    for user in users(&lab.store.lease(ask).await?) {
        *counts.entry(user).or_default() += 1;
    }
    same!(counts, HashMap::from([(greedy, 2), (late, 2)]), "jobs leased of each");
    Ok(())
}
