//! What the tests share: jobs, and a look at a file that misses nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_store::{
    Append, JobQuery, JobRow, Lease, LeaseAsk, NewJob, NodeId, QueueBounds, Store, StoreError,
    UserId, project,
};
use cofferdam_store_sqlite::SqliteStore;
use cofferdam_types::{
    Budget, Ending, Event, JobId, JobSpec, LOG_VERSION, Limits, ModelName, Network, Place, Record,
    Spent, Timestamp,
};
use rusqlite::Connection;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn draft(user: UserId) -> NewJob {
    let spec = JobSpec {
        job: JobId::generate(),
        task: "make it work".to_owned(),
        orchestrator: ModelName("demo/a".to_owned()),
        coder: ModelName("demo/b".to_owned()),
        summariser: None,
        budget: Budget { turns: 9, tokens: None, cost: None, time: None },
        checks: Vec::new(),
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
    };
    NewJob {
        spec,
        user,
        priority: 0,
        created: Timestamp(1_700_000_000_000),
        idempotency: None,
        upload: None,
        bounds: QueueBounds { all: 1_000_000, per_user: 1_000_000 },
    }
}

pub(crate) fn ask(node: NodeId, most: u32) -> LeaseAsk {
    LeaseAsk { node, span: HOUR, most, per_user: 1_000_000 }
}

pub(crate) fn append(lease: &Lease, seq: u64, event: Event) -> Append {
    let at = Timestamp(1_700_000_000_000 + seq);
    let records = vec![Record { v: LOG_VERSION, seq, at, event }];
    Append { job: lease.job.id, epoch: lease.job.epoch, records, heard: None }
}

pub(crate) fn taken_up() -> Event {
    Event::TakenUp { version: "0.1.0".to_owned(), only_delivers: false }
}

pub(crate) fn noted(text: &str) -> Event {
    Event::Noted { text: text.to_owned() }
}

pub(crate) fn ended() -> Event {
    let ending = Ending::Complete { summary: "done".to_owned(), verified: true };
    let spent = Spent { turns: 3, time: Duration::from_secs(9), ..Spent::default() };
    Event::Ended { ending, spent, changes: Vec::new(), delivery_problem: None }
}

/// A connection beside the store's own.
pub(crate) fn beside(path: &Path) -> Connection {
    Connection::open(path).unwrap()
}

/// Sees that a file is sound, and that each row is what its log says; returns the
/// rows.
pub(crate) async fn inspect(path: &Path, store: &SqliteStore) -> Vec<JobRow> {
    let raw = beside(path);
    let sound: String = raw.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let dangling = raw.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    assert!(!dangling, "something refers to what is not there");
    let query = JobQuery { user: None, statuses: vec![], before: None, limit: 1_000_000 };
    let rows = store.jobs(query).await.unwrap();
    let mut over = 0;
    for row in &rows {
        let lines = store.events(row.id, 0, 1_000_000).await.unwrap();
        let seqs: Vec<u64> = lines.iter().map(|line| line.seq).collect();
        assert_eq!(seqs, (1..=row.last_seq).collect::<Vec<_>>(), "the events of {}", row.id);
        let records: Vec<Record> = lines.iter().map(|line| line.record().unwrap()).collect();
        let Event::Created { spec } = &records[0].event else { panic!("{:?}", records[0]) };
        let job = NewJob { spec: (**spec).clone(), created: records[0].at, ..draft(row.user) };
        let mut wanted = JobRow { node: row.node, epoch: row.epoch, ..JobRow::new(&job) };
        records.iter().skip(1).for_each(|record| project(&mut wanted, record));
        assert_eq!(*row, wanted);
        over += u64::from(row.status.is_over());
    }
    let counts = store.counts(None).await.unwrap();
    assert_eq!(counts.complete + counts.error + counts.cancelled, over, "those that are over");
    assert_eq!(counts.pending + counts.running + over, rows.len() as u64, "all");
    rows
}

/// The kind of an error, for a line of text.
pub(crate) fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Full(_) => "full",
        StoreError::Unavailable(_) => "unavailable",
        _ => "another",
    }
}
