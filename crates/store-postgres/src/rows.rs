//! What is in a row, and what goes into one.

use std::time::Duration;

use cofferdam_store::{Artifact, Blob, BlobKey, JobRow, NodeId, Status, Upload, UploadId, UserId};
use cofferdam_types::{JobId, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::failure::{Attempt, Failure};

/// The columns of a [`JobRow`].
pub(crate) const JOB: &str = "id, user_id, title, status, paused, priority, created, started, \
                              ended, ending, spent, last_seq, upload, node, epoch";

/// A lease or an age is no longer than this; a hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A job's id, for a statement.
pub(crate) fn key(job: JobId) -> Attempt<Uuid> {
    Uuid::parse_str(&job.to_string()).map_err(|error| Failure::broken(error.to_string()))
}

/// A job's id, out of a row.
pub(crate) fn job_id(id: Uuid) -> Attempt<JobId> {
    id.to_string().parse().map_err(|error: uuid::Error| Failure::broken(error.to_string()))
}

/// A number for a statement. What does not fit is as great as can be.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number out of a row.
pub(crate) fn count(row: &Row, column: &str) -> Attempt<u64> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|_| Failure::broken(format!("{column} is {number}")))
}

/// A time out of a row.
pub(crate) fn time(row: &Row, column: &str) -> Attempt<Timestamp> {
    count(row, column).map(Timestamp)
}

/// A time out of a row that may have none.
pub(crate) fn some_time(row: &Row, column: &str) -> Attempt<Option<Timestamp>> {
    let number: Option<i64> = row.try_get(column)?;
    number.map(|_| time(row, column)).transpose()
}

/// A span for a statement, in microseconds.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

/// Text out of a column of bytes.
pub(crate) fn text(row: &Row, column: &str) -> Attempt<String> {
    let bytes: Vec<u8> = row.try_get(column)?;
    String::from_utf8(bytes).map_err(|error| Failure::broken(format!("{column}: {error}")))
}

/// A job.
pub(crate) fn job_row(row: &Row) -> Attempt<JobRow> {
    let status: &str = row.try_get("status")?;
    let status = Status::from_name(status)
        .ok_or_else(|| Failure::broken(format!("there is no status {status}")))?;
    let ending: Option<&str> = row.try_get("ending")?;
    let spent: &str = row.try_get("spent")?;
    let upload: Option<Uuid> = row.try_get("upload")?;
    let node: Option<Uuid> = row.try_get("node")?;
    Ok(JobRow {
        id: job_id(row.try_get("id")?)?,
        user: UserId(row.try_get("user_id")?),
        title: text(row, "title")?,
        status,
        paused: row.try_get("paused")?,
        priority: row.try_get("priority")?,
        created: time(row, "created")?,
        started: some_time(row, "started")?,
        ended: some_time(row, "ended")?,
        ending: ending.map(serde_json::from_str).transpose()?,
        spent: serde_json::from_str(spent)?,
        last_seq: count(row, "last_seq")?,
        upload: upload.map(UploadId),
        node: node.map(NodeId),
        epoch: count(row, "epoch")?,
    })
}

/// An artifact.
pub(crate) fn artifact(row: &Row) -> Attempt<Artifact> {
    Ok(Artifact {
        job: job_id(row.try_get("job")?)?,
        name: text(row, "name")?,
        blob: blob(row)?,
        at: time(row, "at")?,
    })
}

/// An upload.
pub(crate) fn upload(row: &Row) -> Attempt<Upload> {
    Ok(Upload {
        id: UploadId(row.try_get("id")?),
        user: UserId(row.try_get("user_id")?),
        blob: blob(row)?,
        at: time(row, "at")?,
    })
}

fn blob(row: &Row) -> Attempt<Blob> {
    let path: &str = row.try_get("blob")?;
    let key = BlobKey::of(&path.split('/').collect::<Vec<_>>());
    Ok(Blob {
        key: key.ok_or_else(|| Failure::broken(format!("{path} names no blob")))?,
        bytes: count(row, "bytes")?,
        sha256: row.try_get("sha256")?,
    })
}
