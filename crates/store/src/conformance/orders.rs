//! What people want of a job: kept until it has heard it.

use std::time::Duration;

use cofferdam_types::{Budget, Cancel, Event, JobId};
use futures_util::future::join_all;

use super::lab::{
    Failure, Lab, cancel, cancelled, check, complete, ended, fails, noted, resume, resume_with,
    same, say, taken_up,
};
use crate::error::StoreError;
use crate::ids::{NodeId, UserId};
use crate::order::{Order, Ordered, Refusal};

super::promises! {
    kept: "orders are kept in order and come back as they were";
    heard: "an order that was heard is heard for good, and only that one";
    refused_append: "an append that is refused leaves its order unheard";
    forgotten: "an order that is kept no more cannot be answered";
    over: "a job that is over hears nothing but that it is to go on";
    going: "a job that is going has nothing to resume";
    strange: "a job that is not there takes no orders";
    numbers: "a later order has a greater number, also when earlier ones are gone";
    raced: "no order is lost when many come at once";
    survives: "orders survive a change of who works on the job";
}

async fn kept(lab: &Lab) -> Result<(), Failure> {
    let job = lab.running(NodeId::generate()).await?.job.id;
    let other = lab.running(NodeId::generate()).await?.job.id;
    let orders = [
        say(""),
        say("nul \0, 🦀, \u{202e}, '; --"),
        cancel(),
        Order::Cancel { by: Cancel::System },
        Order::Pause,
        say(&"long ".repeat(100_000)),
    ];
    for order in &orders {
        lab.kept(job, order.clone()).await?;
        lab.kept(other, say("something else")).await?;
    }
    same!(lab.unheard(job).await?, orders, "the orders");
    same!(lab.store.orders(JobId::generate()).await?, vec![], "orders of no job");
    Ok(())
}

async fn heard(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let job = lease.job.id;
    lab.kept(job, say("one")).await?;
    let second = lab.kept(job, say("two")).await?;
    lab.kept(job, say("three")).await?;
    lab.hear(&lease, vec![Event::UserSaid { text: "two".to_owned() }], second).await?;
    same!(lab.unheard(job).await?, vec![say("one"), say("three")], "the orders");
    same!(lab.events(job).await?.len(), 3, "events");
    let again = lab.try_append(&lease, vec![noted("again")], Some(second)).await?;
    fails!(again, StoreError::Missing(_), "the same order again");
    same!(lab.events(job).await?.len(), 3, "events");
    Ok(())
}

async fn refused_append(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let job = lease.job.id;
    let order = lab.kept(job, say("one")).await?;
    lab.store.release(job, lease.job.epoch).await?;
    let late = lab.try_append(&lease, vec![noted("late")], Some(order)).await?;
    fails!(late, StoreError::Fenced, "an append without a lease");
    same!(lab.unheard(job).await?, vec![say("one")], "the orders");
    Ok(())
}

async fn forgotten(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let job = lease.job.id;
    let pause = lab.kept(job, Order::Pause).await?;
    same!(lab.store.order(job, resume()).await?, Ordered::Done, "the resume");
    let before = (lab.row(job).await?, lab.events(job).await?);
    let late = lab.try_append(&lease, vec![Event::Paused], Some(pause)).await?;
    fails!(late, StoreError::Missing(_), "an answer to a pause that was taken back");
    same!((lab.row(job).await?, lab.events(job).await?), before, "the job");
    let other = lab.running(NodeId::generate()).await?;
    let order = lab.kept(other.job.id, say("to the other")).await?;
    let wrong = lab.try_append(&lease, vec![noted("mine?")], Some(order)).await?;
    fails!(wrong, StoreError::Missing(_), "an answer to another job's order");
    same!(lab.unheard(other.job.id).await?, vec![say("to the other")], "the other's orders");
    Ok(())
}

async fn over(lab: &Lab) -> Result<(), Failure> {
    for ending in [complete(), cancelled()] {
        let job = lab.over(ending).await?;
        let before = lab.row(job).await?;
        for order in [cancel(), say("hello"), Order::Pause] {
            let answer = lab.store.order(job, order.clone()).await?;
            same!(answer, Ordered::Refused(Refusal::Over), format!("{order:?}"));
        }
        same!(lab.row(job).await?, before, "the row");
        same!(lab.unheard(job).await?, vec![], "the orders");
    }
    Ok(())
}

async fn going(lab: &Lab) -> Result<(), Failure> {
    let waiting = lab.submit(UserId::generate()).await?;
    let refused = Ordered::Refused(Refusal::Going);
    same!(lab.store.order(waiting, resume_with("hello")).await?, refused, "one that waits");
    let running = lab.take(NodeId::generate(), waiting).await?;
    lab.append(&running, vec![taken_up()]).await?;
    same!(lab.store.order(waiting, resume_with("hello")).await?, refused, "one that runs");
    same!(lab.unheard(waiting).await?, vec![], "the orders");
    Ok(())
}

async fn strange(lab: &Lab) -> Result<(), Failure> {
    for order in [cancel(), say("hello"), Order::Pause, resume()] {
        let outcome = lab.store.order(JobId::generate(), order).await;
        fails!(outcome, StoreError::Missing(_), "an order to no job");
    }
    Ok(())
}

async fn numbers(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let mut last = None;
    for n in 0..5 {
        let order = lab.kept(lease.job.id, say(&n.to_string())).await?;
        check!(Some(order) > last, "{order:?} after {last:?}");
        lab.hear(&lease, vec![noted("heard")], order).await?;
        last = Some(order);
    }
    Ok(())
}

async fn raced(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let job = lease.job.id;
    let texts: Vec<String> = (0..40).map(|n| format!("word {n}")).collect();
    let calls = texts.iter().map(|text| lab.kept(job, say(text)));
    let hearing = async {
        let mut got = Vec::new();
        while got.len() < texts.len() {
            for (id, order) in lab.store.orders(job).await? {
                lab.hear(&lease, vec![noted("heard")], id).await?;
                got.push(order);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok::<_, Failure>(got)
    };
    let (kept, got) = futures_util::future::join(join_all(calls), hearing).await;
    let mut ids = Vec::new();
    for (id, text) in kept.into_iter().zip(&texts) {
        ids.push((id?, say(text)));
    }
    ids.sort_by_key(|(id, _)| *id);
    let wanted: Vec<Order> = ids.into_iter().map(|(_, order)| order).collect();
    same!(got?, wanted, "what was heard");
    Ok(())
}

async fn survives(lab: &Lab) -> Result<(), Failure> {
    let old = lab.running(lab.node).await?;
    let job = old.job.id;
    let budget = Budget { turns: 5, tokens: None, cost: None, time: None };
    lab.append(&old, vec![ended(complete())]).await?;
    let wish = Order::Resume { say: None, budget: Some(budget) };
    lab.kept(job, wish.clone()).await?;
    lab.kept(job, say("and quickly")).await?;
    lab.store.release(job, old.job.epoch).await?;
    let new = lab.take(lab.node, job).await?;
    same!(lab.unheard(job).await?, vec![wish, say("and quickly")], "the orders");
    for (id, _) in lab.store.orders(job).await? {
        lab.hear(&new, vec![noted("heard")], id).await?;
    }
    same!(lab.unheard(job).await?, vec![], "the orders left");
    Ok(())
}
