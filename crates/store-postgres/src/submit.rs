//! New jobs.
//!
//! The bounds on what may wait are exact. Far from them submissions go side by
//! side; near them, one after the other.

use cofferdam_store::{JobRow, Line, NewJob, StoreError, Submitted, UserId};
use deadpool_postgres::Transaction;
use futures_util::future;
use tokio_postgres::Row;

use crate::database::{Connection, begin, commit, row, unchanged};
use crate::failure::{Attempt, Failure};
use crate::jobs::EVERYBODY;
use crate::rows::{job_id, key, number};

/// Held by each submission: shared far from the bounds, alone near them.
const SUBMITTING: i64 = 0x0c0f_fe7d_a300_0002;

/// So near a bound that submissions on all servers together might pass it: more
/// than these are never under way at once.
const NEAR: i64 = 256;

const KEEP: &str = "\
    WITH remembered AS (
        INSERT INTO keys (user_id, key, fingerprint, job)
        SELECT $2, $10, $11, $1 WHERE $10::bytea IS NOT NULL
        ON CONFLICT DO NOTHING RETURNING 1
    ), kept AS (
        INSERT INTO jobs
            (id, user_id, title, status, priority, created, spent, last_seq, upload)
        SELECT $1, $2, $3, $4, $5, $6, $7, 1, $8
        WHERE $10::bytea IS NULL OR EXISTS (SELECT FROM remembered)
        ON CONFLICT DO NOTHING RETURNING id
    ), begun AS (
        INSERT INTO events (job, seq, line) SELECT id, 1, $9 FROM kept
    )
    SELECT EXISTS (SELECT FROM remembered) AS remembered, EXISTS (SELECT FROM kept) AS kept";

/// Keeps a job.
pub(crate) async fn submit(
    connection: &mut Connection,
    job: &NewJob,
    in_doubt: bool,
) -> Attempt<Submitted> {
    let bounds = job.bounds;
    let near = |bound| i64::from(bound) <= NEAR;
    let mut alone = Alone { among_all: near(bounds.all), among_own: near(bounds.per_user) };
    loop {
        let transaction = begin(connection).await?;
        if let Some(before) = earlier(&transaction, job, in_doubt).await? {
            return unchanged(transaction, before).await;
        }
        match room(&transaction, job, alone).await? {
            Room::Enough => return keep(transaction, job).await,
            Room::None { own } => {
                return unchanged(transaction, Submitted::TooMany { own }).await;
            }
            // Not in this transaction: two that wait for each other to leave would
            // do so for ever.
            Room::Little(needed) => alone = needed,
        }
    }
}

/// Keeps a job for which there is room.
async fn keep(transaction: Transaction<'_>, job: &NewJob) -> Attempt<Submitted> {
    if let Some(upload) = job.upload {
        let sql = "SELECT 1 FROM uploads WHERE id = $1 AND user_id = $2 FOR KEY SHARE";
        if row(&transaction, sql, &[&upload.0, &job.user.0]).await?.is_none() {
            return Err(StoreError::Missing("upload").into());
        }
    }
    let first = Line::of(&job.first_record())?;
    let kept = JobRow::new(job);
    let spent = serde_json::to_string(&kept.spent)?;
    let idempotency = job.idempotency.as_ref();
    let outcome = row(
        &transaction,
        KEEP,
        &[
            &key(kept.id)?,
            &kept.user.0,
            &kept.title.as_bytes(),
            &kept.status.name(),
            &kept.priority,
            &number(kept.created.0),
            &spent,
            &kept.upload.map(|upload| upload.0),
            &first.text,
            &idempotency.map(|one| one.key.as_bytes()),
            &idempotency.map(|one| one.fingerprint.as_slice()),
        ],
    )
    .await?;
    let outcome = outcome.ok_or_else(|| Failure::broken("a submission said nothing"))?;
    if idempotency.is_some() && !outcome.get::<_, bool>("remembered") {
        // Another submission of this key was quicker: look what it was.
        return Err(Failure::Again("a key is submitted by many at once".to_owned()));
    }
    if !outcome.get::<_, bool>("kept") {
        return Err(StoreError::Taken("job").into());
    }
    commit(transaction).await?;
    Ok(Submitted::New)
}

/// What an earlier submission has made of it.
async fn earlier(
    transaction: &Transaction<'_>,
    job: &NewJob,
    in_doubt: bool,
) -> Attempt<Option<Submitted>> {
    if in_doubt {
        // The first event holds all that was asked for.
        let sql = "SELECT 1 FROM events WHERE job = $1 AND seq = 1 AND line = $2";
        let first = Line::of(&job.first_record())?;
        if row(transaction, sql, &[&key(job.spec.job)?, &first.text]).await?.is_some() {
            return Ok(Some(Submitted::New));
        }
    }
    let Some(idempotency) = &job.idempotency else { return Ok(None) };
    let sql = "SELECT fingerprint, job FROM keys WHERE user_id = $1 AND key = $2";
    let found = row(transaction, sql, &[&job.user.0, &idempotency.key.as_bytes()]).await?;
    let judge = |row: Row| {
        let fingerprint: &[u8] = row.try_get("fingerprint")?;
        if fingerprint == idempotency.fingerprint {
            Ok(Submitted::Before(job_id(row.try_get("job")?)?))
        } else {
            Ok(Submitted::KeyReused)
        }
    };
    found.map(judge).transpose()
}

/// Who else may submit at the same time: nobody, or all that do not need to be alone.
#[derive(Clone, Copy)]
struct Alone {
    /// Of all users.
    among_all: bool,
    /// Of this user.
    among_own: bool,
}

/// Whether there is room for a job.
enum Room {
    Enough,
    /// So little that it must be looked at alone.
    Little(Alone),
    None {
        own: bool,
    },
}

/// Whether there is room for a job. Stays so until the transaction ends.
async fn room(transaction: &Transaction<'_>, job: &NewJob, alone: Alone) -> Attempt<Room> {
    let lock = |alone| match alone {
        true => "SELECT pg_advisory_xact_lock($1)",
        false => "SELECT pg_advisory_xact_lock_shared($1)",
    };
    let counted = "SELECT \
        coalesce(sum(jobs) FILTER (WHERE user_id = $1), 0)::bigint AS own, \
        coalesce(sum(jobs) FILTER (WHERE user_id = $2), 0)::bigint AS everybody \
        FROM tallies WHERE user_id IN ($1, $2) AND kind IN ('pending', 'running', 'paused')";
    let all = transaction.prepare_cached(lock(alone.among_all)).await?;
    let own = transaction.prepare_cached(lock(alone.among_own)).await?;
    let counted = transaction.prepare_cached(counted).await?;
    // Sent in this order, and answered so.
    let (_, _, counted) = future::try_join3(
        transaction.query(&all, &[&SUBMITTING]),
        transaction.query(&own, &[&of_user(job.user)]),
        transaction.query_one(&counted, &[&job.user.0, &EVERYBODY.0]),
    )
    .await?;
    let own = i64::from(job.bounds.per_user) - counted.try_get::<_, i64>("own")?;
    let all = i64::from(job.bounds.all) - counted.try_get::<_, i64>("everybody")?;
    let needed = Alone {
        among_all: alone.among_all || all <= NEAR,
        among_own: alone.among_own || own <= NEAR,
    };
    Ok(if own <= 0 {
        Room::None { own: true }
    } else if all <= 0 {
        Room::None { own: false }
    } else if (needed.among_all, needed.among_own) != (alone.among_all, alone.among_own) {
        Room::Little(needed)
    } else {
        Room::Enough
    })
}

/// The number of the lock of a user's submissions.
fn of_user(user: UserId) -> i64 {
    let (high, low) = user.0.as_u64_pair();
    (high ^ low.rotate_left(32)).cast_signed()
}
