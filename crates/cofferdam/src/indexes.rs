//! The indexes of what jobs have let go: a SQLite file for each.

use std::path::PathBuf;
use std::sync::Arc;

use cofferdam_recall::{Index, RecallError};
use cofferdam_recall_sqlite::SqliteIndex;
use cofferdam_runtime::Indexes;
use futures_util::future::BoxFuture;

/// Opens them.
pub(crate) struct SqliteIndexes;

impl Indexes for SqliteIndexes {
    fn open(&self, path: PathBuf) -> BoxFuture<'_, Result<Arc<dyn Index>, RecallError>> {
        Box::pin(async move {
            let index: Arc<dyn Index> = Arc::new(SqliteIndex::open(path).await?);
            Ok(index)
        })
    }
}
