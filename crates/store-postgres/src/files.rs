//! Artifacts and uploads, and what is forgotten after a while.

use std::time::Duration;

use cofferdam_store::{Artifact, KEY_LIFETIME, StoreError, Upload, UploadId};
use cofferdam_types::JobId;

use crate::database::{Connection, begin, commit, execute, row, rows, write};
use crate::failure::Attempt;
use crate::rows::{artifact, key, micros, number, upload};

/// Keeps an artifact's row.
pub(crate) async fn keep_artifact(
    connection: &Connection,
    kept: &Artifact,
    epoch: u64,
) -> Attempt<()> {
    let sql = "INSERT INTO artifacts (job, name, blob, bytes, sha256, at) \
               SELECT id, $2, $3, $4, $5, $6 FROM jobs WHERE id = $1 AND epoch = $7 FOR SHARE \
               ON CONFLICT (job, name) DO UPDATE SET blob = excluded.blob, \
               bytes = excluded.bytes, sha256 = excluded.sha256, at = excluded.at";
    let made = write(
        connection,
        sql,
        &[
            &key(kept.job)?,
            &kept.name.as_bytes(),
            &kept.blob.key.as_str(),
            &number(kept.blob.bytes),
            &kept.blob.sha256,
            &number(kept.at.0),
            &number(epoch),
        ],
    )
    .await?;
    if made > 0 {
        return Ok(());
    }
    let known = row(connection, "SELECT 1 FROM jobs WHERE id = $1", &[&key(kept.job)?]).await?;
    Err(known.map_or(StoreError::Missing("job"), |_| StoreError::Fenced).into())
}

/// A job's artifacts, by name.
pub(crate) async fn artifacts(connection: &Connection, job: JobId) -> Attempt<Vec<Artifact>> {
    let sql = "SELECT * FROM artifacts WHERE job = $1 ORDER BY name";
    rows(connection, sql, &[&key(job)?]).await?.iter().map(artifact).collect()
}

/// Keeps an upload's row.
pub(crate) async fn keep_upload(connection: &Connection, kept: &Upload) -> Attempt<()> {
    let sql = "INSERT INTO uploads (id, user_id, blob, bytes, sha256, at) \
               VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (id) DO UPDATE SET blob = excluded.blob, bytes = excluded.bytes, \
               sha256 = excluded.sha256, at = excluded.at WHERE uploads.user_id = excluded.user_id";
    let made = write(
        connection,
        sql,
        &[
            &kept.id.0,
            &kept.user.0,
            &kept.blob.key.as_str(),
            &number(kept.blob.bytes),
            &kept.blob.sha256,
            &number(kept.at.0),
        ],
    )
    .await?;
    if made == 0 { Err(StoreError::Taken("upload").into()) } else { Ok(()) }
}

/// An upload's row.
pub(crate) async fn find_upload(connection: &Connection, id: UploadId) -> Attempt<Option<Upload>> {
    let sql = "SELECT * FROM uploads WHERE id = $1";
    row(connection, sql, &[&id.0]).await?.as_ref().map(upload).transpose()
}

/// Forgets what is old: uploads that no job begins with, keys and receipts. `gone`
/// gathers the uploads over all attempts, whichever of them happened.
pub(crate) async fn expire(
    connection: &mut Connection,
    older_than: Duration,
    gone: &mut Vec<Upload>,
) -> Attempt<Vec<Upload>> {
    let transaction = begin(connection).await?;
    let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
    let sql = "DELETE FROM uploads WHERE at < \
               (extract(epoch FROM clock_timestamp()) * 1000 - $1::bigint::numeric) \
               AND NOT EXISTS (SELECT FROM jobs WHERE upload = uploads.id) RETURNING *";
    for row in rows(&transaction, sql, &[&age]).await? {
        let upload = upload(&row)?;
        if !gone.contains(&upload) {
            gone.push(upload);
        }
    }
    let old = "at < clock_timestamp() - $1::bigint * interval '1 microsecond'";
    let lifetime = micros(KEY_LIFETIME);
    execute(&transaction, &format!("DELETE FROM keys WHERE {old}"), &[&lifetime]).await?;
    let sql = format!("DELETE FROM orders WHERE heard AND {old}");
    execute(&transaction, &sql, &[&lifetime]).await?;
    // No lease lasts so long; a server that comes back is noted again.
    let sql =
        "DELETE FROM nodes WHERE seen < clock_timestamp() - $1::bigint * interval '1 microsecond'";
    execute(&transaction, sql, &[&lifetime]).await?;
    commit(transaction).await?;
    Ok(std::mem::take(gone))
}
