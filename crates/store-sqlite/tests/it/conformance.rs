//! The suite of the seam.

use std::sync::Arc;

use cofferdam_store::{Store, conformance};
use cofferdam_store_sqlite::SqliteStore;
use futures_util::future::BoxFuture;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_behaves_like_a_store() {
    let home = TempDir::new().unwrap();
    let count = std::sync::atomic::AtomicU32::new(0);
    let make = || -> BoxFuture<'static, Arc<dyn Store>> {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = home.path().join(format!("{number}.db"));
        Box::pin(async move { Arc::new(SqliteStore::open(&path).unwrap()) as Arc<dyn Store> })
    };
    conformance::run_all(make).await.assert_passed();
}
