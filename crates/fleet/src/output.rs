//! The project, handed out.

use std::sync::Arc;

use bytes::Bytes;
use cofferdam_bundle::About;
use cofferdam_runtime::Seed;
use cofferdam_sandbox::Workspace;
use cofferdam_store::{Artifact, Blob, BlobError, BlobReader, JobRow, StoreError};
use cofferdam_types::{AuditRecord, JobId, error_chain};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use tokio::task::JoinSet;

use crate::delivery::{TRAIL, ZIP, about, pipe, trail_name};
use crate::fleet::Fleet;
use crate::log::StoredPast;
use crate::seed::Uploaded;
use crate::visit::{Look, VisitError};

/// How a project is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A ZIP.
    Zip,
    /// A tar, compressed by zstd.
    TarZst,
    /// A git patch against what the workspace began with.
    Patch,
}

/// A project on its way out.
pub enum Output {
    /// Kept when the job ended.
    Kept {
        /// What it is.
        blob: Blob,
        /// Its bytes.
        bytes: BlobReader,
    },
    /// Made now, while it is sent. The stream fails if it cannot be completed.
    Made(BoxStream<'static, Result<Bytes, String>>),
}

/// Why there is no project to hand out.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// There is no sandbox to pack from.
    #[error(transparent)]
    Visit(#[from] VisitError),
    /// What was kept cannot be read.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Fleet {
    /// The project, also while the job works on it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn output(
        self: &Arc<Self>,
        job: &JobRow,
        format: Format,
    ) -> Result<Output, OutputError> {
        if format == Format::Zip
            && job.status.is_over()
            && let Some(artifact) = self.artifact(job.id, ZIP).await?
        {
            let bytes = self.blobs.read(&artifact.blob).await?;
            return Ok(Output::Kept { blob: artifact.blob, bytes });
        }
        let look = self.look(job).await?;
        let about = self.about(job.id).await?;
        let fleet = Arc::clone(self);
        let (out, pieces) = pipe();
        let upload = job.upload;
        let packing = async move {
            let packed = tokio::select! {
                packed = fleet.pack(&look, about, format, upload, out) => packed,
                () = look.over() => Err("the job has ended meanwhile: ask again".to_owned()),
            };
            look.close().await;
            packed
        };
        // In a task of its own: a reader that stalls must not keep the sandbox open.
        let mut tasks = JoinSet::new();
        tasks.spawn(packing);
        let pieces = stream::unfold(Some((pieces, tasks)), |state| async {
            let (mut pieces, mut tasks) = state?;
            if let Some(piece) = pieces.recv().await {
                return Some((Ok(piece), Some((pieces, tasks))));
            }
            match tasks.join_next().await? {
                Ok(Ok(())) => None,
                Ok(Err(reason)) => Some((Err(reason), None)),
                Err(error) => Some((Err(error.to_string()), None)),
            }
        });
        Ok(Output::Made(pieces.boxed()))
    }

    async fn pack(
        self: &Arc<Self>,
        look: &Look,
        about: About,
        format: Format,
        upload: Option<cofferdam_store::UploadId>,
        out: crate::delivery::PipeWriter,
    ) -> Result<(), String> {
        let files = look.files();
        match format {
            Format::Zip => {
                let packed = cofferdam_bundle::zip_to(&files, about, out).await;
                packed.map(drop).map_err(|error| error_chain(&error))
            }
            Format::TarZst => {
                let packed = cofferdam_bundle::tar_zst_to(&files, about, out).await;
                packed.map(drop).map_err(|error| error_chain(&error))
            }
            Format::Patch => {
                let before = self.beside(Workspace::Scratch).await;
                let before = before.map_err(|error| error.to_string())?;
                if let Some(upload) = upload {
                    let seed = Uploaded { fleet: Arc::clone(self), upload };
                    seed.plant(before.files()).await?;
                }
                let packed = cofferdam_bundle::patch_to(&before.files(), &files, out).await;
                before.close().await.ok();
                packed.map(drop).map_err(|error| error_chain(&error))
            }
        }
    }

    /// What was done in a job's sandbox, so far or in all.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn audit(&self, job: &JobRow) -> Result<Vec<AuditRecord>, OutputError> {
        let visit = self.visit(job).await;
        let live = visit.as_ref().ok().map(|visit| trail_name(visit.id()));
        let mut trail = Vec::new();
        for artifact in self.store.artifacts(job.id).await? {
            if artifact.name.starts_with(TRAIL) && live.as_ref() != Some(&artifact.name) {
                trail.extend(self.kept_trail(&artifact).await?);
            }
        }
        match visit {
            Ok(visit) => {
                let audit = visit.audit().await;
                trail.extend(audit.map_err(|error| VisitError::Sandbox(error_chain(&error)))?);
            }
            Err(error) if trail.is_empty() && !job.status.is_over() => return Err(error.into()),
            Err(_) => {}
        }
        Ok(trail)
    }

    async fn kept_trail(&self, artifact: &Artifact) -> Result<Vec<AuditRecord>, OutputError> {
        let bytes = self.blobs.read(&artifact.blob).await?;
        let bytes: Vec<Bytes> = bytes.try_collect().await?;
        let text = bytes.concat();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let records: Result<Vec<AuditRecord>, _> = lines.map(serde_json::from_slice).collect();
        records.map_err(|_| BlobError::Damaged(artifact.blob.key.clone()).into())
    }

    async fn artifact(&self, job: JobId, name: &str) -> Result<Option<Artifact>, StoreError> {
        let artifacts = self.store.artifacts(job).await?;
        Ok(artifacts.into_iter().find(|artifact| artifact.name == name))
    }

    /// What the log says for a manifest.
    async fn about(&self, job: JobId) -> Result<About, OutputError> {
        let past = StoredPast { store: Arc::clone(&self.store), job };
        let about = about(&past).await.map_err(|error| match error.downcast::<StoreError>() {
            Ok(error) => *error,
            Err(error) => StoreError::Broken(error.to_string()),
        })?;
        about.ok_or_else(|| StoreError::Missing("job").into())
    }
}
