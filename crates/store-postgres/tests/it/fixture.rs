//! Servers, stores and jobs for the tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_store::{
    Append, Lease, LeaseAsk, NewJob, NodeId, QueueBounds, Store, StoreError, Submitted, UserId,
};
use cofferdam_store_postgres::{PostgresStore, Settings};
use cofferdam_testkit::Postgres;
use cofferdam_types::{
    Budget, Event, JobId, JobSpec, LOG_VERSION, Limits, ModelName, Network, Place, Record,
    Timestamp,
};

/// Longer than any condition takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A store in a new database of the shared server.
pub(crate) async fn fresh() -> (Arc<Postgres>, String, PostgresStore) {
    let server = Postgres::shared();
    let url = server.database();
    let store = PostgresStore::open(&url).await.unwrap();
    (server, url, store)
}

/// A store that soon gives up.
pub(crate) async fn impatient(url: &str) -> PostgresStore {
    let settings = Settings { patience: Duration::from_secs(2), ..Settings::default() };
    PostgresStore::open_with(url, settings).await.unwrap()
}

pub(crate) fn draft(user: UserId) -> NewJob {
    NewJob {
        spec: JobSpec {
            job: JobId::generate(),
            task: "make it work".to_owned(),
            orchestrator: ModelName("demo/a".to_owned()),
            coder: ModelName("demo/b".to_owned()),
            summariser: None,
            budget: Budget { turns: 9, tokens: Some(1000), cost: None, time: None },
            checks: vec!["make test".to_owned()],
            attempts: 3,
            place: Place {
                workspace: PathBuf::from("/project"),
                sandbox: "auto".to_owned(),
                require: None,
                network: Network::None,
                limits: Limits::default(),
                readable: Vec::new(),
                image: None,
                variables: Vec::new(),
            },
            out: None,
        },
        user,
        priority: 0,
        created: Timestamp(1_700_000_000_000),
        idempotency: None,
        upload: None,
        bounds: QueueBounds { all: 1_000_000, per_user: 1_000_000 },
    }
}

pub(crate) async fn submit(store: &dyn Store, user: UserId) -> JobId {
    let job = draft(user);
    let id = job.spec.job;
    assert_eq!(store.submit(job).await.unwrap(), Submitted::New);
    id
}

pub(crate) fn ask(node: NodeId, most: u32, span: Duration) -> LeaseAsk {
    LeaseAsk { node, span, most, per_user: 1_000_000 }
}

pub(crate) async fn lease(store: &dyn Store, node: NodeId, span: Duration) -> Lease {
    let mut leases = store.lease(ask(node, 1, span)).await.unwrap();
    leases.pop().expect("there is something to lease")
}

pub(crate) fn noted(lease: &Lease, seq: u64, text: &str) -> Append {
    let event = Event::Noted { text: text.to_owned() };
    let records = vec![Record { v: LOG_VERSION, seq, at: Timestamp(seq), event }];
    Append { job: lease.job.id, epoch: lease.job.epoch, records, heard: None }
}

/// Calls until this is something.
pub(crate) async fn until<T, F>(what: &str, look: impl Fn() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn is_unavailable<T: std::fmt::Debug>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Unavailable(_)))
}
