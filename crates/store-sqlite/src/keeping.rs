//! Artifacts and uploads, and forgetting.

use std::time::Duration;

use cofferdam_store::{Artifact, KEY_LIFETIME, StoreError, Upload, UploadId, UserId};
use cofferdam_types::{JobId, Timestamp};
use rusqlite::{Connection, Row, params};

use crate::clock;
use crate::error::{failed, unless_taken};
use crate::rows::{
    StoredJob, all, execute, from_json, job_key, text, time, to_json, unsigned, uuid,
};

/// Keeps an artifact's row.
pub(crate) fn keep_artifact(
    connection: &Connection,
    artifact: &Artifact,
    epoch: u64,
) -> Result<(), StoreError> {
    if StoredJob::get(connection, artifact.job)?.row.epoch != epoch {
        return Err(StoreError::Fenced);
    }
    execute(
        connection,
        "INSERT INTO artifacts (job, name, blob, at) \
         SELECT number, ?2, ?3, ?4 FROM jobs WHERE id = ?1 \
         ON CONFLICT (job, name) DO UPDATE SET blob = excluded.blob, at = excluded.at",
        params![
            job_key(artifact.job)?,
            artifact.name,
            to_json(&artifact.blob)?,
            time(artifact.at)?
        ],
    )?;
    Ok(())
}

/// A job's artifacts, by name.
pub(crate) fn artifacts(connection: &Connection, job: JobId) -> Result<Vec<Artifact>, StoreError> {
    all(
        connection,
        "SELECT name, blob, at FROM artifacts \
         WHERE job = (SELECT number FROM jobs WHERE id = ?1) ORDER BY name",
        [job_key(job)?],
        |row| {
            Ok(Artifact {
                job,
                name: text(row, 0)?.to_owned(),
                blob: from_json(text(row, 1)?)?,
                at: Timestamp(unsigned(row, 2)?),
            })
        },
    )
}

/// Forgets a job that is over.
pub(crate) fn forget(connection: &Connection, id: JobId) -> Result<Vec<Artifact>, StoreError> {
    let job = StoredJob::get(connection, id)?;
    if !job.row.status.is_over() {
        return Err(StoreError::NotOver);
    }
    let artifacts = artifacts(connection, id)?;
    // What hangs on it goes with it.
    execute(connection, "DELETE FROM jobs WHERE number = ?1", [job.number])?;
    Ok(artifacts)
}

/// Keeps an upload's row.
pub(crate) fn keep_upload(connection: &Connection, upload: &Upload) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached("INSERT INTO uploads (id, user, blob, at) VALUES (?1, ?2, ?3, ?4)")
        .map_err(failed)?;
    statement
        .execute(params![
            upload.id.0.as_bytes(),
            upload.user.0.as_bytes(),
            to_json(&upload.blob)?,
            time(upload.at)?
        ])
        .map(drop)
        .map_err(unless_taken("upload"))
}

/// An upload's row.
pub(crate) fn upload(connection: &Connection, id: UploadId) -> Result<Option<Upload>, StoreError> {
    let sql = "SELECT id, user, blob, at FROM uploads WHERE id = ?1";
    let mut found = all(connection, sql, [id.0.as_bytes()], read_upload)?;
    Ok(found.pop())
}

/// Forgets old uploads that no job begins with, and old keys.
pub(crate) fn expire(
    connection: &Connection,
    older_than: Duration,
) -> Result<Vec<Upload>, StoreError> {
    let now = clock::now();
    let lifetime = clock::millis(KEY_LIFETIME);
    execute(connection, "DELETE FROM keys WHERE at < ?1", [now.saturating_sub(lifetime)])?;
    // No lease lasts so long; a server that comes back is noted again.
    execute(connection, "DELETE FROM nodes WHERE seen < ?1", [now.saturating_sub(lifetime)])?;
    all(
        connection,
        "DELETE FROM uploads WHERE at < ?1 \
         AND NOT EXISTS (SELECT 1 FROM jobs WHERE upload = uploads.id) \
         RETURNING id, user, blob, at",
        [now.saturating_sub(clock::millis(older_than))],
        read_upload,
    )
}

fn read_upload(row: &Row<'_>) -> Result<Upload, StoreError> {
    Ok(Upload {
        id: UploadId(uuid(row, 0)?),
        user: UserId(uuid(row, 1)?),
        blob: from_json(text(row, 2)?)?,
        at: Timestamp(unsigned(row, 3)?),
    })
}
