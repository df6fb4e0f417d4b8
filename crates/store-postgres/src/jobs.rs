//! Questions about jobs, and forgetting them.

use cofferdam_store::{Artifact, Counts, JobQuery, JobRow, Line, Status, StoreError, UserId};
use cofferdam_types::JobId;
use uuid::Uuid;

use crate::database::{Connection, Value, begin, commit, row, rows};
use crate::failure::{Attempt, Failure};
use crate::rows::{JOB, artifact, count, job_row, key, number};

/// Under whom the tallies of all users are.
pub(crate) const EVERYBODY: UserId = UserId(Uuid::nil());

/// A job's row.
pub(crate) async fn job(connection: &Connection, job: JobId) -> Attempt<Option<JobRow>> {
    let sql = format!("SELECT {JOB} FROM jobs WHERE id = $1");
    row(connection, &sql, &[&key(job)?]).await?.as_ref().map(job_row).transpose()
}

/// Some jobs, the newest first.
pub(crate) async fn jobs(connection: &Connection, query: &JobQuery) -> Attempt<Vec<JobRow>> {
    let limit = i64::from(query.limit);
    let before = query.before.map(key).transpose()?;
    let statuses: Vec<&str> = query.statuses.iter().map(|status| status.name()).collect();
    let mut values: Vec<Value<'_>> = vec![&limit];
    let mut conditions = vec!["true".to_owned()];
    if let Some(user) = &query.user {
        values.push(&user.0);
        conditions.push(format!("user_id = ${}", values.len()));
    }
    if let Some(before) = &before {
        values.push(before);
        conditions.push(format!("id < ${}", values.len()));
    }
    let mut wanted = conditions.join(" AND ");
    // Each status has its own stretch of an index, in the order that is asked for.
    let sql = if statuses.is_empty() {
        format!("SELECT {JOB} FROM jobs WHERE {wanted} ORDER BY id DESC LIMIT $1")
    } else {
        values.push(&statuses);
        wanted.push_str(" AND status = wanted.status");
        format!(
            "SELECT found.* FROM (SELECT DISTINCT unnest(${}::text[]) AS status) wanted, \
             LATERAL (SELECT {JOB} FROM jobs WHERE {wanted} ORDER BY id DESC LIMIT $1) found \
             ORDER BY id DESC LIMIT $1",
            values.len(),
        )
    };
    rows(connection, &sql, &values).await?.iter().map(job_row).collect()
}

/// How many jobs there are.
pub(crate) async fn counts(connection: &Connection, user: Option<UserId>) -> Attempt<Counts> {
    let sql = "SELECT kind, sum(jobs)::bigint AS jobs FROM tallies WHERE user_id = $1 \
               GROUP BY kind";
    let mut counts = Counts::default();
    for row in rows(connection, sql, &[&user.unwrap_or(EVERYBODY).0]).await? {
        let kind: &str = row.try_get("kind")?;
        let place = match Status::from_name(kind) {
            None if kind == "paused" => &mut counts.paused,
            Some(Status::Pending) => &mut counts.pending,
            Some(Status::Running) => &mut counts.running,
            Some(Status::Complete) => &mut counts.complete,
            Some(Status::Error) => &mut counts.error,
            Some(Status::Cancelled) => &mut counts.cancelled,
            None => return Err(Failure::broken(format!("there are jobs that are {kind}"))),
        };
        *place = count(&row, "jobs")?;
    }
    Ok(counts)
}

/// Bytes of events after which a page is full.
const PAGE: i64 = 8 << 20;

/// A job's events after this one.
pub(crate) async fn events(
    connection: &Connection,
    job: JobId,
    after: u64,
    limit: u32,
) -> Attempt<Vec<Line>> {
    let sql = "SELECT seq, line FROM ( \
                 SELECT seq, line, sum(octet_length(line)) OVER (ORDER BY seq) \
                   - octet_length(line) AS before \
                 FROM (SELECT seq, line FROM events WHERE job = $1 AND seq > $2 \
                       ORDER BY seq LIMIT $3) AS found \
               ) AS page WHERE before < $4 ORDER BY seq";
    let found =
        rows(connection, sql, &[&key(job)?, &number(after), &i64::from(limit), &PAGE]).await?;
    found
        .iter()
        .map(|row| Ok(Line { seq: count(row, "seq")?, text: row.try_get("line")? }))
        .collect()
}

/// Forgets a job that is over. `forgotten` are the artifacts that an earlier attempt
/// found, and keeps those of this one.
pub(crate) async fn forget(
    connection: &mut Connection,
    job: JobId,
    in_doubt: bool,
    forgotten: &mut Vec<Artifact>,
) -> Attempt<Vec<Artifact>> {
    let transaction = begin(connection).await?;
    let job = key(job)?;
    let sql = "SELECT status FROM jobs WHERE id = $1 FOR UPDATE";
    let Some(found) = row(&transaction, sql, &[&job]).await? else {
        return if in_doubt {
            Ok(std::mem::take(forgotten))
        } else {
            Err(StoreError::Missing("job").into())
        };
    };
    if !Status::from_name(found.try_get("status")?).is_some_and(Status::is_over) {
        return Err(StoreError::NotOver.into());
    }
    let sql = "WITH gone AS (DELETE FROM jobs WHERE id = $1), \
               told AS (DELETE FROM events WHERE job = $1), \
               wanted AS (DELETE FROM orders WHERE job = $1) \
               DELETE FROM artifacts WHERE job = $1 RETURNING *";
    let artifacts = rows(&transaction, sql, &[&job]).await?;
    *forgotten = artifacts.iter().map(artifact).collect::<Attempt<_>>()?;
    forgotten.sort_by(|one, other| one.name.cmp(&other.name));
    commit(transaction).await?;
    Ok(std::mem::take(forgotten))
}
