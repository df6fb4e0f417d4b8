//! Blobs in an object store that speaks S3.
//!
//! An object appears whole when its upload is complete, which is what is promised
//! of blobs. Their hashes are kept by whoever wrote them, and checked on reading.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cofferdam_store::{Blob, BlobError, BlobKey, BlobReader, BlobWriter, Blobs};
use futures_util::future::BoxFuture;
use futures_util::stream::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, Error, ObjectStoreExt, RetryConfig};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::checked::{checked, hexadecimal};
use crate::parts::{Bucket, Upload, bounded, sweep};
use crate::transport::Connector;

/// Bytes of a part. There can be 10,000 of them.
const PART: usize = 8 << 20;

/// Retries of one request, and for how long.
const RETRIES: usize = 4;
const RETRYING: Duration = Duration::from_secs(60);

/// Blobs in an object store.
#[derive(Clone, Debug)]
pub struct ObjectBlobs {
    bucket: Arc<Bucket>,
    /// What is left to do after writers that were dropped.
    tidying: Arc<Mutex<JoinSet<()>>>,
}

/// Why an object store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectBlobsError {
    /// The URL is not of the form that is known here.
    #[error("{0} is no object store: write s3://bucket or s3://bucket/prefix")]
    Url(String),
    /// An owner's name that cannot be part of a path.
    #[error("{0:?} is no name: use letters, digits, `-`, `_` and `.`")]
    Owner(String),
    /// The settings do not fit together.
    #[error("cannot use {url}: {reason}")]
    Settings {
        /// The object store.
        url: String,
        /// Why not.
        reason: String,
    },
}

impl ObjectBlobs {
    /// Uses an object store: `s3://bucket` or `s3://bucket/prefix`.
    ///
    /// `owner` names whoever writes here and is the same after a restart, such as
    /// a server's node: what it has begun in an earlier life is found by it.
    /// `settings` are variables as the environment has them; those that begin with
    /// `AWS_` are used (`AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_ALLOW_HTTP` and others).
    /// Nothing is asked of the store yet.
    ///
    /// # Errors
    /// When the URL, the name or the settings cannot be used.
    pub fn from_url(
        url: &str,
        owner: &str,
        settings: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ObjectBlobsError> {
        let wrong = || ObjectBlobsError::Url(url.to_owned());
        let place = url.strip_prefix("s3://").ok_or_else(wrong)?;
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        if name.is_empty() {
            return Err(wrong());
        }
        let prefix = Path::parse(prefix.trim_matches('/')).map_err(|_| wrong())?;
        if BlobKey::of(&[owner]).is_none() {
            return Err(ObjectBlobsError::Owner(owner.to_owned()));
        }
        let mut builder = AmazonS3Builder::new();
        for (key, value) in settings {
            let key = key.to_ascii_lowercase();
            if let (true, Ok(key)) = (key.starts_with("aws_"), key.parse::<AmazonS3ConfigKey>()) {
                builder = builder.with_config(key, value);
            }
        }
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: RETRIES,
            retry_timeout: RETRYING,
        };
        let builder = builder.with_bucket_name(name).with_retry(retry);
        let store = builder.with_http_connector(Connector).build();
        let reason = |error: Error| ObjectBlobsError::Settings {
            url: url.to_owned(),
            reason: causes(&error),
        };
        let bucket = Bucket {
            store: store.map_err(reason)?,
            blobs: prefix.clone().join("blobs"),
            notes: prefix.join("begun").join(owner),
            process: Uuid::now_v7(),
        };
        Ok(Self { bucket: Arc::new(bucket), tidying: Arc::default() })
    }

    /// Where a blob is.
    fn path(&self, key: &BlobKey) -> Result<Path, BlobError> {
        let words: Vec<&str> = key.as_str().split('/').collect();
        // A key can come from anywhere that serde reads from.
        if BlobKey::of(&words).is_none() {
            let reason = "it is no key".to_owned();
            return Err(BlobError::Place { key: key.clone(), reason });
        }
        Ok(words.into_iter().fold(self.bucket.blobs.clone(), |path, word| path.join(word)))
    }

    /// Forgets what is tidied up.
    fn reap(&self) {
        let mut tidying = self.tidying.lock().unwrap_or_else(PoisonError::into_inner);
        while tidying.try_join_next().is_some() {}
    }
}

impl Blobs for ObjectBlobs {
    fn create(&self, key: BlobKey) -> BoxFuture<'_, Result<Box<dyn BlobWriter>, BlobError>> {
        Box::pin(async move {
            self.reap();
            let writer = Writer {
                path: self.path(&key)?,
                blobs: self.clone(),
                key,
                hash: Sha256::new(),
                bytes: 0,
                waiting: BytesMut::new(),
                upload: None,
                failed: false,
            };
            Ok(Box::new(writer) as Box<dyn BlobWriter>)
        })
    }

    fn read(&self, blob: &Blob) -> BoxFuture<'_, Result<BlobReader, BlobError>> {
        let blob = blob.clone();
        Box::pin(async move {
            let path = self.path(&blob.key)?;
            let found = bounded(self.bucket.store.get(&path)).await;
            let found = found.map_err(|error| told(&blob.key, &error))?;
            if found.meta.size != blob.bytes {
                return Err(BlobError::Damaged(blob.key));
            }
            let key = blob.key.clone();
            let pieces = found.into_stream().map_err(move |error| told(&key, &error));
            Ok(checked(&blob, pieces.boxed()))
        })
    }

    fn remove(&self, key: &BlobKey) -> BoxFuture<'_, Result<(), BlobError>> {
        let key = key.clone();
        Box::pin(async move {
            let path = self.path(&key)?;
            let removed = bounded(self.bucket.store.delete(&path)).await;
            match removed.map_err(|error| told(&key, &error)) {
                Ok(()) | Err(BlobError::Missing(_)) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    fn sweep(&self) -> BoxFuture<'_, Result<u64, BlobError>> {
        Box::pin(async move {
            let Some(key) = BlobKey::of(&["begun"]) else { return Ok(0) };
            sweep(&self.bucket).await.map_err(|error| told(&key, &error))
        })
    }
}

/// A blob that is being written. Short ones are sent at once at the end.
struct Writer {
    blobs: ObjectBlobs,
    key: BlobKey,
    path: Path,
    hash: Sha256,
    bytes: u64,
    waiting: BytesMut,
    upload: Option<Upload>,
    /// After a part that was not taken, or only perhaps, nothing is right.
    failed: bool,
}

impl Writer {
    async fn send(&mut self, part: Bytes) -> Result<(), Error> {
        if self.upload.is_none() {
            let bucket = self.blobs.bucket.clone();
            self.upload = Some(Upload::begin(bucket, self.path.clone()).await?);
        }
        match &mut self.upload {
            Some(upload) => upload.add(part).await,
            None => Ok(()),
        }
    }

    async fn end(&mut self) -> Result<(), Error> {
        let rest = self.waiting.split().freeze();
        if self.upload.is_none() {
            let put = self.blobs.bucket.store.put(&self.path, rest.into());
            return bounded(put).await.map(drop);
        }
        if !rest.is_empty() {
            self.send(rest).await?;
        }
        if let Some(upload) = &mut self.upload {
            upload.complete().await?;
        }
        self.upload = None;
        Ok(())
    }
}

impl BlobWriter for Writer {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), BlobError>> {
        Box::pin(async move {
            self.hash.update(&bytes);
            self.bytes += bytes.len() as u64;
            self.waiting.extend_from_slice(&bytes);
            while self.waiting.len() >= PART && !self.failed {
                let part = self.waiting.split_to(PART).freeze();
                self.failed = true; // until it is known to be there
                let sent = self.send(part).await;
                sent.map_err(|error| told(&self.key, &error))?;
                self.failed = false;
            }
            if self.failed { Err(given_up(&self.key)) } else { Ok(()) }
        })
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<Blob, BlobError>> {
        Box::pin(async move {
            if self.failed {
                return Err(given_up(&self.key));
            }
            let ended = self.end().await;
            ended.map_err(|error| told(&self.key, &error))?;
            let sha256 = hexadecimal(std::mem::take(&mut self.hash));
            Ok(Blob { key: self.key.clone(), bytes: self.bytes, sha256 })
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Without a runtime, or if that ends, a later sweep does it.
        if let (Some(upload), Ok(runtime)) = (self.upload.take(), Handle::try_current()) {
            let tidy = async move {
                upload.abort().await.ok();
            };
            let mut tidying = self.blobs.tidying.lock().unwrap_or_else(PoisonError::into_inner);
            tidying.spawn_on(tidy, &runtime);
        }
    }
}

fn given_up(key: &BlobKey) -> BlobError {
    BlobError::Place { key: key.clone(), reason: "its writing was given up".to_owned() }
}

/// What an object store's error means for a blob.
fn told(key: &BlobKey, error: &Error) -> BlobError {
    let reason = causes(error);
    // A bucket that is not there is no reason to forget what was in it.
    if matches!(error, Error::NotFound { .. }) && !reason.contains("NoSuchBucket") {
        return BlobError::Missing(key.clone());
    }
    // What stores say that have a limit.
    let full = ["507 ", "InsufficientStorage", "StorageFull", "QuotaExceeded", "EntityTooLarge"];
    if full.iter().any(|word| reason.contains(word)) {
        return BlobError::Full(key.clone());
    }
    BlobError::Place { key: key.clone(), reason }
}

/// An error with all its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
