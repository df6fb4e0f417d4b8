//! New jobs, and what they begin with.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cofferdam_bundle::{IntakeError, IntakeLimits, intake};
use cofferdam_runtime::{fail_point, now};
use cofferdam_store::{
    BlobError, BlobKey, Idempotency, NewJob, StoreError, Submitted, Upload, UploadId, UserId,
};
use cofferdam_types::JobId;
use tokio::sync::mpsc;

use crate::data;
use crate::fleet::Fleet;
use crate::outfit::{Wish, WishError};

/// Why a job was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// It makes no sense.
    #[error("{}", .0.cause)]
    Wish(WishError),
    /// The user has no such upload.
    #[error("there is no such upload")]
    NoUpload,
    /// The key was used for something else.
    #[error("the idempotency key was used for another submission")]
    KeyReused,
    /// Too much waits already.
    #[error("too many jobs wait")]
    TooMany {
        /// Whether it is this user's own that are too many.
        own: bool,
    },
    /// The server is about to stop.
    #[error("the server is about to stop")]
    Draining,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an upload was not taken.
#[derive(Debug, thiserror::Error)]
pub enum IntakeFailure {
    /// It is not an archive that can be taken, and this is why.
    #[error("{0}")]
    Refused(String),
    /// It is too big.
    #[error("{0}")]
    TooBig(String),
    /// It could not be kept.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// Its row could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This machine's disk.
    #[error("{0}")]
    Disk(String),
}

impl Fleet {
    /// Takes a job. When this returns, it is durable.
    ///
    /// # Errors
    /// When it is not taken.
    pub async fn submit(
        &self,
        user: UserId,
        wish: Wish,
        idempotency: Option<Idempotency>,
    ) -> Result<JobId, SubmitError> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(SubmitError::Draining);
        }
        if let Some(upload) = wish.upload {
            let found = self.store.upload(upload).await?;
            found.filter(|found| found.user == user).ok_or(SubmitError::NoUpload)?;
        }
        let job = JobId::generate();
        let spec = self.outfit.spec(&wish, job, data::workspace(job)).map_err(SubmitError::Wish)?;
        let new = NewJob {
            spec,
            user,
            priority: wish.priority,
            created: now(),
            idempotency,
            upload: wish.upload,
            bounds: self.bounds.queue,
        };
        let submitted = self.store.submit(new).await?;
        fail_point("accepted");
        match submitted {
            Submitted::New => Ok(job),
            Submitted::Before(job) => Ok(job),
            Submitted::KeyReused => Err(SubmitError::KeyReused),
            Submitted::TooMany { own } => Err(SubmitError::TooMany { own }),
        }
    }

    /// Takes in an archive that was received into this file.
    ///
    /// # Errors
    /// When it is refused or cannot be kept.
    pub async fn take_in(&self, user: UserId, file: &Path) -> Result<Upload, IntakeFailure> {
        let id = UploadId::generate();
        let words = ["uploads", &id.to_string()];
        let key = BlobKey::of(&words).ok_or_else(|| IntakeFailure::Disk(String::new()))?;
        let mut writer = self.blobs.create(key).await?;
        let source = File::open(file).map_err(|error| IntakeFailure::Disk(error.to_string()))?;
        let (pieces, mut taken) = mpsc::channel(4);
        let sorting = tokio::task::spawn_blocking(move || {
            let out = std::io::BufWriter::with_capacity(64 << 10, Pieces(pieces));
            intake(source, IntakeLimits::default(), out).map(drop)
        });
        while let Some(piece) = taken.recv().await {
            writer.write(piece).await?;
        }
        let sorted = sorting.await.map_err(|error| IntakeFailure::Disk(error.to_string()))?;
        sorted.map_err(failure)?;
        let blob = writer.finish().await?;
        let upload = Upload { id, user, blob, at: now() };
        self.store.keep_upload(upload.clone()).await?;
        Ok(upload)
    }
}

fn failure(error: IntakeError) -> IntakeFailure {
    match error {
        IntakeError::Output(error) => IntakeFailure::Disk(error.to_string()),
        error => IntakeFailure::Refused(error.to_string()),
    }
}

/// Takes pieces of an archive from a thread to the task that keeps them.
struct Pieces(mpsc::Sender<Bytes>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let sent = self.0.blocking_send(Bytes::copy_from_slice(bytes));
        sent.map(|()| bytes.len()).map_err(|_| std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
