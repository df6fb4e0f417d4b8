//! What every request has at hand.

use std::path::PathBuf;
use std::sync::Arc;

use cofferdam_fleet::Fleet;
use cofferdam_store::{JobRow, Principal, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::hosts::Hosts;
use crate::meters::Meters;
use crate::preview::Previews;
use crate::problem::Refusal;
use crate::sessions::Sessions;
use crate::setup::{Limits, Viewer};

/// What every request has at hand.
pub(crate) struct App {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) limits: Limits,
    pub(crate) hosts: Hosts,
    /// Whether connections are encrypted here.
    pub(crate) tls: bool,
    pub(crate) public_metrics: bool,
    /// Where the viewer for desktops is looked for.
    pub(crate) viewer: Option<Viewer>,
    /// Where archives are while they come in.
    pub(crate) spool: PathBuf,
    pub(crate) sessions: Sessions,
    pub(crate) previews: Previews,
    pub(crate) meters: Meters,
    /// Streams end when the server does.
    pub(crate) stopping: CancellationToken,
    /// What goes on after its answer has begun: terminals, screens,
    /// sandboxes to close.
    pub(crate) tasks: TaskTracker,
    pub(crate) room: Room,
}

/// What is bounded in number.
pub(crate) struct Room {
    pub(crate) commands: Arc<Semaphore>,
    pub(crate) looks: Arc<Semaphore>,
    pub(crate) terminals: Arc<Semaphore>,
    pub(crate) screens: Arc<Semaphore>,
    pub(crate) uploads: Arc<Semaphore>,
    pub(crate) notebooks: Arc<Semaphore>,
}

impl Room {
    pub(crate) fn new(at_once: usize) -> Self {
        let of = |count: usize| Arc::new(Semaphore::new(count.max(1)));
        Self {
            commands: of(at_once),
            // Each is a sandbox of its own.
            looks: of(at_once / 8),
            terminals: of(at_once),
            screens: of(at_once),
            uploads: of(at_once / 4),
            notebooks: of(at_once / 32),
        }
    }
}

/// A place among those that may be taken at once.
pub(crate) fn place(among: &Arc<Semaphore>, what: &str) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(among).try_acquire_owned().map_err(|_| Refusal::busy(what))
}

impl App {
    pub(crate) fn store(&self) -> &dyn Store {
        self.fleet.store().as_ref()
    }

    /// The job of this id, if the user may know of it.
    pub(crate) async fn job(&self, principal: &Principal, id: &str) -> Result<JobRow, Refusal> {
        // A job has one address: other spellings of its id are not known.
        let Ok(job) = id.parse::<cofferdam_types::JobId>() else { return Err(Refusal::no_job()) };
        match self.store().job(job).await? {
            Some(row) if row.user == principal.user.id || principal.user.admin => Ok(row),
            _ => Err(Refusal::no_job()),
        }
    }
}
