//! Rows of the tables, and the plain data that they stand for.

use cofferdam_store::{JobRow, NodeId, Status, StoreError, UploadId, UserId};
use cofferdam_types::{JobId, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::error::{broken, failed, number};

/// The columns that [`StoredJob::read`] reads, in its order.
macro_rules! job_columns {
    () => {
        "number, id, user, title, status, paused, priority, created, started, ended, ending, \
         spent, last_seq, upload, node, epoch, lease_until"
    };
}
pub(crate) use job_columns;

/// A job's row, with what only the store knows of it.
#[derive(Clone)]
pub(crate) struct StoredJob {
    /// What other tables know it by.
    pub(crate) number: i64,
    pub(crate) row: JobRow,
    /// When its lease runs out.
    pub(crate) lease_until: Option<i64>,
}

impl StoredJob {
    pub(crate) fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let status = text(row, 4)?;
        let status = Status::from_name(status)
            .ok_or_else(|| broken(format!("a job has the status {status:?}")))?;
        let ending = match row.get_ref(10).map_err(failed)? {
            ValueRef::Null => None,
            value => Some(from_json(value.as_str().map_err(|error| broken(error.to_string()))?)?),
        };
        let row_of_job = JobRow {
            id: job_id(uuid(row, 1)?)?,
            user: UserId(uuid(row, 2)?),
            title: text(row, 3)?.to_owned(),
            status,
            paused: row.get(5).map_err(failed)?,
            priority: row.get(6).map_err(failed)?,
            created: Timestamp(unsigned(row, 7)?),
            started: maybe_time(row, 8)?,
            ended: maybe_time(row, 9)?,
            ending,
            spent: from_json(text(row, 11)?)?,
            last_seq: unsigned(row, 12)?,
            upload: maybe_uuid(row, 13)?.map(UploadId),
            node: maybe_uuid(row, 14)?.map(NodeId),
            epoch: unsigned(row, 15)?,
        };
        Ok(Self {
            number: row.get(0).map_err(failed)?,
            row: row_of_job,
            lease_until: row.get(16).map_err(failed)?,
        })
    }

    /// The job of this id.
    pub(crate) fn find(connection: &Connection, job: JobId) -> Result<Option<Self>, StoreError> {
        let mut statement = connection
            .prepare_cached(concat!("SELECT ", job_columns!(), " FROM jobs WHERE id = ?1"))
            .map_err(failed)?;
        let mut rows = statement.query([job_key(job)?]).map_err(failed)?;
        rows.next().map_err(failed)?.map(Self::read).transpose()
    }

    /// The same; it must be there.
    pub(crate) fn get(connection: &Connection, job: JobId) -> Result<Self, StoreError> {
        Self::find(connection, job)?.ok_or(StoreError::Missing("job"))
    }

    /// Whether a lease on it is in force.
    pub(crate) fn is_held(&self, now: i64) -> bool {
        self.lease_until.is_some_and(|until| until > now)
    }

    /// Stores what has become of its row. Ids, leases and what was asked for are
    /// not part of that.
    pub(crate) fn save(&self, connection: &Connection, after: &JobRow) -> Result<(), StoreError> {
        let last_seq = number(after.last_seq)?;
        let unchanged = JobRow { last_seq: after.last_seq, ..self.row.clone() } == *after;
        if unchanged {
            // By far the most frequent case, and it touches no index.
            return execute(
                connection,
                "UPDATE jobs SET last_seq = ?2 WHERE number = ?1",
                params![self.number, last_seq],
            )
            .map(drop);
        }
        let ending = after.ending.as_ref().map(to_json).transpose()?;
        execute(
            connection,
            "UPDATE jobs SET status = ?2, paused = ?3, started = ?4, ended = ?5, ending = ?6, \
             spent = ?7, last_seq = ?8 WHERE number = ?1",
            params![
                self.number,
                after.status.name(),
                after.paused,
                after.started.map(time).transpose()?,
                after.ended.map(time).transpose()?,
                ending,
                to_json(&after.spent)?,
                last_seq,
            ],
        )
        .map(drop)
    }
}

/// Runs a statement that is kept compiled; returns how many rows it changed.
pub(crate) fn execute(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<usize, StoreError> {
    connection.prepare_cached(sql).and_then(|mut it| it.execute(parameters)).map_err(failed)
}

/// The first column of the only row, if there is one.
pub(crate) fn value<T: rusqlite::types::FromSql>(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    statement.query_row(parameters, |row| row.get(0)).optional().map_err(failed)
}

/// All rows, each read by `read`.
pub(crate) fn all<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(parameters).map_err(failed)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// A job's id as it is stored. Sorts as the id does.
pub(crate) fn job_key(job: JobId) -> Result<[u8; 16], StoreError> {
    // The types have no other way to its bytes than its text.
    Uuid::parse_str(&job.to_string())
        .map(Uuid::into_bytes)
        .map_err(|error| broken(format!("the job's id {job}: {error}")))
}

/// The id of a stored job.
pub(crate) fn job_id(id: Uuid) -> Result<JobId, StoreError> {
    id.to_string().parse().map_err(|error| broken(format!("the job's id {id}: {error}")))
}

pub(crate) fn uuid(row: &Row<'_>, column: usize) -> Result<Uuid, StoreError> {
    let bytes: [u8; 16] = row.get(column).map_err(failed)?;
    Ok(Uuid::from_bytes(bytes))
}

fn maybe_uuid(row: &Row<'_>, column: usize) -> Result<Option<Uuid>, StoreError> {
    let bytes: Option<[u8; 16]> = row.get(column).map_err(failed)?;
    Ok(bytes.map(Uuid::from_bytes))
}

pub(crate) fn text<'row>(row: &'row Row<'_>, column: usize) -> Result<&'row str, StoreError> {
    let value = row.get_ref(column).map_err(failed)?;
    value.as_str().map_err(|error| broken(error.to_string()))
}

pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, StoreError> {
    let value: i64 = row.get(column).map_err(failed)?;
    u64::try_from(value).map_err(|_| broken(format!("{value} is stored, which is below 0")))
}

pub(crate) fn time(time: Timestamp) -> Result<i64, StoreError> {
    number(time.0)
}

pub(crate) fn maybe_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, StoreError> {
    let value: Option<i64> = row.get(column).map_err(failed)?;
    if value.is_none() {
        return Ok(None);
    }
    unsigned(row, column).map(|value| Some(Timestamp(value)))
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| broken(format!("it has no JSON: {error}")))
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| broken(format!("{text:?}: {error}")))
}
