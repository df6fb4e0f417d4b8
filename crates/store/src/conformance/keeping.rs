//! Artifacts and uploads, and forgetting.

use std::time::Duration;

use cofferdam_types::{JobId, Timestamp};

use super::lab::{
    Failure, HOUR, Lab, NOW, blob, check, complete, draft, fails, same, say, taken_up,
};
use crate::error::StoreError;
use crate::ids::{NodeId, UploadId, UserId};
use crate::job::{Artifact, NewJob, Upload};
use crate::order::Order;
use crate::query::JobQuery;

super::promises! {
    artifacts: "artifacts come back by name";
    replaced: "a later artifact takes the place of one of its name";
    strange: "an artifact needs its job";
    late: "an artifact of an earlier lease does not take the place of a later one's";
    uploads: "an upload comes back as it was";
    expired: "uploads that are old and that no job begins with are forgotten";
    forgotten: "a job that is forgotten leaves nothing but what others have";
    unforgotten: "a job that is not over is not forgotten";
}

fn artifact(job: JobId, name: &str, word: &str) -> Result<Artifact, Failure> {
    Ok(Artifact { job, name: name.to_owned(), blob: blob(word)?, at: NOW })
}

async fn artifacts(lab: &Lab) -> Result<(), Failure> {
    let job = lab.submit(UserId::generate()).await?;
    let other = lab.submit(UserId::generate()).await?;
    same!(lab.store.artifacts(job).await?, vec![], "of a new job");
    let mut wanted = Vec::new();
    for name in ["trail.tar.zst", "output.zip", "a 🦀.patch", "Z"] {
        let artifact = artifact(job, name, "one")?;
        lab.store.keep_artifact(artifact.clone(), 0).await?;
        wanted.push(artifact);
        lab.store.keep_artifact(self::artifact(other, name, "other")?, 0).await?;
    }
    wanted.sort_by(|a, b| a.name.cmp(&b.name));
    same!(lab.store.artifacts(job).await?, wanted, "the artifacts");
    same!(lab.store.artifacts(JobId::generate()).await?, vec![], "of no job");
    Ok(())
}

async fn replaced(lab: &Lab) -> Result<(), Failure> {
    let job = lab.submit(UserId::generate()).await?;
    lab.store.keep_artifact(artifact(job, "output.zip", "one")?, 0).await?;
    let mut second = artifact(job, "output.zip", "two")?;
    second.at = Timestamp(NOW.0 + 1);
    lab.store.keep_artifact(second.clone(), 0).await?;
    same!(lab.store.artifacts(job).await?, vec![second], "the artifacts");
    Ok(())
}

async fn strange(lab: &Lab) -> Result<(), Failure> {
    let outcome = lab.store.keep_artifact(artifact(JobId::generate(), "a", "a")?, 0).await;
    fails!(outcome, StoreError::Missing(_), "an artifact of no job");
    Ok(())
}

async fn late(lab: &Lab) -> Result<(), Failure> {
    let first = lab.running(lab.node).await?.job;
    lab.store.release(first.id, first.epoch).await?;
    let second = lab.take(lab.node, first.id).await?.job;
    let wanted = artifact(first.id, "output.zip", "second")?;
    lab.store.keep_artifact(wanted.clone(), second.epoch).await?;
    let outcome =
        lab.store.keep_artifact(artifact(first.id, "output.zip", "first")?, first.epoch).await;
    fails!(outcome, StoreError::Fenced, "an artifact of an earlier lease");
    same!(lab.store.artifacts(first.id).await?, vec![wanted], "the artifacts");
    Ok(())
}

fn upload(user: UserId, at: Timestamp) -> Result<Upload, Failure> {
    Ok(Upload { id: UploadId::generate(), user, blob: blob("upload")?, at })
}

async fn uploads(lab: &Lab) -> Result<(), Failure> {
    let upload = upload(UserId::generate(), NOW)?;
    lab.store.keep_upload(upload.clone()).await?;
    same!(lab.store.upload(upload.id).await?, Some(upload), "the upload");
    same!(lab.store.upload(UploadId::generate()).await?, None, "another");
    Ok(())
}

async fn expired(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    let far = Timestamp(4_000_000_000_000);
    let (old, used, new) = (upload(user, NOW)?, upload(user, NOW)?, upload(user, far)?);
    for upload in [&old, &used, &new] {
        lab.store.keep_upload(upload.clone()).await?;
    }
    let job = lab.keep(NewJob { upload: Some(used.id), ..draft(user) }).await?;
    let ages = Duration::from_secs(3600 * 24 * 365 * 1000);
    same!(lab.store.expire(ages).await?, vec![], "uploads older than a thousand years");
    same!(lab.store.expire(HOUR).await?, vec![old.clone()], "uploads forgotten");
    same!(lab.store.upload(old.id).await?, None, "the old upload");
    same!(lab.store.upload(used.id).await?, Some(used.clone()), "the one in use");
    same!(lab.store.upload(new.id).await?, Some(new), "the new one");
    same!(lab.store.expire(HOUR).await?, vec![], "uploads forgotten again");
    let lease = lab.take(NodeId::generate(), job).await?;
    lab.append(&lease, vec![taken_up(), super::lab::ended(complete())]).await?;
    same!(lab.store.expire(HOUR).await?, vec![], "uploads of jobs that are over");
    lab.store.forget(job).await?;
    same!(lab.store.expire(HOUR).await?, vec![used], "uploads of jobs that are forgotten");
    Ok(())
}

async fn forgotten(lab: &Lab) -> Result<(), Failure> {
    let (job, other) = (lab.over(complete()).await?, lab.over(complete()).await?);
    let user = lab.row(job).await?.user;
    let kept = artifact(job, "output.zip", "one")?;
    lab.store.keep_artifact(kept.clone(), lab.row(job).await?.epoch).await?;
    let others = artifact(other, "output.zip", "other")?;
    lab.store.keep_artifact(others.clone(), lab.row(other).await?.epoch).await?;
    let before = (lab.row(other).await?, lab.events(other).await?);
    same!(lab.store.forget(job).await?, vec![kept], "the artifacts to remove");
    same!(lab.store.job(job).await?, None, "the row");
    same!(lab.store.events(job, 0, 10).await?, vec![], "the events");
    same!(lab.store.orders(job).await?, vec![], "the orders");
    same!(lab.store.artifacts(job).await?, vec![], "the artifacts");
    same!(lab.store.counts(Some(user)).await?, crate::Counts::default(), "the counts");
    let query = JobQuery { user: None, statuses: vec![], before: None, limit: 10 };
    same!(lab.store.jobs(query).await?.len(), 1, "jobs listed");
    same!((lab.row(other).await?, lab.events(other).await?), before, "the other job");
    same!(lab.store.artifacts(other).await?, vec![others], "its artifacts");
    fails!(lab.store.forget(job).await, StoreError::Missing(_), "forgetting twice");
    Ok(())
}

async fn unforgotten(lab: &Lab) -> Result<(), Failure> {
    let pending = lab.submit(UserId::generate()).await?;
    fails!(lab.store.forget(pending).await, StoreError::NotOver, "one that waits");
    let lease = lab.take(NodeId::generate(), pending).await?;
    lab.append(&lease, vec![taken_up()]).await?;
    lab.kept(pending, say("hello")).await?;
    fails!(lab.store.forget(pending).await, StoreError::NotOver, "one that runs");
    same!(lab.events(pending).await?.len(), 2, "events");
    same!(lab.unheard(pending).await?.len(), 1, "orders");
    let rests = lab.submit(UserId::generate()).await?;
    lab.store.order(rests, Order::Pause).await?;
    fails!(lab.store.forget(rests).await, StoreError::NotOver, "one that rests");
    check!(lab.store.job(rests).await?.is_some(), "it is gone");
    Ok(())
}
