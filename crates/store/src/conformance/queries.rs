//! Questions about many jobs.

use cofferdam_types::{Ending, JobId};

use super::lab::{Failure, Lab, cancelled, check, complete, failed, same, taken_up};
use crate::ids::{NodeId, UserId};
use crate::job::Status;
use crate::order::Order;
use crate::query::{Counts, JobQuery};

super::promises! {
    about: "a store says what it is";
    newest: "jobs are listed newest first, page by page";
    filtered: "jobs are listed by user and by status";
    counted: "each job is counted once, where it is";
}

const ALL: JobQuery = JobQuery { user: None, statuses: Vec::new(), before: None, limit: 1000 };

async fn about(lab: &Lab) -> Result<(), Failure> {
    let about = lab.store.about().await?;
    check!(!about.engine.is_empty(), "no engine: {about:?}");
    check!(about.version.starts_with(|c: char| c.is_ascii_digit()), "no version: {about:?}");
    check!(!about.settings.is_empty(), "no settings: {about:?}");
    Ok(())
}

async fn list(lab: &Lab, query: JobQuery) -> Result<Vec<JobId>, Failure> {
    let rows = lab.store.jobs(query).await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

async fn newest(lab: &Lab) -> Result<(), Failure> {
    same!(list(lab, ALL).await?, vec![], "jobs of an empty store");
    let mut jobs = Vec::new();
    for n in 0..10 {
        jobs.push(lab.submit(UserId::generate()).await?);
        if n % 3 == 0 {
            lab.lease(NodeId::generate(), 1).await?;
        }
    }
    jobs.reverse();
    same!(list(lab, ALL).await?, jobs, "all jobs");
    let mut pages = Vec::new();
    loop {
        let before = pages.last().copied();
        let page = list(lab, JobQuery { before, limit: 3, ..ALL }).await?;
        check!(page.len() <= 3, "a page of 3 has {} jobs", page.len());
        if page.is_empty() {
            break;
        }
        pages.extend(page);
    }
    same!(pages, jobs, "all pages");
    same!(list(lab, JobQuery { limit: 0, ..ALL }).await?, vec![], "a page of nothing");
    let Some(row) = lab.store.jobs(JobQuery { limit: 1, ..ALL }).await?.pop() else {
        return Err(Failure("the newest is not listed".to_owned()));
    };
    same!(row, lab.row(row.id).await?, "a listed row");
    Ok(())
}

async fn over_of(lab: &Lab, user: UserId, ending: Ending) -> Result<JobId, Failure> {
    let job = lab.submit(user).await?;
    let lease = lab.take(NodeId::generate(), job).await?;
    lab.append(&lease, vec![taken_up(), super::lab::ended(ending)]).await?;
    lab.store.release(job, lease.job.epoch).await?;
    Ok(job)
}

async fn filtered(lab: &Lab) -> Result<(), Failure> {
    let (one, other) = (UserId::generate(), UserId::generate());
    let mut made = Vec::new();
    for user in [one, other, one] {
        made.push((user, Status::Complete, over_of(lab, user, complete()).await?));
        made.push((user, Status::Error, over_of(lab, user, failed()).await?));
        made.push((user, Status::Cancelled, over_of(lab, user, cancelled()).await?));
    }
    for user in [other, one] {
        let running = lab.submit(user).await?;
        let lease = lab.take(NodeId::generate(), running).await?;
        lab.append(&lease, vec![taken_up()]).await?;
        made.push((user, Status::Running, running));
    }
    made.push((one, Status::Pending, lab.submit(one).await?));
    made.reverse();
    let choices: [&[Status]; 7] = [
        &[],
        &[Status::Pending],
        &[Status::Complete],
        &[Status::Error, Status::Complete],
        &[Status::Running, Status::Pending],
        &[Status::Error, Status::Error],
        &Status::ALL,
    ];
    for user in [None, Some(one), Some(other), Some(UserId::generate())] {
        for statuses in choices {
            let wanted: Vec<JobId> = made
                .iter()
                .filter(|(owner, status, _)| {
                    user.is_none_or(|user| user == *owner)
                        && (statuses.is_empty() || statuses.contains(status))
                })
                .map(|(_, _, id)| *id)
                .collect();
            let query = JobQuery { user, statuses: statuses.to_vec(), ..ALL };
            let what = format!("{query:?}");
            same!(list(lab, query.clone()).await?, wanted, what);
            let second: Vec<JobId> = wanted.iter().copied().skip(1).take(2).collect();
            let before = wanted.first().copied();
            if before.is_some() {
                let query = JobQuery { before, limit: 2, ..query };
                same!(list(lab, query).await?, second, what);
            }
        }
    }
    Ok(())
}

async fn counted(lab: &Lab) -> Result<(), Failure> {
    same!(lab.store.counts(None).await?, Counts::default(), "an empty store");
    let (one, other) = (UserId::generate(), UserId::generate());
    over_of(lab, one, complete()).await?;
    over_of(lab, one, failed()).await?;
    over_of(lab, other, cancelled()).await?;
    let running = lab.submit(one).await?;
    let lease = lab.take(NodeId::generate(), running).await?;
    same!(lab.store.counts(Some(one)).await?.pending, 1, "leased, not yet taken up");
    lab.append(&lease, vec![taken_up()]).await?;
    lab.submit(one).await?;
    lab.submit(other).await?;
    let rests = lab.submit(other).await?;
    lab.store.order(rests, Order::Pause).await?;
    let base = Counts::default();
    let of_one = Counts { pending: 1, running: 1, complete: 1, error: 1, ..base };
    let of_other = Counts { pending: 1, paused: 1, cancelled: 1, ..base };
    let of_all = Counts { pending: 2, running: 1, paused: 1, complete: 1, error: 1, cancelled: 1 };
    same!(lab.store.counts(Some(one)).await?, of_one, "of one user");
    same!(lab.store.counts(Some(other)).await?, of_other, "of the other");
    same!(lab.store.counts(None).await?, of_all, "of all");
    same!(lab.store.counts(Some(UserId::generate())).await?, base, "of a stranger");
    // One that rests while it runs is counted among those that rest.
    lab.append(&lease, vec![cofferdam_types::Event::Paused]).await?;
    let of_one = Counts { running: 0, paused: 1, ..of_one };
    same!(lab.store.counts(Some(one)).await?, of_one, "of one user, after a pause");
    Ok(())
}
