//! How a job comes in: its row, its first event and its key, all or none.

use cofferdam_store::{Change, JobRow, Line, NewJob, StoreError, Submitted, UserId};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use crate::append::insert_events;
use crate::clock;
use crate::error::{failed, unless_taken};
use crate::rows::{execute, job_id, job_key, time, to_json, value};

/// Keeps a new job.
pub(crate) fn submit(
    connection: &Connection,
    job: &NewJob,
    first: &Line,
    news: &mut Vec<Change>,
) -> Result<Submitted, StoreError> {
    if let Some(answer) = known_key(connection, job)? {
        return Ok(answer);
    }
    if let Some(own) = too_many(connection, job)? {
        return Ok(Submitted::TooMany { own });
    }
    check_upload(connection, job)?;
    let row = JobRow::new(job);
    let number = insert(connection, &row)?;
    insert_events(connection, number, std::slice::from_ref(first))?;
    if let Some(idempotency) = &job.idempotency {
        execute(
            connection,
            "INSERT INTO keys (user, key, fingerprint, job, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                job.user.0.as_bytes(),
                idempotency.key,
                idempotency.fingerprint,
                job_key(row.id)?,
                clock::now()
            ],
        )?;
    }
    news.push(Change::Events { job: row.id, last: 1 });
    news.push(Change::Queue);
    Ok(Submitted::New)
}

/// The answer to a key that was used before.
fn known_key(connection: &Connection, job: &NewJob) -> Result<Option<Submitted>, StoreError> {
    let Some(idempotency) = &job.idempotency else { return Ok(None) };
    let mut statement = connection
        .prepare_cached("SELECT fingerprint, job FROM keys WHERE user = ?1 AND key = ?2")
        .map_err(failed)?;
    let found: Option<([u8; 32], [u8; 16])> = statement
        .query_row(params![job.user.0.as_bytes(), idempotency.key], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()
        .map_err(failed)?;
    let Some((fingerprint, before)) = found else { return Ok(None) };
    if fingerprint == idempotency.fingerprint {
        return job_id(Uuid::from_bytes(before)).map(|id| Some(Submitted::Before(id)));
    }
    Ok(Some(Submitted::KeyReused))
}

/// Whether there is no room for another, and whether that is the user's own doing.
fn too_many(connection: &Connection, job: &NewJob) -> Result<Option<bool>, StoreError> {
    if not_over(connection, Some(job.user))? >= i64::from(job.bounds.per_user) {
        return Ok(Some(true));
    }
    if not_over(connection, None)? >= i64::from(job.bounds.all) {
        return Ok(Some(false));
    }
    Ok(None)
}

fn not_over(connection: &Connection, user: Option<UserId>) -> Result<i64, StoreError> {
    let count = value(
        connection,
        "SELECT coalesce(sum(jobs), 0) FROM tallies \
         WHERE user = ?1 AND state IN ('pending', 'running', 'paused')",
        [crate::queries::tally_key(user)],
    )?;
    Ok(count.unwrap_or(0))
}

fn check_upload(connection: &Connection, job: &NewJob) -> Result<(), StoreError> {
    let Some(upload) = job.upload else { return Ok(()) };
    let owner: Option<[u8; 16]> =
        value(connection, "SELECT user FROM uploads WHERE id = ?1", [upload.0.as_bytes()])?;
    let own = owner.is_some_and(|owner| owner == *job.user.0.as_bytes());
    if own { Ok(()) } else { Err(StoreError::Missing("upload")) }
}

/// Inserts a row; returns its number.
fn insert(connection: &Connection, row: &JobRow) -> Result<i64, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "INSERT INTO jobs (id, user, title, status, paused, priority, created, spent, \
             last_seq, upload, epoch) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, 0)",
        )
        .map_err(failed)?;
    statement
        .insert(params![
            job_key(row.id)?,
            row.user.0.as_bytes(),
            row.title,
            row.status.name(),
            row.paused,
            row.priority,
            time(row.created)?,
            to_json(&row.spent)?,
            row.upload.map(|upload| upload.0.into_bytes()),
        ])
        .map_err(unless_taken("job"))
}
