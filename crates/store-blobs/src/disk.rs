//! Blobs in a directory.
//!
//! This is its own code and not `object_store`'s local file system. That one can
//! sync files and directories as well (`with_fsync`), but it cannot tell what a
//! killed process has left from what another one is writing, makes files that
//! others can read, and a key and one beneath it are in each other's way there.
//!
//! `half/` has what is being written, `blobs/` what is whole. In `blobs/` each
//! word of a key but the last is a directory with `+` behind it, which no word
//! has, so that no blob is in another one's way.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cofferdam_store::{Blob, BlobError, BlobKey, BlobReader, BlobWriter, Blobs};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio::task::spawn_blocking;

use crate::checked::checked;
use crate::half::{self, Half};
use crate::shelf::{Shelf, make_directories};

/// Bytes that are read, and at least written, at once.
const PIECE: usize = 128 << 10;

/// Blobs in a directory of this machine.
#[derive(Clone, Debug)]
pub struct DiskBlobs {
    place: Arc<Place>,
}

#[derive(Debug)]
struct Place {
    whole: Shelf,
    half: PathBuf,
}

impl DiskBlobs {
    /// Uses a directory, which is made if it is missing. Only its owner can look
    /// into what is made.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let (whole, half) = (directory.join("blobs"), directory.join("half"));
        for made in [&whole, &half] {
            make_directories(made)?;
        }
        File::open(directory)?.sync_all()?;
        Ok(Self { place: Arc::new(Place { whole: Shelf::new(whole), half }) })
    }
}

impl Place {
    /// Where a blob is, beneath the directory of whole ones.
    fn inner(key: &BlobKey) -> PathBuf {
        let mut words: Vec<&str> = key.as_str().split('/').collect();
        let last = words.pop().unwrap_or_default();
        let mut path: PathBuf = words.iter().map(|word| format!("{word}+")).collect();
        path.push(last);
        path
    }

    /// A key can come from anywhere that serde reads from: one that is none must
    /// not lead out.
    fn checked(key: &BlobKey) -> Result<(), BlobError> {
        let words: Vec<&str> = key.as_str().split('/').collect();
        match BlobKey::of(&words) {
            Some(_) => Ok(()),
            None => Err(BlobError::Place { key: key.clone(), reason: "it is no key".to_owned() }),
        }
    }
}

impl Blobs for DiskBlobs {
    fn create(&self, key: BlobKey) -> BoxFuture<'_, Result<Box<dyn BlobWriter>, BlobError>> {
        Box::pin(async move {
            Place::checked(&key)?;
            let place = self.place.clone();
            let half = blocking(&key, move || Half::new(&place.half)).await?;
            let place = self.place.clone();
            let writer = Writer { place, key, half: Some(half), waiting: BytesMut::new() };
            Ok(Box::new(writer) as Box<dyn BlobWriter>)
        })
    }

    fn read(&self, blob: &Blob) -> BoxFuture<'_, Result<BlobReader, BlobError>> {
        let blob = blob.clone();
        Box::pin(async move {
            Place::checked(&blob.key)?;
            let path = self.place.whole.root().join(Place::inner(&blob.key));
            let opened = blocking(&blob.key, move || match File::open(path) {
                Ok(file) => Ok(Some((file.metadata()?.len(), file))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            });
            let Some((length, file)) = opened.await? else {
                return Err(BlobError::Missing(blob.key));
            };
            if length != blob.bytes {
                return Err(BlobError::Damaged(blob.key));
            }
            let key = blob.key.clone();
            let pieces = stream::try_unfold(Some(file), move |file| next(key.clone(), file));
            Ok(checked(&blob, pieces.boxed()))
        })
    }

    fn remove(&self, key: &BlobKey) -> BoxFuture<'_, Result<(), BlobError>> {
        let key = key.clone();
        Box::pin(async move {
            Place::checked(&key)?;
            let (place, inner) = (self.place.clone(), Place::inner(&key));
            blocking(&key, move || place.whole.remove(&inner)).await
        })
    }

    fn sweep(&self) -> BoxFuture<'_, Result<u64, BlobError>> {
        Box::pin(async move {
            let place = self.place.clone();
            let Some(key) = BlobKey::of(&["half"]) else { return Ok(0) };
            blocking(&key, move || half::sweep(&place.half)).await
        })
    }
}

async fn next(
    key: BlobKey,
    file: Option<File>,
) -> Result<Option<(Bytes, Option<File>)>, BlobError> {
    let Some(mut file) = file else { return Ok(None) };
    let (bytes, file) = blocking(&key, move || {
        let mut bytes = Vec::with_capacity(PIECE);
        (&mut file).take(PIECE as u64).read_to_end(&mut bytes)?;
        Ok((bytes, file))
    })
    .await?;
    Ok((!bytes.is_empty()).then(|| (bytes.into(), Some(file))))
}

/// A blob that is being written. Its half file is with the thread that writes
/// while it does; a write that is given up takes it along, and with it the blob.
struct Writer {
    place: Arc<Place>,
    key: BlobKey,
    half: Option<Half>,
    waiting: BytesMut,
}

impl Writer {
    fn given_up(&self) -> BlobError {
        let reason = "its writing was given up".to_owned();
        BlobError::Place { key: self.key.clone(), reason }
    }
}

impl BlobWriter for Writer {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), BlobError>> {
        Box::pin(async move {
            // Small pieces wait until there is something to do for a thread.
            let large = if self.waiting.is_empty() && bytes.len() >= PIECE {
                bytes
            } else {
                self.waiting.extend_from_slice(&bytes);
                if self.waiting.len() < PIECE {
                    return Ok(());
                }
                self.waiting.split().freeze()
            };
            let mut half = self.half.take().ok_or_else(|| self.given_up())?;
            let written = blocking(&self.key, move || {
                half.write(&large)?;
                Ok(half)
            });
            self.half = Some(written.await?);
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<Blob, BlobError>> {
        Box::pin(async move {
            let mut half = self.half.take().ok_or_else(|| self.given_up())?;
            let waiting = self.waiting.split().freeze();
            let (place, inner) = (self.place.clone(), Place::inner(&self.key));
            let published = blocking(&self.key, move || {
                half.write(&waiting)?;
                half.publish(&place.whole, &inner)
            });
            let (bytes, sha256) = published.await?;
            Ok(Blob { key: self.key, bytes, sha256 })
        })
    }
}

/// Does something that may wait for the disk, on a thread for that.
async fn blocking<T: Send + 'static>(
    key: &BlobKey,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BlobError> {
    let done = spawn_blocking(work).await;
    let ended = || io::Error::other("the thread that does it ended");
    done.unwrap_or_else(|_| Err(ended())).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            BlobError::Full(key.clone())
        }
        _ => BlobError::Place { key: key.clone(), reason: error.to_string() },
    })
}
