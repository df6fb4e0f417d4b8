//! The database stops, dies or freezes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cofferdam_store::{Line, NodeId, Order, Ordered, Store, StoreError, UserId};
use cofferdam_store_postgres::{PostgresStore, Settings};
use cofferdam_testkit::Postgres;
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::fixture::{
    HOUR, ask, draft, fresh, impatient, is_unavailable, lease, noted, submit, until,
};

/// Appends until told to stop, each again until it is there; returns the last.
async fn write(
    store: &PostgresStore,
    lease: &cofferdam_store::Lease,
    acknowledged: &AtomicU64,
    stop: &AtomicBool,
) -> u64 {
    let mut seq = 2;
    while !stop.load(Ordering::Relaxed) {
        match store.append(noted(lease, seq, &format!("event {seq}"))).await {
            Ok(()) => {
                acknowledged.fetch_add(1, Ordering::Relaxed);
                seq += 1;
            }
            Err(StoreError::Unavailable(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    seq - 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_the_death_of_the_database() {
    let server = Postgres::start_with(&[("fsync", "on"), ("full_page_writes", "on")]);
    let store = impatient(&server.database()).await;
    let user = UserId::generate();
    for _ in 0..6 {
        submit(&store, user).await;
    }
    let leases = store.lease(ask(NodeId::generate(), 6, HOUR)).await.unwrap();
    assert_eq!(leases.len(), 6);
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let writers = leases.iter().map(|lease| write(&store, lease, &acknowledged, &stop));
    let killer = async {
        for _ in 0..3 {
            let before = acknowledged.load(Ordering::Relaxed);
            until("appends go on", || async {
                (acknowledged.load(Ordering::Relaxed) > before + 50).then_some(())
            })
            .await;
            tokio::task::block_in_place(|| {
                server.kill();
                server.resume();
            });
        }
        let before = acknowledged.load(Ordering::Relaxed);
        until("appends go on", || async {
            (acknowledged.load(Ordering::Relaxed) > before + 50).then_some(())
        })
        .await;
        stop.store(true, Ordering::Relaxed);
    };
    let (lasts, ()) = futures_util::future::join(join_all(writers), killer).await;
    for (lease, last) in leases.iter().zip(lasts) {
        let job = lease.job.id;
        let events = store.events(job, 0, u32::MAX).await.unwrap();
        let numbers: Vec<u64> = events.iter().map(|line| line.seq).collect();
        assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
        for line in &events[1..] {
            let text = format!("event {}", line.seq);
            let wanted = noted(lease, line.seq, &text).records;
            assert_eq!(*line, Line::of(&wanted[0]).unwrap());
        }
        assert_eq!(store.job(job).await.unwrap().unwrap().last_seq, last);
    }
}

#[tokio::test]
async fn a_frozen_database_is_unavailable_in_time_and_usable_after() {
    let server = Postgres::start();
    let store = impatient(&server.database()).await;
    let job = submit(&store, UserId::generate()).await;
    let held = lease(&store, NodeId::generate(), HOUR).await;
    server.freeze();
    let begun = Instant::now();
    let (read, appended, submitted) = futures_util::future::join3(
        store.job(job),
        store.append(noted(&held, 2, "a")),
        store.submit(draft(UserId::generate())),
    )
    .await;
    assert!(is_unavailable(&read), "{read:?}");
    assert!(is_unavailable(&appended), "{appended:?}");
    assert!(is_unavailable(&submitted), "{submitted:?}");
    // More than there are connections, so that some wait for one.
    let many = join_all((0..30).map(|_| store.job(job))).await;
    assert!(many.iter().all(is_unavailable), "{many:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    server.thaw();
    until("the database is back", || async { store.job(job).await.ok().flatten() }).await;
    store.append(noted(&held, 2, "a")).await.unwrap();
    assert_eq!(store.events(job, 0, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_database_that_is_down_is_unavailable_and_a_short_restart_is_not_noticed() {
    let server = Postgres::start();
    let store = impatient(&server.database()).await;
    let job = submit(&store, UserId::generate()).await;
    server.stop();
    let begun = Instant::now();
    let outcome = store.job(job).await;
    assert!(is_unavailable(&outcome), "{outcome:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    server.resume();
    until("the database is back", || async { store.job(job).await.ok().flatten() }).await;
    server.restart();
    // All connections of the pool are dead, and nobody has noticed yet.
    assert!(store.job(job).await.unwrap().is_some());
    server.restart();
    let kept = store.order(job, Order::Say { text: "hello".to_owned() }).await.unwrap();
    assert!(matches!(kept, Ordered::Kept(_)));
    assert_eq!(store.orders(job).await.unwrap().len(), 1, "given once");
}

#[tokio::test]
async fn an_append_whose_answer_was_lost_may_be_repeated() {
    let (server, url, store) = fresh().await;
    let job = submit(&store, UserId::generate()).await;
    let held = lease(&store, NodeId::generate(), HOUR).await;
    // The caller gives up at some time between the first statement and the answer.
    let mut seq = 2;
    for patience in (0..400).map(|n| Duration::from_micros(n * 20)) {
        let append = || noted(&held, seq, "a\0b");
        if tokio::time::timeout(patience, store.append(append())).await.is_err() {
            store.append(append()).await.unwrap();
        }
        seq += 1;
    }
    let count = format!("SELECT count(*), max(seq) FROM cofferdam.events WHERE job = '{job}'");
    assert_eq!(server.sql(&url, &count), "401|401");
    let other = store.append(noted(&held, seq - 1, "a\0b")).await;
    assert!(matches!(other, Err(StoreError::Fenced)), "nothing was lost here: {other:?}");
}

#[tokio::test]
async fn a_full_disk_is_told_as_such() {
    let (server, url, store) = fresh().await;
    submit(&store, UserId::generate()).await;
    let held = lease(&store, NodeId::generate(), HOUR).await;
    let full = "CREATE FUNCTION cofferdam.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$; \
                CREATE TRIGGER full_disk BEFORE INSERT ON cofferdam.events \
                EXECUTE FUNCTION cofferdam.full()";
    assert_eq!(server.sql(&url, full), "");
    let appended = store.append(noted(&held, 2, "a")).await;
    assert!(matches!(appended, Err(StoreError::Full(_))), "{appended:?}");
    let submitted = store.submit(draft(UserId::generate())).await;
    assert!(matches!(submitted, Err(StoreError::Full(_))), "{submitted:?}");
    assert_eq!(server.sql(&url, "DROP TRIGGER full_disk ON cofferdam.events"), "");
    store.append(noted(&held, 2, "a")).await.unwrap();
    assert_eq!(store.counts(None).await.unwrap().pending, 1);
}

#[tokio::test]
async fn a_call_that_was_given_up_holds_up_no_other() {
    let (_server, url, store) = fresh().await;
    let job = submit(&store, UserId::generate()).await;
    let held = lease(&store, NodeId::generate(), HOUR).await;
    drop(store);
    // The server lets a statement wait for a lock for a quarter of a call's time.
    let settings = Settings { connections: 1, patience: Duration::from_secs(120) };
    let store = PostgresStore::open_with(&url, settings).await.unwrap();
    let (blocker, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async { connection.await.unwrap() });
    blocker.batch_execute("BEGIN; LOCK TABLE cofferdam.events").await.unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let mut stuck = store.append(noted(&held, 2, "a"));
    loop {
        let outcome = tokio::time::timeout(Duration::from_millis(5), &mut stuck).await;
        assert!(outcome.is_err(), "{outcome:?}");
        if blocker.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            break;
        }
    }
    drop(stuck);
    let other = tokio::time::timeout(Duration::from_secs(15), store.job(job)).await;
    assert!(other.expect("the only connection is another one").unwrap().is_some());
    blocker.batch_execute("ROLLBACK").await.unwrap();
    store.append(noted(&held, 2, "a")).await.unwrap();
}
