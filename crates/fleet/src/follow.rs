//! A job's events as they come, from any point on, without a gap.

use std::sync::Arc;

use cofferdam_store::{Line, Store, StoreError};
use cofferdam_types::JobId;

use crate::feed::Reader;

/// Events read from the store at once.
const PAGE: u32 = 256;

/// Follows one job's events. A slow reader keeps nobody waiting: it reads from
/// the store what it has missed.
pub struct Follower {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) reader: Reader,
    pub(crate) job: JobId,
    pub(crate) after: u64,
}

impl Follower {
    /// The next events, at least one; none when the job is over and all was
    /// told. Waits for them. Can be dropped and called again.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn next(&mut self) -> Result<Vec<Arc<Line>>, StoreError> {
        loop {
            self.reader.note();
            let mut lines = self.reader.held(self.after);
            if lines.is_empty() {
                // Asked before the events: a job that is over has no more of them.
                let row = self.store.job(self.job).await?;
                let over = row.is_none_or(|row| row.status.is_over());
                let page = self.store.events(self.job, self.after, PAGE).await?;
                lines = page.into_iter().map(Arc::new).collect();
                if lines.is_empty() && over {
                    return Ok(lines);
                }
            }
            if let Some(last) = lines.last() {
                self.after = last.seq;
                return Ok(lines);
            }
            self.reader.changed().await;
        }
    }
}
