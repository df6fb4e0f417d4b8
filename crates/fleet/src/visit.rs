//! A job's sandbox, for people: while the job works in it, and a view of the
//! workspace after that.

use std::ops::Deref;
use std::sync::Arc;

use cofferdam_runtime::Hands;
use cofferdam_sandbox::{AUTO, Audit, Grade, Sandbox, Spec, Workspace};
use cofferdam_store::JobRow;
use cofferdam_types::error_chain;

use crate::data;
use crate::fleet::Fleet;

/// A stay in a running job's sandbox. Whoever holds one keeps the sandbox from
/// closing: it is to end soon after [`Visit::over`] does.
pub struct Visit {
    inner: cofferdam_runtime::Visit,
}

impl Visit {
    /// Waits until the sandbox is wanted back.
    pub async fn over(&self) {
        self.inner.over().await;
    }

    /// Whether it is wanted back already. It is so before anything that the job runs there
    /// is ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    /// Whose hands are on the desktop there.
    #[must_use]
    pub fn hands(&self) -> Arc<Hands> {
        self.inner.hands()
    }
}

impl Deref for Visit {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.inner
    }
}

/// A look at a job's files: in its sandbox, or in one made for the look.
pub enum Look {
    /// The job's own sandbox.
    Live(Visit),
    /// A sandbox that sees the workspace of a job that does not run. What is changed
    /// in it is thrown away, and so is the sandbox when it is dropped.
    After(Box<Sandbox>),
}

impl Look {
    /// Waits until the sandbox is wanted back; for ever, if it is not.
    pub async fn over(&self) {
        match self {
            Self::Live(visit) => visit.over().await,
            Self::After(_) => std::future::pending().await,
        }
    }

    /// Ends the look.
    pub async fn close(self) {
        if let Self::After(sandbox) = self {
            // It has nothing to keep, and dropping it ends it too.
            sandbox.close().await.ok();
        }
    }
}

impl Deref for Look {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        match self {
            Self::Live(visit) => visit,
            Self::After(sandbox) => sandbox,
        }
    }
}

/// Why there is no sandbox to visit.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// The job has not begun to work, or is about to end.
    #[error("the job has no sandbox at the moment")]
    NotNow,
    /// The job is over.
    #[error("the job is over")]
    Over,
    /// Another server works on it.
    #[error("another server works on this job")]
    Elsewhere,
    /// Its workspace is not on this server.
    #[error("the job's workspace is not on this server")]
    NotHere,
    /// The sandbox for the look could not be made.
    #[error("{0}")]
    Sandbox(String),
}

impl Fleet {
    /// The sandbox that a job works in now.
    ///
    /// # Errors
    /// When it has none here.
    pub async fn visit(&self, job: &JobRow) -> Result<Visit, VisitError> {
        match self.running.door(job.id) {
            Some(door) => match door.enter() {
                Some(inner) => Ok(Visit { inner }),
                None => Err(VisitError::NotNow),
            },
            None if job.status.is_over() => Err(VisitError::Over),
            None if job.node.is_some_and(|node| node != self.node()) => Err(VisitError::Elsewhere),
            None => Err(VisitError::NotNow),
        }
    }

    /// A job's files: as they are now, or as it left them.
    ///
    /// # Errors
    /// When they cannot be seen here.
    pub async fn look(&self, job: &JobRow) -> Result<Look, VisitError> {
        match self.visit(job).await {
            Ok(visit) => return Ok(Look::Live(visit)),
            Err(VisitError::Over) => {}
            Err(VisitError::NotNow) if job.paused => {}
            Err(other) => return Err(other),
        }
        if job.node != Some(self.node()) {
            return Err(VisitError::NotHere);
        }
        let workspace = self.data.locate(&data::workspace(job.id));
        if !workspace.is_dir() {
            return Err(VisitError::NotHere);
        }
        Ok(Look::After(Box::new(self.beside(Workspace::View(workspace)).await?)))
    }

    /// A sandbox of our own, closed to the network.
    pub(crate) async fn beside(&self, workspace: Workspace) -> Result<Sandbox, VisitError> {
        let backend = self.outfit.backend(AUTO, Grade::Contained);
        let backend = backend.map_err(|none| VisitError::Sandbox(none.to_string()))?;
        let spec = Spec { workspace, audit: Audit::Off, ..Spec::scratch() };
        let opened = Sandbox::open(&*backend, spec).await;
        opened.map_err(|error| VisitError::Sandbox(error_chain(&error)))
    }
}
