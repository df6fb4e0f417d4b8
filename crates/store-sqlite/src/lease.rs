//! Whose turn it is, and who works on a job.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use cofferdam_store::{Change, Lease, LeaseAsk, NodeId, StoreError};
use cofferdam_types::JobId;
use rusqlite::{Connection, Row, params};

use crate::clock;
use crate::error::{failed, number};
use crate::rows::{StoredJob, all, execute, job_columns, job_key};

type UserKey = [u8; 16];

/// A job that no other node has begun, unless that one was not seen for too long:
/// `?1` asks, and `?2` is when another must have been seen to be there.
macro_rules! free {
    () => {
        " AND (node IS NULL OR node = ?1 OR NOT EXISTS (SELECT 1 FROM nodes \
          WHERE nodes.node = jobs.node AND seen > ?2)) "
    };
}

/// Who asks for leases, and who else is there.
struct Asker<'a> {
    node: &'a [u8; 16],
    /// Whoever was seen after this is there.
    since: i64,
}

/// A job that can be leased, and what its place in the queue hangs on.
#[derive(Clone, Copy)]
struct Candidate {
    number: i64,
    user: UserKey,
    /// More for one that was begun, and most for one that somebody wants to stop.
    turn: i64,
    priority: i64,
    id: [u8; 16],
}

impl Candidate {
    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let read = || {
            Ok(Self {
                number: row.get(0)?,
                user: row.get(1)?,
                turn: row.get(2)?,
                priority: row.get(3)?,
                id: row.get(4)?,
            })
        };
        read().map_err(failed)
    }

    /// Its place: less goes first. `running` is how many of its user's jobs run, and
    /// `served` when the user last had a turn.
    fn place(&self, running: u32, served: i64) -> (Reverse<i64>, Reverse<i64>, u32, i64, [u8; 16]) {
        (Reverse(self.turn), Reverse(self.priority), running, served, self.id)
    }
}

/// Leases jobs that nobody works on.
///
/// Each user has a queue in the index of waiting jobs, and the heads of all queues
/// are compared: how many wait behind them makes no difference.
pub(crate) fn lease(connection: &Connection, ask: &LeaseAsk) -> Result<Vec<Lease>, StoreError> {
    let now = clock::now();
    seen(connection, ask.node, now)?;
    let since = now.saturating_sub(clock::millis(ask.span));
    let asker = Asker { node: ask.node.0.as_bytes(), since };
    let mut running = running(connection, now)?;
    let mut served = served(connection)?;
    let mut heads = heads(connection, &asker)?;
    let mut lapsed = lapsed(connection, &asker, now)?;
    let mut leases = Vec::new();
    while leases.len() < ask.most as usize {
        let runs = |candidate: &Candidate| running.get(&candidate.user).copied().unwrap_or(0);
        let best = heads
            .values()
            .chain(&lapsed)
            .filter(|candidate| runs(candidate) < ask.per_user)
            .min_by_key(|candidate| {
                let served = served.get(&candidate.user).copied().unwrap_or(0);
                candidate.place(runs(candidate), served)
            })
            .copied();
        let Some(best) = best else { break };
        leases.push(take(connection, best.number, ask, now)?);
        *running.entry(best.user).or_default() += 1;
        let turn = served.values().copied().max().unwrap_or(0) + 1;
        served.insert(best.user, turn);
        serve(connection, &best.user, turn)?;
        if heads.get(&best.user).is_some_and(|head| head.number == best.number) {
            heads.remove(&best.user);
            if let Some(next) = head_of(connection, &asker, &best.user)? {
                heads.insert(best.user, next);
            }
        } else {
            lapsed.retain(|candidate| candidate.number != best.number);
        }
    }
    Ok(leases)
}

/// Notes that a node is there.
fn seen(connection: &Connection, node: NodeId, now: i64) -> Result<(), StoreError> {
    execute(
        connection,
        "INSERT INTO nodes (node, seen) VALUES (?1, ?2) \
         ON CONFLICT (node) DO UPDATE SET seen = excluded.seen",
        params![node.0.as_bytes(), now],
    )
    .map(drop)
}

/// When each user last had a turn, counted in turns.
fn served(connection: &Connection) -> Result<HashMap<UserKey, i64>, StoreError> {
    let rows = all(connection, "SELECT user, turn FROM served", [], |row| {
        Ok((row.get(0).map_err(failed)?, row.get(1).map_err(failed)?))
    })?;
    Ok(rows.into_iter().collect())
}

fn serve(connection: &Connection, user: &UserKey, turn: i64) -> Result<(), StoreError> {
    execute(
        connection,
        "INSERT INTO served (user, turn) VALUES (?1, ?2) \
         ON CONFLICT (user) DO UPDATE SET turn = excluded.turn",
        params![user, turn],
    )?;
    Ok(())
}

/// How many jobs of each user are worked on.
fn running(connection: &Connection, now: i64) -> Result<HashMap<UserKey, u32>, StoreError> {
    let rows = all(
        connection,
        "SELECT user, count(*) FROM jobs INDEXED BY jobs_leased \
         WHERE lease_until > ?1 GROUP BY user",
        [now],
        |row| Ok((row.get(0).map_err(failed)?, row.get(1).map_err(failed)?)),
    )?;
    Ok(rows.into_iter().collect())
}

/// The first of each user's waiting jobs.
fn heads(
    connection: &Connection,
    asker: &Asker<'_>,
) -> Result<HashMap<UserKey, Candidate>, StoreError> {
    let mut statement = connection
        .prepare_cached(concat!(
            "SELECT number, user, turn, priority, id FROM jobs INDEXED BY jobs_waiting \
             WHERE lease_until IS NULL AND turn IS NOT NULL AND user > ?3",
            free!(),
            "ORDER BY user, turn DESC, priority DESC, id LIMIT 1",
        ))
        .map_err(failed)?;
    let mut heads = HashMap::new();
    // Less than any id.
    let mut after: Vec<u8> = Vec::new();
    loop {
        let mut rows = statement.query(params![asker.node, asker.since, after]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(heads) };
        let head = Candidate::read(row)?;
        after = head.user.to_vec();
        heads.insert(head.user, head);
    }
}

/// The first of a user's waiting jobs.
fn head_of(
    connection: &Connection,
    asker: &Asker<'_>,
    user: &UserKey,
) -> Result<Option<Candidate>, StoreError> {
    let found = all(
        connection,
        concat!(
            "SELECT number, user, turn, priority, id FROM jobs INDEXED BY jobs_waiting \
             WHERE lease_until IS NULL AND turn IS NOT NULL AND user = ?3",
            free!(),
            "ORDER BY turn DESC, priority DESC, id LIMIT 1",
        ),
        params![asker.node, asker.since, user],
        Candidate::read,
    )?;
    Ok(found.into_iter().next())
}

/// Jobs whose lease has run out without being given back. It is its holder's all the
/// same until somebody takes the job.
fn lapsed(
    connection: &Connection,
    asker: &Asker<'_>,
    now: i64,
) -> Result<Vec<Candidate>, StoreError> {
    all(
        connection,
        concat!(
            "SELECT number, user, turn, priority, id FROM jobs INDEXED BY jobs_leased \
             WHERE lease_until <= ?3 AND turn IS NOT NULL",
            free!(),
        ),
        params![asker.node, asker.since, now],
        Candidate::read,
    )
}

fn take(
    connection: &Connection,
    number: i64,
    ask: &LeaseAsk,
    now: i64,
) -> Result<Lease, StoreError> {
    let mut found = all(
        connection,
        concat!("SELECT ", job_columns!(), " FROM jobs WHERE number = ?1"),
        [number],
        StoredJob::read,
    )?;
    let mut job = found.pop().ok_or(StoreError::Missing("job"))?.row;
    let before = job.node.replace(ask.node);
    job.epoch += 1;
    execute(
        connection,
        "UPDATE jobs SET node = ?2, epoch = ?3, lease_until = ?4 WHERE number = ?1",
        params![
            number,
            ask.node.0.as_bytes(),
            self::number(job.epoch)?,
            now.saturating_add(clock::millis(ask.span))
        ],
    )?;
    Ok(Lease { job, before })
}

/// Makes leases last; returns those that are no longer the node's.
pub(crate) fn renew(
    connection: &Connection,
    node: NodeId,
    held: &[(JobId, u64)],
    span: Duration,
) -> Result<Vec<JobId>, StoreError> {
    let now = clock::now();
    seen(connection, node, now)?;
    let until = now.saturating_add(clock::millis(span));
    let mut lost = Vec::new();
    for (job, epoch) in held {
        let renewed = execute(
            connection,
            "UPDATE jobs SET lease_until = ?4 \
             WHERE id = ?1 AND epoch = ?2 AND node = ?3 AND lease_until IS NOT NULL",
            params![job_key(*job)?, number(*epoch)?, node.0.as_bytes(), until],
        )?;
        if renewed == 0 {
            lost.push(*job);
        }
    }
    Ok(lost)
}

/// Gives a lease back.
pub(crate) fn release(
    connection: &Connection,
    job: JobId,
    epoch: u64,
    news: &mut Vec<Change>,
) -> Result<(), StoreError> {
    let released = execute(
        connection,
        "UPDATE jobs SET lease_until = NULL \
         WHERE id = ?1 AND epoch = ?2 AND lease_until IS NOT NULL",
        params![job_key(job)?, number(epoch)?],
    )?;
    // Even if the job is over: its user may have another one run.
    if released > 0 {
        news.push(Change::Queue);
    }
    Ok(())
}

/// Ends all leases of a node; returns how many.
pub(crate) fn reclaim(
    connection: &Connection,
    node: NodeId,
    news: &mut Vec<Change>,
) -> Result<u64, StoreError> {
    seen(connection, node, clock::now())?;
    let ended = execute(
        connection,
        "UPDATE jobs INDEXED BY jobs_leased SET lease_until = NULL \
         WHERE lease_until IS NOT NULL AND node = ?1",
        [node.0.as_bytes()],
    )?;
    if ended > 0 {
        news.push(Change::Queue);
    }
    Ok(u64::try_from(ended).unwrap_or(u64::MAX))
}
