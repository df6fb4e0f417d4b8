//! What is kept of a job when it ends: the project as a ZIP, and the trail of what
//! was done in its sandbox.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use cofferdam_bundle::{About, Reading};
use cofferdam_runtime::{Delivery, LogError, Past, TakenOver, each, fail_point, now};
use cofferdam_sandbox::Sandbox;
use cofferdam_store::{Artifact, BlobKey, BlobWriter, StoreError};
use cofferdam_types::{JobId, SandboxId, error_chain};
use futures_util::future::BoxFuture;
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

use crate::fleet::Fleet;

/// The project.
pub(crate) const ZIP: &str = "output.zip";

/// What was done in a sandbox, a JSON record a line: what the names of trails begin with.
pub(crate) const TRAIL: &str = "audit-";

/// The name of a sandbox's trail. A job that rested or was resumed has had several; their
/// names sort by time.
pub(crate) fn trail_name(sandbox: SandboxId) -> String {
    format!("{TRAIL}{sandbox}.jsonl")
}

/// Leases before the present one under which something may have been written.
const EARLIER: u64 = 16;

/// Pieces of an archive that wait to be written.
const WAITING: usize = 4;

/// Keeps the result in the store.
pub(crate) struct Kept {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) job: JobId,
    pub(crate) epoch: u64,
}

impl Delivery for Kept {
    fn deliver<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        past: &'a dyn Past,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (zip, trail) = tokio::join!(self.zip(sandbox, past), self.trail(sandbox));
            zip.and(trail)
        })
    }

    fn rest<'a>(&'a self, sandbox: &'a Sandbox) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.trail(sandbox))
    }
}

impl Kept {
    async fn zip(&self, sandbox: &Sandbox, past: &dyn Past) -> Result<(), String> {
        let about = about(past).await.map_err(|error| error.to_string())?;
        let about = about.ok_or("the log has no job")?;
        let mut writer = self.create(ZIP).await?;
        let (out, mut pieces) = pipe();
        let files = sandbox.files();
        let packing = async {
            let packed = cofferdam_bundle::zip_to(&files, about, out).await;
            packed.map(drop).map_err(|error| error_chain(&error))
        };
        // Takes the receiver along: where the disk fails, packing must not wait for it.
        let writing = async move {
            while let Some(piece) = pieces.recv().await {
                fail_point("zipping");
                writer.write(piece).await.map_err(|error| error_chain(&error))?;
            }
            Ok::<_, String>(writer)
        };
        let (packed, written) = tokio::join!(packing, writing);
        // Where the disk failed, that is why packing did.
        let writer = written?;
        packed?;
        self.keep(ZIP, writer).await
    }

    async fn trail(&self, sandbox: &Sandbox) -> Result<(), String> {
        // The sandbox closes after this. What is still connected is recorded when it ends.
        sandbox.end_egress().await;
        let records = sandbox.audit().await.map_err(|error| error_chain(&error))?;
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, &record).map_err(|error| error.to_string())?;
            text.push(b'\n');
        }
        let name = trail_name(sandbox.id());
        let mut writer = self.create(&name).await?;
        writer.write(Bytes::from(text)).await.map_err(|error| error_chain(&error))?;
        self.keep(&name, writer).await
    }

    /// A name that no other lease has written under: what the row of an earlier one
    /// names stays as it is until the row names this.
    async fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>, String> {
        let key = key(self.job, self.epoch, name).ok_or("the artifact has no name")?;
        self.fleet.blobs.create(key).await.map_err(|error| error_chain(&error))
    }

    async fn keep(&self, name: &str, writer: Box<dyn BlobWriter>) -> Result<(), String> {
        let store = &self.fleet.store;
        let blob = writer.finish().await.map_err(|error| error_chain(&error))?;
        fail_point("keeping");
        let before = store.artifacts(self.job).await.map_err(|error| error_chain(&error))?;
        let before = before.into_iter().find(|artifact| artifact.name == name);
        let artifact =
            Artifact { job: self.job, name: name.to_owned(), blob: blob.clone(), at: now() };
        match store.keep_artifact(artifact, self.epoch).await {
            Ok(()) => {}
            // Whoever has it now makes another.
            Err(StoreError::Fenced) => {
                self.fleet.blobs.remove(&blob.key).await.ok();
                return Err(TakenOver.to_string());
            }
            Err(error) => return Err(error_chain(&error)),
        }
        self.remove_earlier(name, before.map(|before| before.blob.key), &blob.key).await;
        Ok(())
    }

    /// Removes what was written under earlier leases: what the row named before, and what
    /// never had a row because its server died.
    async fn remove_earlier(&self, name: &str, before: Option<BlobKey>, now: &BlobKey) {
        let earlier = self.epoch.saturating_sub(EARLIER)..self.epoch;
        let earlier = earlier.filter_map(|epoch| key(self.job, epoch, name));
        for stray in earlier.chain(before).filter(|key| key != now) {
            // One that is left behind takes room and does no harm.
            self.fleet.blobs.remove(&stray).await.ok();
        }
    }
}

/// What a log says for a manifest; `None` where it is none of a job.
pub(crate) async fn about(past: &dyn Past) -> Result<Option<About>, LogError> {
    let mut reading: Option<Reading> = None;
    each(past, |record| match &mut reading {
        Some(reading) => reading.take(record),
        None => reading = Reading::begin(record),
    })
    .await?;
    Ok(reading.map(Reading::finish))
}

/// The key of an artifact that is written under a lease.
fn key(job: JobId, epoch: u64, name: &str) -> Option<BlobKey> {
    BlobKey::of(&["jobs", &job.to_string(), &format!("{epoch}-{name}")])
}

/// A way for bytes that are made in one place and taken in another.
pub(crate) fn pipe() -> (PipeWriter, mpsc::Receiver<Bytes>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (PipeWriter { sender: PollSender::new(sender) }, receiver)
}

/// The end of a pipe that is written to.
pub(crate) struct PipeWriter {
    sender: PollSender<Bytes>,
}

impl AsyncWrite for PipeWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        match self.sender.poll_reserve(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(_)) => Poll::Ready(Err(gone())),
            Poll::Ready(Ok(())) => {
                let sent = self.sender.send_item(Bytes::copy_from_slice(bytes));
                Poll::Ready(sent.map(|()| bytes.len()).map_err(|_| gone()))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sender.close();
        Poll::Ready(Ok(()))
    }
}
