//! How a job's log grows: without gaps, by whoever holds the lease, and the row
//! with it.

use cofferdam_types::{Ending, Event, JobId, Limit, Record, Timestamp};
use futures_util::future::join_all;

use super::lab::{
    Failure, Lab, cancelled, check, complete, ended, failed, fails, noted, records, same, taken_up,
};
use crate::error::StoreError;
use crate::ids::NodeId;
use crate::job::{Line, Status};
use crate::lease::Append;
use crate::project::project;

super::promises! {
    appended: "events come back in order, byte for byte, page by page";
    projected: "after each append the row is what the log says";
    statuses: "each ending gives the row its status";
    gapped: "events that are not the next are refused, whole";
    unheld: "nobody appends without a lease";
    unstorable: "events that cannot be stored leave nothing behind, and their order unheard";
    strange: "nothing is appended to a job that is not there";
    texts: "events of any text come back as they were";
    big: "an event of 16 MB comes back as it was";
    raced: "of appends at once with one number, one is kept";
    side_by_side: "many jobs can be appended to at once";
}

async fn appended(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.leased(NodeId::generate()).await?;
    let job = lease.job.id;
    let mut wanted = lab.events(job).await?;
    for size in [1, 3, 20] {
        let last = lab.row(job).await?.last_seq;
        let batch = records(last + 1, (0..size).map(|n| noted(&format!("event {n}"))).collect());
        for record in &batch {
            wanted.push(Line::of(record)?);
        }
        let epoch = lease.job.epoch;
        lab.store.append(Append { job, epoch, records: batch, heard: None }).await?;
    }
    same!(lab.events(job).await?, wanted, "the events");
    same!(lab.row(job).await?.last_seq, 25, "the last number");
    let page = lab.store.events(job, 20, 3).await?;
    same!(page.iter().map(|line| line.seq).collect::<Vec<_>>(), vec![21, 22, 23], "a page");
    same!(lab.store.events(job, 24, 100).await?.len(), 1, "events of the last page");
    same!(lab.store.events(job, 25, 100).await?, vec![], "events after the last");
    same!(lab.store.events(job, u64::MAX, 100).await?, vec![], "events after any");
    same!(lab.store.events(job, 0, 0).await?, vec![], "a page of nothing");
    Ok(())
}

async fn projected(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.leased(NodeId::generate()).await?;
    let batches = [
        vec![taken_up()],
        vec![noted("a"), noted("b")],
        vec![Event::Paused],
        vec![taken_up(), noted("c"), ended(failed())],
        vec![taken_up()],
        vec![Event::Paused, ended(cancelled())],
        vec![taken_up(), ended(complete())],
    ];
    for events in batches {
        let mut wanted = lab.row(lease.job.id).await?;
        for record in records(wanted.last_seq + 1, events.clone()) {
            project(&mut wanted, &record);
        }
        lab.append(&lease, events.clone()).await?;
        same!(lab.row(lease.job.id).await?, wanted, format!("the row after {events:?}"));
    }
    Ok(())
}

async fn statuses(lab: &Lab) -> Result<(), Failure> {
    let endings = [
        (complete(), Status::Complete),
        (Ending::Unverified { summary: "🦀\0".to_owned() }, Status::Error),
        (failed(), Status::Error),
        (Ending::LimitReached { limit: Limit::Cost }, Status::Error),
        (Ending::ModelUnavailable { reason: "no key".to_owned() }, Status::Error),
        (Ending::SandboxUnavailable { reason: "no room".to_owned() }, Status::Error),
        (cancelled(), Status::Cancelled),
    ];
    for (ending, status) in endings {
        let job = lab.over(ending.clone()).await?;
        let row = lab.row(job).await?;
        same!(row.status, status, format!("the status after {ending:?}"));
        same!(row.ending, Some(ending), "how it ended");
        check!(row.ended.is_some() && row.started.is_some(), "times are missing: {row:?}");
    }
    Ok(())
}

async fn refused(lab: &Lab, append: Append, what: &str) -> Result<(), Failure> {
    let job = append.job;
    let before = (lab.row(job).await?, lab.events(job).await?);
    fails!(lab.store.append(append).await, StoreError::Fenced, what);
    same!((lab.row(job).await?, lab.events(job).await?), before, what);
    Ok(())
}

async fn gapped(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let (job, epoch) = (lease.job.id, lease.job.epoch);
    let next = lease.job.last_seq + 1;
    let append = |records: Vec<Record>| Append { job, epoch, records, heard: None };
    for first in [0, 1, next - 1, next + 1, next + 1000] {
        let batch = records(first, vec![noted("a"), ended(complete())]);
        refused(lab, append(batch), &format!("{first} in place of {next}")).await?;
    }
    let hole = [records(next, vec![noted("a")]), records(next + 2, vec![noted("b")])].concat();
    refused(lab, append(hole), "a batch with a hole").await?;
    let twice = [records(next, vec![noted("a")]), records(next, vec![noted("b")])].concat();
    refused(lab, append(twice), "a batch with a number twice").await?;
    lab.append(&lease, vec![noted("c")]).await
}

async fn unheld(lab: &Lab) -> Result<(), Failure> {
    let job = lab.submit(crate::UserId::generate()).await?;
    for epoch in [0, 1] {
        let records = records(2, vec![noted("a")]);
        refused(lab, Append { job, epoch, records, heard: None }, "nobody's append").await?;
    }
    let lease = lab.take(NodeId::generate(), job).await?;
    for epoch in [0, lease.job.epoch.saturating_sub(1), lease.job.epoch + 1] {
        let records = records(2, vec![noted("a")]);
        refused(lab, Append { job, epoch, records, heard: None }, "another epoch's").await?;
    }
    Ok(())
}

async fn unstorable(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let (job, epoch) = (lease.job.id, lease.job.epoch);
    let heard = Some(lab.kept(job, super::lab::say("hello")).await?);
    let before = (lab.row(job).await?, lab.events(job).await?, lab.unheard(job).await?);
    let mut batch = records(lease.job.last_seq + 1, vec![noted("a"), ended(complete())]);
    for record in &mut batch {
        record.at = Timestamp(u64::MAX);
    }
    // A store that has a place for such a time may keep it.
    if lab.store.append(Append { job, epoch, records: batch, heard }).await.is_err() {
        let after = (lab.row(job).await?, lab.events(job).await?, lab.unheard(job).await?);
        same!(after, before, "the job");
        lab.append(&lease, vec![noted("b")]).await?;
    }
    Ok(())
}

async fn strange(lab: &Lab) -> Result<(), Failure> {
    let job = JobId::generate();
    let append = Append { job, epoch: 1, records: records(1, vec![noted("a")]), heard: None };
    let outcome = lab.store.append(append).await;
    fails!(outcome, StoreError::Fenced | StoreError::Missing(_), "a job that is not there");
    same!(lab.store.events(job, 0, 10).await?, vec![], "its events");
    Ok(())
}

async fn texts(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let texts = [
        "",
        "\0",
        "a\0b",
        "🦀👩‍👩‍👧‍👦",
        "\u{feff}\u{202e}\u{10ffff}",
        "\r\n\t\u{7f}",
        "\"'\\u0000",
        "$1 ?1 :a",
    ];
    let mut wanted = lab.events(lease.job.id).await?;
    for text in texts {
        let next = wanted.len() as u64 + 1;
        for record in records(next, vec![noted(text)]) {
            wanted.push(Line::of(&record)?);
        }
        lab.append(&lease, vec![noted(text)]).await?;
    }
    same!(lab.events(lease.job.id).await?, wanted, "the events");
    Ok(())
}

async fn big(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let text = "0123456789abcde\u{e9}".repeat(1 << 20);
    check!(text.len() > 16 << 20, "the case is too small");
    lab.append(&lease, vec![noted("before"), noted(&text), noted("after")]).await?;
    let lines = lab.events(lease.job.id).await?;
    same!(lines.len(), 5, "events");
    let mut found = lines.iter().filter(|line| line.text.len() > 1000);
    let record = found.next().map(Line::record).transpose()?;
    check!(record.is_some_and(|record| record.event == noted(&text)), "it is another");
    lab.append(&lease, vec![noted("more")]).await
}

async fn raced(lab: &Lab) -> Result<(), Failure> {
    let lease = lab.running(NodeId::generate()).await?;
    let (job, epoch) = (lease.job.id, lease.job.epoch);
    for round in 0..5 {
        let next = lab.row(job).await?.last_seq + 1;
        let calls = (0..10).map(|n| {
            let records = records(next, vec![noted(&format!("{round} {n}"))]);
            lab.store.append(Append { job, epoch, records, heard: None })
        });
        let mut kept = 0;
        for outcome in join_all(calls).await {
            match outcome {
                Ok(()) => kept += 1,
                Err(StoreError::Fenced) => {}
                Err(other) => return Err(other.into()),
            }
        }
        same!(kept, 1, "appends that were kept");
        same!(lab.row(job).await?.last_seq, next, "the last number");
    }
    lab.events(job).await?;
    Ok(())
}

async fn side_by_side(lab: &Lab) -> Result<(), Failure> {
    let mut leases = Vec::new();
    for _ in 0..8 {
        leases.push(lab.leased(NodeId::generate()).await?);
    }
    let work = leases.iter().map(|lease| async {
        for n in 0..20 {
            lab.append(lease, vec![noted(&n.to_string()), noted("and")]).await?;
        }
        same!(lab.events(lease.job.id).await?.len(), 41, "events of one job");
        Ok(())
    });
    join_all(work).await.into_iter().collect()
}
