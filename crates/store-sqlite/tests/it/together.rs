//! Calls that are made at once: committed together, undone one by one, and no
//! reader waits for them.

use cofferdam_store::{Change, Idempotency, NewJob, NodeId, Store, StoreError, Submitted, UserId};
use cofferdam_store_sqlite::SqliteStore;
use futures_util::future::{join, join_all};
use tempfile::TempDir;
use tokio::sync::broadcast::error::TryRecvError;

use crate::world::{append, ask, beside, draft, inspect, noted};

#[tokio::test]
async fn calls_that_wait_are_committed_together() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    // While another holds the file, calls can only gather.
    let other = beside(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = store.commits();
    let user = UserId::generate();
    let calls = join_all((0..200).map(|_| store.submit(draft(user))));
    let free = async { other.execute_batch("ROLLBACK").unwrap() };
    let (answers, ()) = join(calls, free).await;
    for answer in answers {
        assert_eq!(answer.unwrap(), Submitted::New);
    }
    assert_eq!(store.commits() - before, 1, "commits of 200 calls");
    assert_eq!(inspect(&path, &store).await.len(), 200);
}

#[tokio::test]
async fn a_call_that_fails_undoes_only_what_it_did() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let user = UserId::generate();
    let first = draft(user);
    store.submit(first.clone()).await.unwrap();
    let lease = store.lease(ask(NodeId::generate(), 1)).await.unwrap().remove(0);
    let other = beside(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = store.commits();
    let good = [draft(user), draft(user)];
    let ids = [good[0].spec.job, good[1].spec.job];
    let [one, two] = good;
    let mut gap = append(&lease, 2, noted("kept?"));
    gap.records.extend(append(&lease, 9, noted("a gap")).records);
    let calls = async {
        tokio::join!(
            store.submit(one),
            store.submit(first.clone()),
            store.append(gap),
            store.append(append(&lease, 2, noted("kept"))),
            store.append(append(&lease, 2, noted("too late"))),
            store.submit(two),
        )
    };
    let free = async { other.execute_batch("ROLLBACK").unwrap() };
    let ((one, again, gap, kept, late, two), ()) = join(calls, free).await;
    assert_eq!((one.unwrap(), two.unwrap()), (Submitted::New, Submitted::New));
    assert!(matches!(again, Err(StoreError::Taken(_))), "{again:?}");
    assert!(matches!(gap, Err(StoreError::Fenced)), "{gap:?}");
    kept.unwrap();
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    assert_eq!(store.commits() - before, 1, "commits");
    let rows = inspect(&path, &store).await;
    let mut there: Vec<_> = rows.iter().map(|row| row.id).collect();
    there.sort();
    let mut wanted = vec![first.spec.job, ids[0], ids[1]];
    wanted.sort();
    assert_eq!(there, wanted);
    assert_eq!(store.job(first.spec.job).await.unwrap().unwrap().last_seq, 2);
}

#[tokio::test]
async fn reads_do_not_wait_for_writes() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let user = UserId::generate();
    let job = draft(user);
    store.submit(job.clone()).await.unwrap();
    let other = beside(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let write = store.submit(draft(user));
    let reads = async {
        for _ in 0..20 {
            assert!(store.job(job.spec.job).await.unwrap().is_some());
            assert_eq!(store.counts(None).await.unwrap().pending, 1);
        }
        other.execute_batch("ROLLBACK").unwrap();
    };
    let (written, ()) = join(write, reads).await;
    assert_eq!(written.unwrap(), Submitted::New);
}

#[tokio::test]
async fn a_file_that_another_keeps_for_too_long_is_unavailable_and_unchanged() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let mut watch = store.watch();
    let user = UserId::generate();
    let other = beside(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for answer in join_all((0..10).map(|_| store.submit(draft(user)))).await {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(inspect(&path, &store).await.len(), 0);
    assert_eq!(watch.try_recv(), Err(TryRecvError::Empty), "news of what did not happen");
    let job = draft(user);
    let id = job.spec.job;
    assert_eq!(store.submit(job).await.unwrap(), Submitted::New);
    assert_eq!(watch.recv().await.unwrap(), Change::Events { job: id, last: 1 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_submissions_under_one_key_by_two_stores_make_one_job() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let stores = [SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap()];
    let user = UserId::generate();
    let calls = (0..50).map(|n| {
        let idempotency = Some(Idempotency { key: "key".to_owned(), fingerprint: [1; 32] });
        stores[n % 2].submit(NewJob { idempotency, ..draft(user) })
    });
    let answers: Vec<Submitted> =
        join_all(calls).await.into_iter().map(|answer| answer.unwrap()).collect();
    let new = answers.iter().filter(|answer| **answer == Submitted::New).count();
    assert_eq!(new, 1, "{answers:?}");
    let rows = inspect(&path, &stores[0]).await;
    assert_eq!(rows.len(), 1);
    let before = Submitted::Before(rows[0].id);
    assert_eq!(answers.iter().filter(|answer| **answer == before).count(), 49, "{answers:?}");
}

#[tokio::test]
async fn what_was_asked_for_happens_although_nobody_waits_for_it() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    let other = beside(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let job = draft(UserId::generate());
    let id = job.spec.job;
    let mut call = store.submit(job);
    let gone = async {};
    tokio::select! {
        biased;
        _ = &mut call => panic!("it was answered while another held the file"),
        () = gone => {}
    }
    drop(call);
    other.execute_batch("ROLLBACK").unwrap();
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert!(store.job(id).await.unwrap().is_some());
}
