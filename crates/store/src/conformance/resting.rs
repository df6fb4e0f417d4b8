//! Pausing, waking, and jobs that go on although they had ended.

use cofferdam_types::Event;

use super::lab::{
    Failure, Lab, cancel, cancelled, check, complete, ended, failed, noted, resume, resume_with,
    same, say, taken_up,
};
use crate::ids::UserId;
use crate::job::Status;
use crate::order::{Order, Ordered};

super::promises! {
    unheld: "a job that nobody works on rests at once when it is paused, and is not leased";
    held: "a job that is worked on rests once it has heard that";
    unpaused: "a pause that was not yet heard is taken back by a resume";
    unpaused_with_words: "what a resume says is kept when it takes back a pause";
    twice: "a job that rests need not be paused again";
    told: "what is said to a job that rests waits with it";
    cancelled_resting: "a job that rests wakes up to be cancelled";
    cancelled_then_paused: "a job that is to stop is leased although it rests";
    woken: "a job that had ended waits for its turn once it is resumed";
    woken_while_held: "a resumed job is not leased before its old lease ends";
    woken_with_words: "what a resume says to a job that had ended is kept";
    too_late: "a resume that a job did not hear before it ended wakes it up";
    stale_cancel: "a wish to stop that came too late does not stop a job that is resumed";
    stale_pause: "a pause that came too late does not stop a job that is resumed";
}

async fn unheld(lab: &Lab) -> Result<(), Failure> {
    let job = lab.submit(UserId::generate()).await?;
    let before = lab.row(job).await?;
    same!(lab.store.order(job, Order::Pause).await?, Ordered::Done, "the pause");
    let row = lab.row(job).await?;
    check!(row.paused, "it does not rest");
    same!(row.status, Status::Pending, "the status");
    same!(lab.unheard(job).await?, vec![], "the orders");
    lab.nothing_to_lease("it rests").await?;
    same!(lab.store.order(job, resume()).await?, Ordered::Done, "the resume");
    same!(lab.row(job).await?, before, "the row");
    lab.take(lab.node, job).await?;
    Ok(())
}

async fn held(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(lab.node).await?;
    let job = lease.job.id;
    let pause = lab.kept(job, Order::Pause).await?;
    check!(!lab.row(job).await?.paused, "it rests before it has heard");
    lab.hear(&lease, vec![Event::Paused], pause).await?;
    check!(lab.row(job).await?.paused, "it does not rest");
    lab.store.release(job, lease.job.epoch).await?;
    lab.nothing_to_lease("it rests").await?;
    same!(lab.store.order(job, resume()).await?, Ordered::Done, "the resume");
    let row = lab.row(job).await?;
    same!((row.status, row.paused), (Status::Pending, false), "the row");
    let lease = lab.take(lab.node, job).await?;
    lab.append(&lease, vec![taken_up()]).await?;
    same!(lab.row(job).await?.status, Status::Running, "the status");
    Ok(())
}

async fn unpaused(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(lab.node).await?;
    let job = lease.job.id;
    lab.kept(job, say("before")).await?;
    lab.kept(job, Order::Pause).await?;
    lab.kept(job, Order::Pause).await?;
    let before = lab.row(job).await?;
    same!(lab.store.order(job, resume()).await?, Ordered::Done, "the resume");
    same!(lab.unheard(job).await?, vec![say("before")], "the orders");
    same!(lab.row(job).await?, before, "the row of a job that never stopped");
    lab.nothing_to_lease("its lease is in force").await
}

async fn unpaused_with_words(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(lab.node).await?;
    let job = lease.job.id;
    lab.kept(job, Order::Pause).await?;
    let id = lab.kept(job, resume_with("go on")).await?;
    same!(lab.unheard(job).await?, vec![resume_with("go on")], "the orders");
    lab.hear(&lease, vec![Event::UserSaid { text: "go on".to_owned() }], id).await?;
    same!(lab.unheard(job).await?, vec![], "the orders left");
    Ok(())
}

async fn twice(lab: &Lab) -> Result<(), Failure> {
    let job = lab.submit(UserId::generate()).await?;
    for _ in 0..2 {
        same!(lab.store.order(job, Order::Pause).await?, Ordered::Done, "a pause");
    }
    same!(lab.unheard(job).await?, vec![], "the orders");
    Ok(())
}

async fn told(lab: &Lab) -> Result<(), Failure> {
    let job = lab.submit(UserId::generate()).await?;
    lab.store.order(job, Order::Pause).await?;
    lab.kept(job, say("hello")).await?;
    lab.nothing_to_lease("it rests").await?;
    lab.kept(job, resume_with("go on")).await?;
    lab.take(lab.node, job).await?;
    same!(lab.unheard(job).await?, vec![say("hello"), resume_with("go on")], "the orders");
    Ok(())
}

async fn cancelled_resting(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(lab.node).await?;
    let job = lease.job.id;
    lab.append(&lease, vec![Event::Paused]).await?;
    lab.store.release(job, lease.job.epoch).await?;
    let order = lab.kept(job, cancel()).await?;
    let row = lab.row(job).await?;
    same!((row.status, row.paused), (Status::Pending, false), "the row");
    let lease = lab.take(lab.node, job).await?;
    lab.hear(&lease, vec![taken_up(), ended(cancelled())], order).await?;
    same!(lab.row(job).await?.status, Status::Cancelled, "the status");
    same!(lab.unheard(job).await?, vec![], "the orders");
    Ok(())
}

async fn cancelled_then_paused(lab: &Lab) -> Result<(), Failure> {
    let job = lab.submit(UserId::generate()).await?;
    lab.kept(job, cancel()).await?;
    lab.store.order(job, Order::Pause).await?;
    lab.take(lab.node, job).await?;
    let lease = lab.running(lab.node).await?;
    let job = lease.job.id;
    let pause = lab.kept(job, Order::Pause).await?;
    lab.kept(job, cancel()).await?;
    lab.hear(&lease, vec![Event::Paused], pause).await?;
    // The process dies here, before it has heard the rest.
    lab.store.release(job, lease.job.epoch).await?;
    let lease = lab.take(lab.node, job).await?;
    for (id, _) in lab.store.orders(job).await? {
        lab.hear(&lease, vec![taken_up(), ended(cancelled())], id).await?;
    }
    lab.store.release(job, lease.job.epoch).await?;
    lab.nothing_to_lease("it is over").await
}

async fn woken(lab: &Lab) -> Result<(), Failure> {
    for ending in [complete(), failed(), cancelled()] {
        let job = lab.over(ending).await?;
        let before = lab.row(job).await?;
        same!(lab.store.order(job, resume()).await?, Ordered::Done, "the resume");
        let row = lab.row(job).await?;
        same!(row.status, Status::Pending, "the status");
        same!((row.ended, &row.ending), (None, &None), "its ending");
        same!((row.spent, row.last_seq), (before.spent, before.last_seq), "what it has used");
        same!(lab.events(job).await?.len() as u64, row.last_seq, "events");
        let lease = lab.take(lab.node, job).await?;
        same!(lease.before, before.node, "who held it before");
        lab.append(&lease, vec![taken_up(), ended(complete())]).await?;
        same!(lab.row(job).await?.status, Status::Complete, "the status");
        lab.store.release(job, lease.job.epoch).await?;
    }
    lab.nothing_to_lease("all are over").await
}

async fn woken_while_held(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(lab.node).await?;
    let job = lease.job.id;
    lab.append(&lease, vec![ended(complete())]).await?;
    same!(lab.store.order(job, resume()).await?, Ordered::Done, "the resume");
    lab.nothing_to_lease("its lease is in force").await?;
    lab.store.release(job, lease.job.epoch).await?;
    lab.take(lab.node, job).await?;
    Ok(())
}

async fn woken_with_words(lab: &Lab) -> Result<(), Failure> {
    let job = lab.over(complete()).await?;
    let order = lab.kept(job, resume_with("and a README")).await?;
    same!(lab.row(job).await?.status, Status::Pending, "the status");
    let lease = lab.take(lab.node, job).await?;
    same!(lab.unheard(job).await?, vec![resume_with("and a README")], "the orders");
    lab.hear(&lease, vec![taken_up(), noted("heard"), ended(complete())], order).await?;
    lab.store.release(job, lease.job.epoch).await?;
    lab.nothing_to_lease("it is over").await
}

async fn too_late(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(lab.node).await?;
    let job = lease.job.id;
    lab.kept(job, Order::Pause).await?;
    let order = lab.kept(job, resume_with("go on")).await?;
    lab.append(&lease, vec![ended(complete())]).await?;
    lab.nothing_to_lease("its lease is in force").await?;
    lab.store.release(job, lease.job.epoch).await?;
    let lease = lab.take(lab.node, job).await?;
    lab.hear(&lease, vec![taken_up(), ended(complete())], order).await?;
    lab.store.release(job, lease.job.epoch).await?;
    lab.nothing_to_lease("it is over and has heard all").await
}

async fn stale_cancel(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(lab.node).await?;
    let job = lease.job.id;
    lab.kept(job, say("before")).await?;
    lab.kept(job, cancel()).await?;
    lab.append(&lease, vec![ended(complete())]).await?;
    lab.store.release(job, lease.job.epoch).await?;
    lab.nothing_to_lease("it is over").await?;
    same!(lab.store.order(job, resume()).await?, Ordered::Done, "the resume");
    same!(lab.unheard(job).await?, vec![say("before")], "the orders");
    lab.take(lab.node, job).await?;
    Ok(())
}

async fn stale_pause(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(lab.node).await?;
    let job = lease.job.id;
    lab.kept(job, Order::Pause).await?;
    lab.append(&lease, vec![ended(complete())]).await?;
    lab.store.release(job, lease.job.epoch).await?;
    same!(lab.store.order(job, resume()).await?, Ordered::Done, "the resume");
    same!(lab.unheard(job).await?, vec![], "the orders");
    lab.take(lab.node, job).await?;
    Ok(())
}
