//! Leases: by the clock of the database, under a number that only grows.

use std::time::Duration;

use cofferdam_store::{Lease, LeaseAsk, NodeId};
use cofferdam_types::JobId;
use deadpool_postgres::Transaction;
use uuid::Uuid;

use crate::database::{Connection, Value, begin, commit, execute, row, rows, unchanged, write};
use crate::failure::{Attempt, Failure};
use crate::rows::{JOB, job_id, job_row, key, micros, number};

/// Held while jobs are given away: two servers that did so at once would both count
/// a user's jobs before either has added to them.
const LEASING: i64 = 0x0c0f_fe7d_a300_0003;

/// What waits and is under no lease. The same words as the index `jobs_waiting`.
const WAITING: &str = "turn IS NOT NULL AND leased_until IS NULL";

/// Notes that a node is there. A statement of its own, before any other, so that
/// nobody waits for a lock while this becomes durable.
async fn seen(connection: &Connection, node: NodeId) -> Attempt<()> {
    let sql = "INSERT INTO nodes (node, seen) VALUES ($1, clock_timestamp()) \
               ON CONFLICT (node) DO UPDATE SET seen = excluded.seen";
    write(connection, sql, &[&node.0]).await.map(drop)
}

/// Leases jobs. `given` are those that an earlier attempt has given, if it happened.
pub(crate) async fn lease(
    connection: &mut Connection,
    ask: LeaseAsk,
    in_doubt: bool,
    given: &mut Vec<Lease>,
) -> Attempt<Vec<Lease>> {
    seen(connection, ask.node).await?;
    let transaction = begin(connection).await?;
    if in_doubt && happened(&transaction, given).await? {
        return unchanged(transaction, std::mem::take(given)).await;
    }
    rows(&transaction, "SELECT pg_advisory_xact_lock($1)", &[&LEASING]).await?;
    let ids = next(&transaction, ask).await?;
    if ids.is_empty() {
        commit(transaction).await?;
        return Ok(Vec::new());
    }
    // A lease may have been renewed since; one that has run out is its holder's until
    // it is taken here.
    let sql = format!(
        "WITH old AS (
            SELECT id AS old_id, node AS before FROM jobs
            WHERE id = ANY ($1) AND turn IS NOT NULL
                AND (leased_until IS NULL OR leased_until <= clock_timestamp())
            FOR UPDATE SKIP LOCKED
        )
        UPDATE jobs SET epoch = epoch + 1, node = $2,
            leased_until = clock_timestamp() + $3::bigint * interval '1 microsecond'
        FROM old WHERE id = old_id RETURNING {JOB}, before"
    );
    let leased = rows(&transaction, &sql, &[&ids, &ask.node.0, &micros(ask.span)]).await?;
    let mut leases = Vec::with_capacity(leased.len());
    for row in &leased {
        let before: Option<Uuid> = row.try_get("before")?;
        let place = ids.iter().position(|id| row.try_get::<_, Uuid>("id").ok() == Some(*id));
        leases.push((place, Lease { job: job_row(row)?, before: before.map(NodeId) }));
    }
    leases.sort_by_key(|(place, _)| *place);
    *given = leases.into_iter().map(|(_, lease)| lease).collect();
    serve(&transaction, given).await?;
    commit(transaction).await?;
    Ok(std::mem::take(given))
}

/// The jobs whose turn it is, the first first. What it costs depends on how many
/// users wait and how many leases there are, not on how many jobs wait. Whoever got
/// more in this call has waited less than whoever got fewer.
async fn next(transaction: &Transaction<'_>, ask: LeaseAsk) -> Attempt<Vec<Uuid>> {
    // A job's files are where it was begun.
    let free = "(node IS NULL OR node <> ALL (ARRAY(SELECT alive.node FROM alive)))";
    let room = "greatest(0, least($1::bigint, $2::bigint - coalesce(busy.jobs, 0)))";
    let sql = format!(
        "WITH RECURSIVE moment AS MATERIALIZED (
            SELECT clock_timestamp() AS now
        ), alive AS MATERIALIZED (
            SELECT nodes.node FROM nodes, moment
            WHERE nodes.node <> $3 AND seen > now - $4::bigint * interval '1 microsecond'
        ), waiting AS (
            (SELECT user_id FROM jobs WHERE {WAITING} ORDER BY user_id LIMIT 1)
            UNION ALL
            SELECT (SELECT user_id FROM jobs WHERE {WAITING} AND jobs.user_id > waiting.user_id
                    ORDER BY user_id LIMIT 1)
            FROM waiting WHERE waiting.user_id IS NOT NULL
        ), lapsed AS MATERIALIZED (
            SELECT id, user_id, turn, priority FROM jobs
            WHERE leased_until <= (SELECT now FROM moment) AND turn IS NOT NULL AND {free}
        ), takers AS (
            SELECT user_id FROM waiting WHERE user_id IS NOT NULL
            UNION
            SELECT user_id FROM lapsed
        ), busy AS (
            SELECT user_id, count(*) AS jobs FROM jobs
            WHERE leased_until > (SELECT now FROM moment) GROUP BY user_id
        )
        SELECT own.id FROM takers LEFT JOIN busy USING (user_id) LEFT JOIN served USING (user_id),
        LATERAL (
            SELECT id, turn, priority,
                row_number() OVER (ORDER BY turn DESC, priority DESC, id) AS place
            FROM (
                (SELECT id, turn, priority FROM jobs
                WHERE {WAITING} AND jobs.user_id = takers.user_id AND {free}
                ORDER BY turn DESC, priority DESC, id LIMIT {room})
                UNION ALL
                SELECT id, turn, priority FROM lapsed WHERE lapsed.user_id = takers.user_id
            ) AS all_of_user
            ORDER BY turn DESC, priority DESC, id LIMIT {room}
        ) own
        ORDER BY own.turn DESC, priority DESC, place + coalesce(busy.jobs, 0), place,
            coalesce(served.turn, 0), own.id
        LIMIT $1"
    );
    let (most, per_user) = (i64::from(ask.most), i64::from(ask.per_user));
    let values: [Value<'_>; 4] = [&most, &per_user, &ask.node.0, &micros(ask.span)];
    let found = rows(transaction, &sql, &values).await?;
    found.iter().map(|row| row.try_get("id").map_err(Failure::from)).collect()
}

/// Notes that these users had a turn, the last of each.
async fn serve(transaction: &Transaction<'_>, given: &[Lease]) -> Attempt<()> {
    let users: Vec<Uuid> = given.iter().map(|lease| lease.job.user.0).collect();
    let sql = "INSERT INTO served (user_id, turn) SELECT user_id, nextval('turns') FROM (
            SELECT user_id FROM unnest($1::uuid[]) WITH ORDINALITY AS given (user_id, place)
            GROUP BY user_id ORDER BY max(place)
        ) AS latest
        ON CONFLICT (user_id) DO UPDATE SET turn = excluded.turn";
    execute(transaction, sql, &[&users]).await.map(drop)
}

/// Whether these leases were given: all were, or none.
async fn happened(transaction: &Transaction<'_>, given: &[Lease]) -> Attempt<bool> {
    let Some(lease) = given.first() else { return Ok(false) };
    let sql = "SELECT 1 FROM jobs WHERE id = $1 AND epoch = $2 AND leased_until IS NOT NULL \
               AND node = $3 FOR UPDATE";
    let node = lease.job.node.map(|node| node.0);
    let values = (key(lease.job.id)?, number(lease.job.epoch), node);
    Ok(row(transaction, sql, &[&values.0, &values.1, &values.2]).await?.is_some())
}

/// Makes leases last longer; returns those that are not the node's.
pub(crate) async fn renew(
    connection: &mut Connection,
    node: NodeId,
    held: &[(JobId, u64)],
    span: Duration,
) -> Attempt<Vec<JobId>> {
    seen(connection, node).await?;
    let jobs = held.iter().map(|(job, _)| key(*job)).collect::<Attempt<Vec<_>>>()?;
    let epochs: Vec<i64> = held.iter().map(|(_, epoch)| number(*epoch)).collect();
    // Locked in one order by all, so that nobody waits in a circle.
    let sql = "WITH mine AS (
            SELECT id AS mine FROM jobs
            JOIN unnest($1::uuid[], $2::bigint[]) AS held (job, fence) ON id = job AND epoch = fence
            WHERE node = $3 AND leased_until IS NOT NULL ORDER BY id FOR UPDATE OF jobs
        )
        UPDATE jobs SET leased_until = clock_timestamp() + $4::bigint * interval '1 microsecond'
        FROM mine WHERE id = mine RETURNING id";
    let renewed = rows(connection, sql, &[&jobs, &epochs, &node.0, &micros(span)]).await;
    let renewed =
        renewed?.iter().map(|row| job_id(row.try_get("id")?)).collect::<Attempt<Vec<_>>>();
    let renewed = renewed?;
    Ok(held.iter().map(|(job, _)| *job).filter(|job| !renewed.contains(job)).collect())
}

/// Gives a lease back; whether there was one.
pub(crate) async fn release(connection: &Connection, job: JobId, epoch: u64) -> Attempt<bool> {
    let sql = "UPDATE jobs SET leased_until = NULL \
               WHERE id = $1 AND epoch = $2 AND leased_until IS NOT NULL";
    Ok(write(connection, sql, &[&key(job)?, &number(epoch)]).await? > 0)
}

/// Ends all leases of a node.
pub(crate) async fn reclaim(connection: &Connection, node: NodeId) -> Attempt<u64> {
    seen(connection, node).await?;
    let sql = "WITH old AS (SELECT id AS old FROM jobs WHERE node = $1 \
               AND leased_until IS NOT NULL ORDER BY id FOR UPDATE) \
               UPDATE jobs SET leased_until = NULL FROM old WHERE id = old";
    write(connection, sql, &[&node.0]).await
}
