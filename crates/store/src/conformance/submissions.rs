//! How jobs come in: whole, once, and not too many.

use cofferdam_types::{Event, JobId};
use futures_util::future::join_all;

use super::lab::{Failure, HOUR, Lab, NOW, PLENTY, check, complete, draft, fails, same, spec};
use crate::error::StoreError;
use crate::ids::{NodeId, UploadId, UserId};
use crate::job::{Idempotency, JobRow, Line, NewJob, QueueBounds, Status, Submitted, Upload};

super::promises! {
    kept: "a submitted job is there with its row and its first event";
    texts: "a task of any text comes back as it was";
    once: "a job's id is used once";
    repeated: "a submission that is repeated under its key makes no second job";
    reused: "a key that was used for something else is not taken";
    scoped: "a key is each user's own";
    raced: "of submissions at once under one key, one makes a job";
    outlived: "a key outlives its job";
    full: "not more jobs wait than may, in all";
    full_user: "not more of one user's jobs wait than may";
    emptied: "a job that is over makes room for another";
    repeated_when_full: "a known key is answered however much waits";
    squeezed: "of many submissions at once, no more are taken than there is room for";
    uploads: "a job begins with an upload of its own user only";
}

fn under(key: &str, fingerprint: u8, user: UserId) -> NewJob {
    let idempotency = Idempotency { key: key.to_owned(), fingerprint: [fingerprint; 32] };
    NewJob { idempotency: Some(idempotency), ..draft(user) }
}

async fn kept(lab: &Lab) -> Result<(), Failure> {
    let job = NewJob { priority: -7, ..draft(UserId::generate()) };
    lab.keep(job.clone()).await?;
    let row = lab.row(job.spec.job).await?;
    same!(row, JobRow::new(&job), "the row");
    same!(row.status, Status::Pending, "its status");
    same!(row.title, "make it work", "its title");
    let lines = lab.events(job.spec.job).await?;
    same!(lines, vec![Line::of(&job.first_record())?], "its events");
    let Some(Event::Created { spec }) =
        lines.first().map(Line::record).transpose()?.map(|r| r.event)
    else {
        return Err(Failure("the first event is another".to_owned()));
    };
    same!(*spec, job.spec, "what was asked for");
    let stranger = JobId::generate();
    same!(lab.store.job(stranger).await?, None, "a job that is not there");
    same!(lab.store.events(stranger, 0, 10).await?, vec![], "its events");
    Ok(())
}

async fn texts(lab: &Lab) -> Result<(), Failure> {
    for text in
        ["", "nul \0 nul", "🦀 e\u{301} \u{202e}", "'; DROP TABLE jobs; --", "\u{10ffff}\u{1}\"\\"]
    {
        let job = NewJob { spec: spec(text), ..draft(UserId::generate()) };
        lab.keep(job.clone()).await?;
        same!(lab.row(job.spec.job).await?, JobRow::new(&job), "the row");
        let wanted = vec![Line::of(&job.first_record())?];
        same!(lab.events(job.spec.job).await?, wanted, "the event");
    }
    Ok(())
}

async fn once(lab: &Lab) -> Result<(), Failure> {
    let job = draft(UserId::generate());
    lab.keep(job.clone()).await?;
    let other = NewJob { spec: job.spec.clone(), priority: 5, ..draft(UserId::generate()) };
    fails!(lab.store.submit(other).await, StoreError::Taken(_), "the same id");
    same!(lab.row(job.spec.job).await?, JobRow::new(&job), "the first job");
    same!(lab.store.counts(None).await?.pending, 1, "jobs");
    Ok(())
}

async fn repeated(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    let first = lab.keep(under("key", 1, user)).await?;
    let second = under("key", 1, user);
    same!(lab.store.submit(second.clone()).await?, Submitted::Before(first), "the second");
    same!(lab.store.job(second.spec.job).await?, None, "the second job");
    same!(lab.store.events(second.spec.job, 0, 10).await?, vec![], "its events");
    lab.keep(under("Key", 1, user)).await?;
    same!(lab.store.counts(None).await?.pending, 2, "jobs");
    Ok(())
}

async fn reused(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    lab.keep(under("key", 1, user)).await?;
    same!(lab.store.submit(under("key", 2, user)).await?, Submitted::KeyReused, "the second");
    same!(lab.store.counts(None).await?.pending, 1, "jobs");
    Ok(())
}

async fn scoped(lab: &Lab) -> Result<(), Failure> {
    lab.keep(under("key", 1, UserId::generate())).await?;
    lab.keep(under("key", 2, UserId::generate())).await?;
    Ok(())
}

async fn raced(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    let jobs: Vec<NewJob> = (0..50).map(|_| under("key", 1, user)).collect();
    let ids: Vec<JobId> = jobs.iter().map(|job| job.spec.job).collect();
    let answers = join_all(jobs.into_iter().map(|job| lab.store.submit(job))).await;
    let mut winner = None;
    let mut named = Vec::new();
    for (id, answer) in ids.into_iter().zip(answers) {
        match answer? {
            Submitted::New if winner.is_none() => winner = Some(id),
            Submitted::Before(id) => named.push(id),
            other => return Err(Failure(format!("one was answered {other:?}"))),
        }
    }
    same!(named.len(), 49, "answers that name a job before");
    check!(named.iter().all(|id| Some(*id) == winner), "they name others than {winner:?}");
    same!(lab.store.counts(Some(user)).await?.pending, 1, "jobs");
    Ok(())
}

async fn outlived(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    let job = lab.keep(under("key", 1, user)).await?;
    let lease = lab.take(NodeId::generate(), job).await?;
    lab.append(&lease, vec![super::lab::taken_up(), super::lab::ended(complete())]).await?;
    lab.store.release(job, lease.job.epoch).await?;
    lab.store.forget(job).await?;
    same!(lab.store.submit(under("key", 1, user)).await?, Submitted::Before(job), "the second");
    Ok(())
}

fn bounded(user: UserId, all: u32, per_user: u32) -> NewJob {
    NewJob { bounds: QueueBounds { all, per_user }, ..draft(user) }
}

async fn full(lab: &Lab) -> Result<(), Failure> {
    for _ in 0..3 {
        lab.keep(bounded(UserId::generate(), 3, 3)).await?;
    }
    let refused = bounded(UserId::generate(), 3, 3);
    let answer = lab.store.submit(refused.clone()).await?;
    same!(answer, Submitted::TooMany { own: false }, "the fourth");
    same!(lab.store.job(refused.spec.job).await?, None, "the fourth job");
    Ok(())
}

async fn full_user(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    lab.keep(bounded(user, 10, 2)).await?;
    let rests = lab.keep(bounded(user, 10, 2)).await?;
    lab.store.order(rests, crate::Order::Pause).await?;
    let answer = lab.store.submit(bounded(user, 10, 2)).await?;
    same!(answer, Submitted::TooMany { own: true }, "the third");
    lab.keep(bounded(UserId::generate(), 10, 2)).await?;
    Ok(())
}

async fn emptied(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    let job = lab.keep(bounded(user, 1, 1)).await?;
    let lease = lab.take(NodeId::generate(), job).await?;
    lab.append(&lease, vec![super::lab::taken_up()]).await?;
    let answer = lab.store.submit(bounded(user, 1, 1)).await?;
    check!(matches!(answer, Submitted::TooMany { .. }), "one beside a running job: {answer:?}");
    lab.append(&lease, vec![super::lab::ended(complete())]).await?;
    lab.keep(bounded(user, 1, 1)).await?;
    Ok(())
}

async fn repeated_when_full(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    let first = lab.keep(under("key", 1, user)).await?;
    let tight = QueueBounds { all: 0, per_user: 0 };
    let again = NewJob { bounds: tight, ..under("key", 1, user) };
    same!(lab.store.submit(again).await?, Submitted::Before(first), "a repeated one");
    let other = NewJob { bounds: tight, ..under("key", 2, user) };
    same!(lab.store.submit(other).await?, Submitted::KeyReused, "another under its key");
    let unkept = NewJob { bounds: tight, ..under("second", 1, user) };
    let answer = lab.store.submit(unkept.clone()).await?;
    check!(matches!(answer, Submitted::TooMany { .. }), "a new one: {answer:?}");
    // A key is used up only by a job that was kept.
    lab.keep(NewJob { bounds: PLENTY, ..unkept }).await?;
    Ok(())
}

async fn squeezed(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    let jobs = (0..40).map(|_| lab.store.submit(bounded(user, 100, 10)));
    let mut taken = 0;
    for answer in join_all(jobs).await {
        match answer? {
            Submitted::New => taken += 1,
            Submitted::TooMany { own: true } => {}
            other => return Err(Failure(format!("one was answered {other:?}"))),
        }
    }
    same!(taken, 10, "jobs taken");
    same!(lab.store.counts(Some(user)).await?.pending, 10, "jobs kept");
    Ok(())
}

async fn uploads(lab: &Lab) -> Result<(), Failure> {
    let user = UserId::generate();
    let id = UploadId::generate();
    let upload = Upload { id, user, blob: super::lab::blob("upload")?, at: NOW };
    lab.store.keep_upload(upload).await?;
    let with = |user, upload| NewJob { upload: Some(upload), ..draft(user) };
    let others = with(UserId::generate(), id);
    fails!(lab.store.submit(others).await, StoreError::Missing(_), "another's upload");
    let nowhere = with(user, UploadId::generate());
    fails!(lab.store.submit(nowhere).await, StoreError::Missing(_), "an upload that is not there");
    same!(lab.store.counts(None).await?.pending, 0, "jobs");
    let job = lab.keep(with(user, id)).await?;
    same!(lab.row(job).await?.upload, Some(id), "the upload of the row");
    same!(lab.store.expire(HOUR).await?, vec![], "uploads forgotten");
    Ok(())
}
