//! A job's log in the store: written under the lease that this server holds, and read.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_runtime::{Log, LogError, Past, TakenOver};
use cofferdam_store::{Append, Line, NodeId, OrderId, Store, StoreError};
use cofferdam_types::{Event, JobId, LOG_VERSION, Record, Timestamp};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::data::Data;
use crate::feed::Feed;

/// How long a store that is away or full is waited for. The job stands still
/// meanwhile; after that it is left, and taken up again later.
const PATIENCE: Duration = Duration::from_secs(60);

/// The wait between two tries: the first, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A job's log.
pub(crate) struct StoredLog {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) data: Arc<Data>,
    pub(crate) job: JobId,
    pub(crate) epoch: u64,
    /// This server.
    pub(crate) node: NodeId,
    /// The number of the next event.
    pub(crate) next: u64,
}

impl Log for StoredLog {
    fn append(
        &mut self,
        at: Timestamp,
        events: Vec<Event>,
        heard: Option<OrderId>,
    ) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        Box::pin(async move {
            let numbered = (self.next..).zip(events);
            let records: Vec<Record> =
                numbered.map(|(seq, event)| Record { v: LOG_VERSION, seq, at, event }).collect();
            for record in &records {
                if let Event::SandboxOpened { sandbox, .. } = record.event
                    && self.store.is_shared()
                {
                    self.data.note_sandbox(self.job, sandbox)?;
                }
            }
            self.store(&records, heard).await?;
            self.next += records.len() as u64;
            self.feed.tell(self.job, || records.iter().filter_map(|record| Line::of(record).ok()));
            Ok(records)
        })
    }
}

impl StoredLog {
    /// Whether another server has the job, as far as is known.
    async fn is_elsewhere(&self) -> bool {
        let row = self.store.job(self.job).await;
        matches!(row, Ok(Some(row)) if row.node != Some(self.node))
    }

    async fn store(&self, records: &[Record], heard: Option<OrderId>) -> Result<(), LogError> {
        let until = Instant::now() + PATIENCE;
        let mut wait = FIRST_WAIT;
        loop {
            let append =
                Append { job: self.job, epoch: self.epoch, records: records.to_vec(), heard };
            match self.store.append(append).await {
                Err(StoreError::Fenced) if self.is_elsewhere().await => {
                    return Err(TakenOver.into());
                }
                Err(error @ (StoreError::Unavailable(_) | StoreError::Full(_)))
                    if Instant::now() < until =>
                {
                    tracing::warn!(job = %self.job, %error, "waiting for the store");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
                result => return Ok(result?),
            }
        }
    }
}

/// A job's log in the store, to be read.
pub(crate) struct StoredPast {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) job: JobId,
}

impl Past for StoredPast {
    fn after(&self, seq: u64, most: usize) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        Box::pin(async move {
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            let page = self.store.events(self.job, seq, most).await?;
            let records = page.iter().map(Line::record).collect::<Result<Vec<_>, _>>();
            Ok(records.map_err(|error| StoreError::Broken(error.to_string()))?)
        })
    }
}
