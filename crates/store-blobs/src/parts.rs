//! An upload of several parts, and the note that it was begun.
//!
//! Object stores keep the parts of an upload that nobody completes for ever. So
//! there is a note of each that is under way, by which a later process of the same
//! owner finds it and removes it. (A rule of the store itself that removes what is
//! incomplete after some days helps where the owner never comes back.)

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::TryStreamExt;
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use uuid::Uuid;

/// How long one call may take, with all its retries.
const CALL: Duration = Duration::from_secs(180);

/// Notes that are looked at in one sweep.
const MOST_NOTES: usize = 10_000;

/// Bytes of a note.
const LONGEST_NOTE: u64 = 64 << 10;

/// An object store and where in it things are.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) store: AmazonS3,
    /// Where blobs are.
    pub(crate) blobs: Path,
    /// Where the notes of this owner are; each process has a directory of its own
    /// in it.
    pub(crate) notes: Path,
    pub(crate) process: Uuid,
}

/// What a note says.
#[derive(Serialize, Deserialize)]
struct Note {
    path: String,
    upload: String,
}

/// An upload that is under way.
#[derive(Debug)]
pub(crate) struct Upload {
    bucket: Arc<Bucket>,
    path: Path,
    id: String,
    note: Path,
    parts: Vec<PartId>,
}

impl Upload {
    pub(crate) async fn begin(bucket: Arc<Bucket>, path: Path) -> Result<Self, Error> {
        let id = bounded(bucket.store.create_multipart(&path)).await?;
        let process = bucket.process.to_string();
        let note = bucket.notes.clone().join(process).join(Uuid::now_v7().to_string());
        let upload = Self { bucket, path, id, note, parts: Vec::new() };
        let words = Note { path: upload.path.to_string(), upload: upload.id.clone() };
        let words = serde_json::to_vec(&words).unwrap_or_default();
        let noted = bounded(upload.bucket.store.put(&upload.note, words.into())).await;
        if let Err(error) = noted {
            // Without a note nobody would find it.
            upload.abort().await.ok();
            return Err(error);
        }
        Ok(upload)
    }

    pub(crate) async fn add(&mut self, part: Bytes) -> Result<(), Error> {
        let Self { bucket, path, id, parts, .. } = self;
        let part = bucket.store.put_part(path, id, parts.len(), PutPayload::from_bytes(part));
        parts.push(bounded(part).await?);
        Ok(())
    }

    pub(crate) async fn complete(&mut self) -> Result<(), Error> {
        let Self { bucket, path, id, parts, note } = self;
        bounded(bucket.store.complete_multipart(path, id, std::mem::take(parts))).await?;
        // A note that stays is removed by a later sweep.
        bounded(bucket.store.delete(note)).await.ok();
        Ok(())
    }

    pub(crate) async fn abort(&self) -> Result<(), Error> {
        let Self { bucket, path, id, note, .. } = self;
        discard(bucket, path, id).await?;
        bounded(bucket.store.delete(note)).await
    }
}

/// Removes the uploads that earlier processes of this owner have begun.
pub(crate) async fn sweep(bucket: &Bucket) -> Result<u64, Error> {
    let own = bucket.notes.clone().join(bucket.process.to_string());
    let mut notes = bucket.store.list(Some(&bucket.notes));
    let mut found = Vec::new();
    while let Some(note) = bounded(notes.try_next()).await? {
        if !note.location.prefix_matches(&own) && note.size <= LONGEST_NOTE {
            found.push(note.location);
        }
        if found.len() == MOST_NOTES {
            break;
        }
    }
    let mut removed = 0;
    for place in found {
        let text = match bounded(async { bucket.store.get(&place).await?.bytes().await }).await {
            Ok(text) => text,
            Err(Error::NotFound { .. }) => continue,
            Err(error) => return Err(error),
        };
        // Whatever else is there is not ours to judge.
        let Ok(note) = serde_json::from_slice::<Note>(&text) else { continue };
        let path = Path::parse(&note.path)?;
        if path.prefix_matches(&bucket.blobs) {
            discard(bucket, &path, &note.upload).await?;
            bounded(bucket.store.delete(&place)).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes an upload; it is no error if it is complete or gone.
async fn discard(bucket: &Bucket, path: &Path, id: &String) -> Result<(), Error> {
    match bounded(bucket.store.abort_multipart(path, id)).await {
        Err(Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}

/// Waits for a call, but not for ever.
pub(crate) async fn bounded<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late =
        |_| Error::Generic { store: "S3", source: format!("no answer within {CALL:?}").into() };
    timeout(CALL, call).await.map_err(late)?
}
