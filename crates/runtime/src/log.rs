//! Where a job's events go: a file of its own, or a store of many jobs.

use cofferdam_store::OrderId;
use cofferdam_types::{Event, Record, Timestamp};
use futures_util::future::BoxFuture;

use crate::journal::Journal;

/// Why events could not be made durable.
pub type LogError = Box<dyn std::error::Error + Send + Sync>;

/// Why a log cannot be appended to for good: another process has the job, in a sandbox
/// of its own.
#[derive(Debug, thiserror::Error)]
#[error("the job was taken over by another process")]
pub struct TakenOver;

/// A job's log, open for appending.
pub trait Log: Send {
    /// Appends events and makes them durable, all or none. `heard` is the stored
    /// order that they answer.
    fn append(
        &mut self,
        at: Timestamp,
        events: Vec<Event>,
        heard: Option<OrderId>,
    ) -> BoxFuture<'_, Result<Vec<Record>, LogError>>;
}

/// A journal whose writes wait for the disk in a thread of their own: a disk that
/// hangs must not keep anybody from interrupting us.
pub struct JournalLog(Option<Journal>);

impl From<Journal> for JournalLog {
    fn from(journal: Journal) -> Self {
        Self(Some(journal))
    }
}

impl Log for JournalLog {
    fn append(
        &mut self,
        at: Timestamp,
        events: Vec<Event>,
        _heard: Option<OrderId>,
    ) -> BoxFuture<'_, Result<Vec<Record>, LogError>> {
        Box::pin(async move {
            let Some(mut journal) = self.0.take() else {
                return Err("the log was lost".into());
            };
            let appended = tokio::task::spawn_blocking(move || {
                let records = journal.append(at, events);
                (journal, records)
            });
            let (journal, records) = appended.await?;
            self.0 = Some(journal);
            Ok(records?)
        })
    }
}
