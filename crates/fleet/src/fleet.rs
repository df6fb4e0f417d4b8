//! The fleet itself.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cofferdam_runtime::Aide;
use cofferdam_store::{Blobs, NodeId, Order, Ordered, Store, StoreError};
use cofferdam_types::{JobId, SandboxId};
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bounds::Bounds;
use crate::data::Data;
use crate::feed::Feed;
use crate::follow::Follower;
use crate::outfit::Outfit;
use crate::paced::Turns;
use crate::running::Running;
use crate::{reconcile, scheduler};

/// What a fleet is made of.
pub struct Setup {
    /// Where this server keeps its files.
    pub data: Data,
    /// Where jobs are kept.
    pub store: Arc<dyn Store>,
    /// Where big things are kept.
    pub blobs: Arc<dyn Blobs>,
    /// What jobs are done with.
    pub outfit: Arc<dyn Outfit>,
    /// How much it takes on.
    pub bounds: Bounds,
}

/// Why a fleet cannot start.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Another server uses the data directory.
    #[error("another server uses {0}")]
    Busy(PathBuf),
    /// The data directory cannot be used.
    #[error("{path}: {source}")]
    Data {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How busy a fleet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Jobs that run here.
    pub running: u32,
    /// Jobs that may run here at once.
    pub capacity: u32,
    /// Whether it takes no more jobs because it is about to stop.
    pub draining: bool,
}

/// Many jobs.
pub struct Fleet {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) outfit: Arc<dyn Outfit>,
    pub(crate) bounds: Bounds,
    pub(crate) data: Arc<Data>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) running: Running,
    /// To make sandboxes.
    pub(crate) turns: Turns,
    /// Held for writing while nobody may take a job up.
    pub(crate) taking_up: RwLock<()>,
    /// Told when the fleet is to stop.
    pub(crate) stopping: CancellationToken,
    pub(crate) draining: AtomicBool,
    /// What goes on besides the requests.
    tasks: Mutex<JoinSet<()>>,
}

impl Fleet {
    /// Starts working: adopts or removes what an earlier life left, then leases and drives jobs until it is drained.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn start(setup: Setup) -> Result<Arc<Self>, FleetError> {
        let born = SandboxId::generate();
        let data = Arc::new(setup.data);
        // Whoever held leases under this name is dead: the directory is ours.
        let reclaimed = setup.store.reclaim(data.node()).await?;
        if reclaimed > 0 {
            tracing::info!(jobs = reclaimed, "taking up the jobs of an earlier life");
        }
        let fleet = Arc::new(Self {
            store: setup.store,
            blobs: setup.blobs,
            outfit: setup.outfit,
            bounds: setup.bounds,
            data,
            feed: Arc::default(),
            running: Running::default(),
            turns: Turns::default(),
            taking_up: RwLock::default(),
            stopping: CancellationToken::new(),
            draining: AtomicBool::new(false),
            tasks: Mutex::default(),
        });
        let mut tasks = fleet.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn(scheduler::schedule(Arc::clone(&fleet)));
        tasks.spawn(scheduler::keep_leases(Arc::clone(&fleet)));
        tasks.spawn(scheduler::listen(Arc::clone(&fleet)));
        tasks.spawn(reconcile::reconcile(Arc::clone(&fleet), born));
        tasks.spawn(reconcile::expire(Arc::clone(&fleet)));
        drop(tasks);
        Ok(fleet)
    }

    /// Where jobs are kept.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What jobs are done with.
    #[must_use]
    pub fn outfit(&self) -> &Arc<dyn Outfit> {
        &self.outfit
    }

    /// What works inside the sandboxes of its jobs, if anything does.
    #[must_use]
    pub fn aide(&self) -> Option<Aide> {
        self.outfit.aide()
    }

    /// How much it takes on.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// This server's name.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.data.node()
    }

    /// How busy it is.
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            running: self.running.count(),
            capacity: self.bounds.running,
            draining: self.draining.load(Ordering::Relaxed),
        }
    }

    /// Gives a job an order.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn order(&self, job: JobId, order: Order) -> Result<Ordered, StoreError> {
        self.store.order(job, order).await
    }

    /// A job's events after this one.
    #[must_use]
    pub fn follow(&self, job: JobId, after: u64) -> Follower {
        let (store, reader) = (Arc::clone(&self.store), self.feed.follow(job));
        Follower { store, reader, job, after }
    }

    /// Forgets a job that is over: its events, its artifacts, its files.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget(&self, job: JobId) -> Result<(), StoreError> {
        let artifacts = self.store.forget(job).await?;
        for artifact in artifacts {
            if let Err(error) = self.blobs.remove(&artifact.blob.key).await {
                tracing::warn!(%job, %error, "an artifact of a forgotten job is left");
            }
        }
        match self.data.put_aside(job) {
            Ok(aside) => remove(aside).await,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%job, %error, "files of a forgotten job are left"),
        }
        Ok(())
    }

    /// Takes no more jobs from here on.
    pub fn close(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Stops: takes no more jobs, lets answers that are being paid for come in, and
    /// leaves the sandboxes for the next life to adopt. Returns after `grace` at
    /// the latest, whatever happens.
    pub async fn drain(&self, grace: Duration) {
        self.close();
        self.stopping.cancel();
        let until = tokio::time::Instant::now() + grace;
        self.running.leave(until).await;
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = async { while tasks.join_next().await.is_some() {} };
        // A little longer than the jobs have: they watch the same clock.
        let patience = Duration::from_secs(2);
        if tokio::time::timeout_at(until + patience, ended).await.is_err() {
            tracing::warn!("not everything had stopped in time");
        }
    }
}

/// Removes what was put aside. What cannot be removed now is found at the next start.
pub(crate) async fn remove(aside: PathBuf) {
    let path = aside.clone();
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(path)).await;
    if let Ok(Err(error)) = removed {
        tracing::warn!(path = %aside.display(), %error, "files of a forgotten job are left");
    }
}
