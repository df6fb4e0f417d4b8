//! Two servers on one database.

use std::collections::HashSet;
use std::time::Duration;

use cofferdam_store::{Change, Idempotency, NewJob, NodeId, Order, Store, StoreError, Submitted};
use cofferdam_store::{JobRow, Lease, LeaseAsk, Ordered, QueueBounds, UserId};
use cofferdam_store_postgres::PostgresStore;
use cofferdam_testkit::Postgres;
use cofferdam_types::JobId;
use futures_util::future::join_all;
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

use super::fixture::{HOUR, ask, draft, fresh, lease, noted, submit, until};

const NEWS: Duration = Duration::from_secs(60);

async fn told(watch: &mut Receiver<Change>, wanted: Change) {
    let wait = async { while watch.recv().await.unwrap() != wanted {} };
    timeout(NEWS, wait).await.unwrap_or_else(|_| panic!("{wanted:?} was not told"));
}

#[tokio::test]
async fn whoever_lost_its_lease_appends_nothing() {
    let (_server, url, one) = fresh().await;
    let other = PostgresStore::open(&url).await.unwrap();
    let job = submit(&one, UserId::generate()).await;
    let old = lease(&one, NodeId::generate(), Duration::from_millis(1)).await;
    one.append(noted(&old, 2, "mine")).await.unwrap();
    let node = NodeId::generate();
    let new = until("the lease has run out", || async {
        other.lease(ask(node, 1, Duration::from_millis(1))).await.unwrap().pop()
    })
    .await;
    assert_eq!(other.renew(node, vec![(job, new.job.epoch)], HOUR).await.unwrap(), []);
    assert_eq!(new.job.epoch, old.job.epoch + 1);
    assert_eq!(new.before, old.job.node);
    let refused = one.append(noted(&old, 3, "too late")).await;
    assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
    other.append(noted(&new, 3, "mine now")).await.unwrap();
    let node = old.job.node.unwrap();
    assert_eq!(one.renew(node, vec![(job, old.job.epoch)], HOUR).await.unwrap(), [job]);
    one.release(job, old.job.epoch).await.unwrap();
    other.append(noted(&new, 4, "mine still")).await.unwrap();
    assert_eq!(one.events(job, 0, 10).await.unwrap().len(), 4);
}

/// Leases until there is nothing left.
async fn lease_all(store: &PostgresStore) -> Vec<JobId> {
    let wish = ask(NodeId::generate(), 3, HOUR);
    let mut mine = Vec::new();
    loop {
        let leases = store.lease(wish).await.unwrap();
        if leases.is_empty() {
            return mine;
        }
        mine.extend(leases.into_iter().map(|lease| lease.job.id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_leased_twice() {
    const JOBS: usize = 200;
    let (_server, url, one) = fresh().await;
    let other = PostgresStore::open(&url).await.unwrap();
    let users = [UserId::generate(), UserId::generate(), UserId::generate()];
    let made = (0..JOBS).map(|n| submit(&one, users[n % 3]));
    let made: HashSet<_> = join_all(made).await.into_iter().collect();
    let all =
        join_all((0..8).map(|n| lease_all(if n % 2 == 0 { &one } else { &other }))).await.concat();
    assert_eq!(all.len(), JOBS);
    assert_eq!(all.into_iter().collect::<HashSet<_>>(), made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_refused_keeps_nobody_from_the_job() {
    let (_server, url, one) = fresh().await;
    let other = PostgresStore::open(&url).await.unwrap();
    let user = UserId::generate();
    let job = submit(&one, user).await;
    let node = NodeId::generate();
    let tight = QueueBounds { all: 0, per_user: 0 };
    for round in 0..100 {
        match round % 4 {
            0 => assert!(matches!(one.forget(job).await, Err(StoreError::NotOver))),
            1 => {
                let resume = Order::Resume { say: None, budget: None };
                let refused = one.order(job, resume).await.unwrap();
                assert!(matches!(refused, Ordered::Refused(_)), "{refused:?}");
            }
            2 => {
                let full = one.submit(NewJob { bounds: tight, ..draft(user) }).await.unwrap();
                assert!(matches!(full, Submitted::TooMany { .. }), "{full:?}");
            }
            _ => {
                let row = one.job(job).await.unwrap().unwrap();
                let stale = Lease { job: JobRow { epoch: 0, ..row }, before: None };
                let refused = one.append(noted(&stale, 2, "late")).await;
                assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
            }
        }
        // Only what nobody holds a lock on is leased.
        let leases = other.lease(ask(node, 1, HOUR)).await.unwrap();
        assert_eq!(leases.len(), 1, "round {round}");
        other.release(job, leases[0].job.epoch).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_see_different_queues_keep_to_a_users_bound() {
    let (_server, url, one) = fresh().await;
    let other = PostgresStore::open(&url).await.unwrap();
    let wish = || LeaseAsk { per_user: 1, ..ask(NodeId::generate(), 1, HOUR) };
    for round in 0..60 {
        let user = UserId::generate();
        submit(&one, user).await;
        // Each of these puts another job in front.
        let urgent =
            join_all((1..=4).map(|priority| one.submit(NewJob { priority, ..draft(user) })));
        let leases = join_all(
            (0..8).map(|n| if n % 2 == 0 { one.lease(wish()) } else { other.lease(wish()) }),
        );
        let (leases, urgent) = futures_util::future::join(leases, urgent).await;
        assert!(urgent.iter().all(Result::is_ok), "{urgent:?}");
        let leased: usize = leases.into_iter().map(|leases| leases.unwrap().len()).sum();
        assert_eq!(leased, 1, "round {round}");
    }
}

#[tokio::test]
async fn one_key_on_two_servers_makes_one_job() {
    let (_server, url, one) = fresh().await;
    let other = PostgresStore::open(&url).await.unwrap();
    let user = UserId::generate();
    let idempotency = Some(Idempotency { key: "same\0key".to_owned(), fingerprint: [1; 32] });
    let submits = (0..20).map(|n| {
        let job = NewJob { idempotency: idempotency.clone(), ..draft(user) };
        if n % 2 == 0 { one.submit(job) } else { other.submit(job) }
    });
    let outcomes: Vec<_> = join_all(submits).await.into_iter().map(Result::unwrap).collect();
    let new = outcomes.iter().filter(|outcome| **outcome == Submitted::New).count();
    assert_eq!(new, 1, "{outcomes:?}");
    assert_eq!(one.counts(Some(user)).await.unwrap().pending, 1);
}

#[tokio::test]
async fn a_bound_holds_over_two_servers_near_it_and_far_from_it() {
    let (_server, url, one) = fresh().await;
    let other = PostgresStore::open(&url).await.unwrap();
    // More than are looked at one by one: the first go side by side.
    for (per_user, all) in [(300, 10_000), (10_000, 300)] {
        let user = UserId::generate();
        let before = u32::try_from(one.counts(None).await.unwrap().pending).unwrap();
        let bounds = QueueBounds { all: before.saturating_add(all), per_user };
        let submits = (0..330).map(|n| {
            let job = NewJob { bounds, ..draft(user) };
            if n % 2 == 0 { one.submit(job) } else { other.submit(job) }
        });
        let outcomes: Vec<_> = join_all(submits).await.into_iter().map(Result::unwrap).collect();
        let new = outcomes.iter().filter(|outcome| **outcome == Submitted::New).count();
        assert_eq!(new, 300, "per user {per_user}, in all {all}");
        let own = per_user == 300;
        let refused = outcomes.iter().find(|outcome| **outcome != Submitted::New).unwrap();
        assert_eq!(*refused, Submitted::TooMany { own });
    }
}

#[tokio::test]
async fn what_one_server_does_is_told_on_the_other() {
    let (_server, url, one) = fresh().await;
    let other = PostgresStore::open(&url).await.unwrap();
    let mut watch = other.watch();
    let job = submit(&one, UserId::generate()).await;
    told(&mut watch, Change::Queue).await;
    let lease = lease(&one, NodeId::generate(), HOUR).await;
    one.append(noted(&lease, 2, "a")).await.unwrap();
    told(&mut watch, Change::Events { job, last: 2 }).await;
    assert_eq!(other.events(job, 1, 10).await.unwrap().len(), 1, "told once it can be read");
    one.order(job, Order::Pause).await.unwrap();
    told(&mut watch, Change::Ordered { job }).await;
}

#[tokio::test]
async fn whoever_takes_over_tells_what_the_dead_could_not() {
    let (_server, url, one) = fresh().await;
    let job = submit(&one, UserId::generate()).await;
    let old = lease(&one, NodeId::generate(), HOUR).await;
    one.append(noted(&old, 2, "a")).await.unwrap();
    let watcher = PostgresStore::open(&url).await.unwrap();
    let mut watch = watcher.watch();
    drop(one);
    let other = PostgresStore::open(&url).await.unwrap();
    let node = old.job.node.unwrap();
    other.reclaim(node).await.unwrap();
    lease(&other, node, HOUR).await;
    told(&mut watch, Change::Events { job, last: 2 }).await;
}

#[tokio::test]
async fn news_come_again_after_the_database_was_restarted() {
    let server = Postgres::start();
    let url = server.database();
    let one = PostgresStore::open(&url).await.unwrap();
    let other = PostgresStore::open(&url).await.unwrap();
    let mut watch = other.watch();
    server.restart();
    told(&mut watch, Change::Everything).await;
    let job = submit(&one, UserId::generate()).await;
    told(&mut watch, Change::Events { job, last: 1 }).await;
}
