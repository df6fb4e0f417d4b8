//! Questions: one job, many jobs, their events, how many.

use cofferdam_store::{Counts, JobQuery, JobRow, Line, Status, StoreError, UserId};
use cofferdam_types::JobId;
use rusqlite::{Connection, params};

use crate::error::{broken, failed};
use crate::rows::{StoredJob, all, job_columns, job_key, text, unsigned};

/// Bytes of one page of events: with more, it ends before its limit.
const PAGE: usize = 8 << 20;

/// A job's row.
pub(crate) fn job(connection: &Connection, job: JobId) -> Result<Option<JobRow>, StoreError> {
    Ok(StoredJob::find(connection, job)?.map(|found| found.row))
}

/// Some jobs, the newest first.
pub(crate) fn jobs(connection: &Connection, query: &JobQuery) -> Result<Vec<JobRow>, StoreError> {
    // A job that changes its status between two statements is in one list, and one
    // only.
    let snapshot = connection.unchecked_transaction().map_err(failed)?;
    let rows = jobs_of(&snapshot, query)?;
    snapshot.commit().map_err(failed)?;
    Ok(rows)
}

fn jobs_of(connection: &Connection, query: &JobQuery) -> Result<Vec<JobRow>, StoreError> {
    // Above any id.
    let before = match query.before {
        Some(job) => job_key(job)?.to_vec(),
        None => vec![0xff; 17],
    };
    let statuses = || Status::ALL.into_iter().filter(|status| query.statuses.contains(status));
    match (query.user, query.statuses.is_empty()) {
        (None, true) => read_jobs(
            connection,
            concat!(
                "SELECT ",
                job_columns!(),
                " FROM jobs WHERE id < ?1 ORDER BY id DESC LIMIT ?2"
            ),
            params![before, query.limit],
        ),
        (None, false) => merge(statuses(), query.limit, |status| {
            read_jobs(
                connection,
                concat!(
                    "SELECT ",
                    job_columns!(),
                    " FROM jobs INDEXED BY jobs_by_status WHERE id < ?1 AND status = ?3 \
                     ORDER BY id DESC LIMIT ?2"
                ),
                params![before, query.limit, status.name()],
            )
        }),
        (Some(user), none) => {
            let of_user = |status: Status| {
                read_jobs(
                    connection,
                    concat!(
                        "SELECT ",
                        job_columns!(),
                        " FROM jobs INDEXED BY jobs_of_user \
                         WHERE id < ?1 AND status = ?3 AND user = ?4 ORDER BY id DESC LIMIT ?2"
                    ),
                    params![before, query.limit, status.name(), user.0.as_bytes()],
                )
            };
            if none {
                merge(Status::ALL.into_iter(), query.limit, of_user)
            } else {
                merge(statuses(), query.limit, of_user)
            }
        }
    }
}

/// The newest of what there is of each status. Each list comes sorted out of an
/// index; one list of all of them would have to be sorted whole.
fn merge(
    statuses: impl Iterator<Item = Status>,
    limit: u32,
    read: impl Fn(Status) -> Result<Vec<JobRow>, StoreError>,
) -> Result<Vec<JobRow>, StoreError> {
    let mut rows = Vec::new();
    for status in statuses {
        rows.extend(read(status)?);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.id));
    rows.truncate(limit as usize);
    Ok(rows)
}

fn read_jobs(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<JobRow>, StoreError> {
    all(connection, sql, parameters, |row| StoredJob::read(row).map(|job| job.row))
}

/// Where the tallies of a user, or of all, are.
pub(crate) fn tally_key(user: Option<UserId>) -> Vec<u8> {
    user.map(|user| user.0.as_bytes().to_vec()).unwrap_or_default()
}

/// How many jobs there are.
pub(crate) fn counts(connection: &Connection, user: Option<UserId>) -> Result<Counts, StoreError> {
    let tallies = all(
        connection,
        "SELECT state, jobs FROM tallies WHERE user = ?1",
        [tally_key(user)],
        |row| Ok((text(row, 0)?.to_owned(), unsigned(row, 1)?)),
    )?;
    let mut counts = Counts::default();
    for (state, jobs) in tallies {
        let count = match state.as_str() {
            "pending" => &mut counts.pending,
            "running" => &mut counts.running,
            "paused" => &mut counts.paused,
            "complete" => &mut counts.complete,
            "error" => &mut counts.error,
            "cancelled" => &mut counts.cancelled,
            other => return Err(broken(format!("jobs are counted as {other:?}"))),
        };
        *count = jobs;
    }
    Ok(counts)
}

/// A job's events after this one.
pub(crate) fn events(
    connection: &Connection,
    job: JobId,
    after: u64,
    limit: u32,
) -> Result<Vec<Line>, StoreError> {
    // There is nothing after a number that cannot be stored.
    let Ok(after) = i64::try_from(after) else { return Ok(Vec::new()) };
    let mut statement = connection
        .prepare_cached(
            "SELECT seq, text FROM events \
             WHERE job = (SELECT number FROM jobs WHERE id = ?1) AND seq > ?2 \
             ORDER BY seq LIMIT ?3",
        )
        .map_err(failed)?;
    let mut rows = statement.query(params![job_key(job)?, after, limit]).map_err(failed)?;
    let mut lines = Vec::new();
    let mut bytes = 0;
    while bytes < PAGE
        && let Some(row) = rows.next().map_err(failed)?
    {
        let line = Line { seq: unsigned(row, 0)?, text: text(row, 1)?.to_owned() };
        bytes += line.text.len();
        lines.push(line);
    }
    Ok(lines)
}
