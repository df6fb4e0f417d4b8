//! The jobs that run here: the way into each, and how to reach it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cofferdam_runtime::{Door, Order, OrderKind};
use cofferdam_types::JobId;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Orders that wait for a job; it takes them at once, unless it is about to end.
pub(crate) const ORDERS: usize = 64;

/// How often it is looked whether a job was left.
const GLANCE: Duration = Duration::from_millis(10);

/// The jobs that run here.
#[derive(Default)]
pub(crate) struct Running {
    jobs: Arc<Mutex<HashMap<JobId, Job>>>,
}

struct Job {
    epoch: u64,
    door: Door,
    orders: mpsc::Sender<Order>,
    /// Told when the store has something for the job.
    ordered: Arc<Notify>,
}

/// A job's place among those that run; it is gone when this is dropped.
pub(crate) struct Place {
    jobs: Arc<Mutex<HashMap<JobId, Job>>>,
    job: JobId,
    epoch: u64,
    pub(crate) door: Door,
    pub(crate) ordered: Arc<Notify>,
}

impl Running {
    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.jobs().len()).unwrap_or(u32::MAX)
    }

    fn orders(&self, job: JobId) -> Option<mpsc::Sender<Order>> {
        self.jobs().get(&job).map(|job| job.orders.clone())
    }

    /// Whether a job runs here.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.jobs().contains_key(&job)
    }

    /// Adds a job.
    pub(crate) fn add(&self, job: JobId, epoch: u64, orders: mpsc::Sender<Order>) -> Place {
        let place = Place {
            jobs: Arc::clone(&self.jobs),
            job,
            epoch,
            door: Door::default(),
            ordered: Arc::default(),
        };
        let (door, ordered) = (place.door.clone(), Arc::clone(&place.ordered));
        self.jobs().insert(job, Job { epoch, door, orders, ordered });
        place
    }

    /// The way into a job's sandbox.
    pub(crate) fn door(&self, job: JobId) -> Option<Door> {
        self.jobs().get(&job).map(|job| job.door.clone())
    }

    /// The leases that are held for the jobs here.
    pub(crate) fn leases(&self) -> Vec<(JobId, u64)> {
        self.jobs().iter().map(|(id, job)| (*id, job.epoch)).collect()
    }

    /// Tells a job that the store has something for it.
    pub(crate) fn ordered(&self, job: JobId) {
        if let Some(job) = self.jobs().get(&job) {
            job.ordered.notify_one();
        }
    }

    /// The same for all.
    pub(crate) fn all_ordered(&self) {
        for job in self.jobs().values() {
            job.ordered.notify_one();
        }
    }

    /// Has a job left at once, and its sandbox ended: another server works on it.
    pub(crate) fn lose(&self, job: JobId) {
        if let Some(job) = self.jobs().get(&job) {
            // A full queue is one that nobody reads: the job is leaving already.
            job.orders.try_send(OrderKind::Lost.into()).ok();
        }
    }

    /// Has a job left that was leased under an earlier number, and waits until it is.
    /// Its sandbox stays. Whether that was in time.
    pub(crate) async fn vacated(&self, job: JobId, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while let Some(orders) = self.orders(job) {
            if Instant::now() > until {
                return false;
            }
            // A full queue is one that nobody reads: the job is leaving already.
            orders.try_send(OrderKind::Leave(Instant::now()).into()).ok();
            tokio::time::sleep(GLANCE).await;
        }
        true
    }

    /// Has all jobs left by this moment.
    pub(crate) async fn leave(&self, until: Instant) {
        let senders: Vec<_> = self.jobs().values().map(|job| job.orders.clone()).collect();
        for sender in senders {
            let telling = sender.send(OrderKind::Leave(until).into());
            tokio::time::timeout_at(until, telling).await.ok();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.get(&self.job).is_some_and(|job| job.epoch == self.epoch) {
            jobs.remove(&self.job);
        }
    }
}
