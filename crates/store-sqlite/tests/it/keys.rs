//! Keys are remembered for their lifetime, and no longer.

use cofferdam_store::{Idempotency, KEY_LIFETIME, NewJob, Store, Submitted, UserId};
use cofferdam_store_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::world::{HOUR, beside, draft};

#[tokio::test]
async fn a_key_is_forgotten_after_its_lifetime_and_not_before() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let user = UserId::generate();
    let keyed = || {
        let idempotency = Some(Idempotency { key: "key".to_owned(), fingerprint: [1; 32] });
        NewJob { idempotency, ..draft(user) }
    };
    let first = keyed();
    assert_eq!(store.submit(first.clone()).await.unwrap(), Submitted::New);
    let age = |span: std::time::Duration| {
        let millis = i64::try_from(span.as_millis()).unwrap();
        beside(&path).execute("UPDATE keys SET at = at - ?1", [millis]).unwrap();
    };
    age(KEY_LIFETIME - HOUR);
    store.expire(HOUR).await.unwrap();
    assert_eq!(store.submit(keyed()).await.unwrap(), Submitted::Before(first.spec.job));
    age(HOUR + HOUR);
    store.expire(HOUR).await.unwrap();
    assert_eq!(store.submit(keyed()).await.unwrap(), Submitted::New);
}
