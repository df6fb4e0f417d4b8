//! Where big things are kept: archives and trails, by their hashes.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

/// Names one blob: a path of plain words, made by us and never by a user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobKey(String);

impl BlobKey {
    /// The key of these words: letters, digits, `-`, `_` and `.`, none of them
    /// empty or of dots alone.
    #[must_use]
    pub fn of(words: &[&str]) -> Option<Self> {
        let plain = |word: &&str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !word.is_empty() && word.bytes().all(allowed) && !word.bytes().all(|byte| byte == b'.')
        };
        (!words.is_empty() && words.iter().all(plain)).then(|| Self(words.join("/")))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A blob that is safe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// Its name.
    pub key: BlobKey,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Something that keeps blobs.
pub trait Blobs: Send + Sync {
    /// Begins a blob. It is there under its key only after
    /// [`BlobWriter::finish`], whole; before, or if the writer is dropped, it is not.
    /// One that was there keeps its place until then.
    fn create(&self, key: BlobKey) -> BoxFuture<'_, Result<Box<dyn BlobWriter>, BlobError>>;

    /// Reads a blob. The stream fails in place of its last piece if the bytes are not those
    /// of `blob`: whoever reads to the end has the right ones.
    fn read(&self, blob: &Blob) -> BoxFuture<'_, Result<BlobReader, BlobError>>;

    /// Removes a blob. It is no error if it is not there.
    fn remove(&self, key: &BlobKey) -> BoxFuture<'_, Result<(), BlobError>>;

    /// Removes what earlier processes had begun and not finished, here; returns how many.
    fn sweep(&self) -> BoxFuture<'_, Result<u64, BlobError>>;
}

/// A blob that is being written.
pub trait BlobWriter: Send {
    /// Adds bytes.
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), BlobError>>;

    /// Makes the blob durable, then known under its key.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Blob, BlobError>>;
}

/// The bytes of a blob.
pub type BlobReader = BoxStream<'static, Result<Bytes, BlobError>>;

/// Why a blob cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// It is not there.
    #[error("there is no blob {0}")]
    Missing(BlobKey),
    /// Its bytes are others than were written.
    #[error("blob {0} is damaged: its content has another hash")]
    Damaged(BlobKey),
    /// There is no room.
    #[error("there is no room for the blob {0}")]
    Full(BlobKey),
    /// The place cannot be used, or not now.
    #[error("blob {key}: {reason}")]
    Place {
        /// Which blob.
        key: BlobKey,
        /// Why not.
        reason: String,
    },
}
