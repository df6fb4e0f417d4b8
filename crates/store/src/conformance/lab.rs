//! Where cases are tried: a store of their own, and short ways to do what most
//! cases do.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_types::{
    Budget, Cancel, Ending, Event, JobId, JobSpec, LOG_VERSION, Limits, ModelName, Network, Place,
    Record, Spent, Timestamp,
};

use crate::blobs::{Blob, BlobKey};
use crate::error::StoreError;
use crate::ids::{NodeId, OrderId, UserId};
use crate::job::{JobRow, Line, NewJob, QueueBounds, Submitted};
use crate::lease::{Append, Lease, LeaseAsk};
use crate::order::{Order, Ordered};
use crate::query::JobQuery;
use crate::store::Store;

/// How long a condition may take to come true.
const DEADLINE: Duration = Duration::from_secs(30);

/// Between two looks at a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Longer than any case.
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// When everything in the cases happens.
pub(super) const NOW: Timestamp = Timestamp(1_700_000_000_123);

/// More than any case has.
pub(super) const PLENTY: QueueBounds = QueueBounds { all: 1_000_000, per_user: 1_000_000 };

/// How a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self(format!("a call failed: {error} ({error:?})"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self(format!("not the JSON it should be: {error}"))
    }
}

/// Ends the case unless this is so.
macro_rules! check {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Failure(format!($($message)+)));
        }
    };
}
pub(super) use check;

/// Ends the case unless these are equal.
macro_rules! same {
    ($got:expr, $wanted:expr, $what:expr) => {
        match (&$got, &$wanted) {
            (got, wanted) => {
                $crate::conformance::lab::check!(
                    got == wanted,
                    "{}: got {got:?}, wanted {wanted:?}",
                    $what
                );
            }
        }
    };
}
pub(super) use same;

/// Ends the case unless the call fails in this way.
macro_rules! fails {
    ($call:expr, $pattern:pat, $what:expr) => {
        match $call {
            Err($pattern) => {}
            other => {
                return Err($crate::conformance::Failure(format!(
                    "{}: wanted {}, got {other:?}",
                    $what,
                    stringify!($pattern)
                )));
            }
        }
    };
}
pub(super) use fails;

/// What a case works with.
pub struct Lab {
    pub(super) store: Arc<dyn Store>,
    /// The server of most cases: what it has begun is left to it.
    pub(super) node: NodeId,
}

impl Lab {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, node: NodeId::generate() }
    }

    /// Keeps a job, which must be new.
    pub(super) async fn keep(&self, job: NewJob) -> Result<JobId, Failure> {
        let id = job.spec.job;
        same!(self.store.submit(job).await?, Submitted::New, "a submission");
        Ok(id)
    }

    /// Keeps an ordinary job of this user.
    pub(super) async fn submit(&self, user: UserId) -> Result<JobId, Failure> {
        self.keep(draft(user)).await
    }

    /// A job's row, which must be there.
    pub(super) async fn row(&self, job: JobId) -> Result<JobRow, Failure> {
        let row = self.store.job(job).await?;
        row.ok_or_else(|| Failure(format!("the job {job} is not there")))
    }

    /// All events of a job, page by page.
    pub(super) async fn events(&self, job: JobId) -> Result<Vec<Line>, Failure> {
        let mut lines: Vec<Line> = Vec::new();
        loop {
            let after = lines.last().map_or(0, |line| line.seq);
            let page = self.store.events(job, after, 7).await?;
            check!(page.len() <= 7, "a page of 7 has {} events", page.len());
            if page.is_empty() {
                return Ok(lines);
            }
            for line in page {
                let next = lines.last().map_or(0, |line| line.seq) + 1;
                same!(line.seq, next, "the number of an event");
                lines.push(line);
            }
        }
    }

    /// Leases at most so many, without a bound on each user's.
    pub(super) async fn lease(&self, node: NodeId, most: u32) -> Result<Vec<Lease>, Failure> {
        Ok(self.store.lease(ask(node, most)).await?)
    }

    /// Leases this job, which must be the only one that can be leased.
    pub(super) async fn take(&self, node: NodeId, job: JobId) -> Result<Lease, Failure> {
        let mut leases = self.lease(node, 10).await?;
        let ids: Vec<JobId> = leases.iter().map(|lease| lease.job.id).collect();
        same!(ids, vec![job], "what could be leased");
        leases.pop().ok_or_else(|| Failure("nothing could be leased".to_owned()))
    }

    /// Sees that there is nothing to lease: for those who have held a job, nor for
    /// anybody else.
    pub(super) async fn nothing_to_lease(&self, why: &str) -> Result<(), Failure> {
        let query = JobQuery { user: None, statuses: vec![], before: None, limit: 1000 };
        let nodes: HashSet<NodeId> =
            self.store.jobs(query).await?.into_iter().filter_map(|job| job.node).collect();
        for node in nodes.into_iter().chain([NodeId::generate()]) {
            let leases = self.lease(node, 10).await?;
            check!(leases.is_empty(), "{why}, yet it was leased: {leases:?}");
        }
        Ok(())
    }

    /// A new job under a lease, not yet taken up.
    pub(super) async fn leased(&self, node: NodeId) -> Result<Lease, Failure> {
        let job = self.submit(UserId::generate()).await?;
        self.take(node, job).await
    }

    /// A new job under a lease, taken up.
    pub(super) async fn running(&self, node: NodeId) -> Result<Lease, Failure> {
        let mut lease = self.leased(node).await?;
        self.append(&lease, vec![taken_up()]).await?;
        lease.job = self.row(lease.job.id).await?;
        Ok(lease)
    }

    /// A job that is over, and whose lease was given back.
    pub(super) async fn over(&self, ending: Ending) -> Result<JobId, Failure> {
        let lease = self.running(self.node).await?;
        self.append(&lease, vec![ended(ending)]).await?;
        self.store.release(lease.job.id, lease.job.epoch).await?;
        Ok(lease.job.id)
    }

    /// Appends what follows the last event.
    pub(super) async fn append(&self, lease: &Lease, events: Vec<Event>) -> Result<(), Failure> {
        Ok(self.try_append(lease, events, None).await??)
    }

    /// Appends what follows the last event, in answer to an order.
    pub(super) async fn hear(
        &self,
        lease: &Lease,
        events: Vec<Event>,
        order: OrderId,
    ) -> Result<(), Failure> {
        Ok(self.try_append(lease, events, Some(order)).await??)
    }

    /// The same, with what became of it.
    pub(super) async fn try_append(
        &self,
        lease: &Lease,
        events: Vec<Event>,
        heard: Option<OrderId>,
    ) -> Result<Result<(), StoreError>, Failure> {
        let last = self.row(lease.job.id).await?.last_seq;
        let records = records(last + 1, events);
        let append = Append { job: lease.job.id, epoch: lease.job.epoch, records, heard };
        Ok(self.store.append(append).await)
    }

    /// Gives an order that must be kept.
    pub(super) async fn kept(&self, job: JobId, order: Order) -> Result<OrderId, Failure> {
        match self.store.order(job, order.clone()).await? {
            Ordered::Kept(id) => Ok(id),
            other => Err(Failure(format!("{order:?} was not kept, but {other:?}"))),
        }
    }

    /// The orders that a job has not heard.
    pub(super) async fn unheard(&self, job: JobId) -> Result<Vec<Order>, Failure> {
        let orders = self.store.orders(job).await?;
        check!(orders.is_sorted_by_key(|(id, _)| *id), "not in order: {orders:?}");
        Ok(orders.into_iter().map(|(_, order)| order).collect())
    }
}

/// Waits until something is there.
pub(super) async fn until<T, F>(what: &str, look: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<Option<T>, Failure>>,
{
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Err(Failure(format!("{what}: not within {DEADLINE:?}")))
}

/// An ordinary job.
pub(super) fn draft(user: UserId) -> NewJob {
    NewJob {
        spec: spec("  make it work\nand well"),
        user,
        priority: 0,
        created: NOW,
        idempotency: None,
        upload: None,
        bounds: PLENTY,
    }
}

pub(super) fn spec(task: &str) -> JobSpec {
    JobSpec {
        job: JobId::generate(),
        task: task.to_owned(),
        orchestrator: ModelName("demo/a".to_owned()),
        coder: ModelName("demo/b".to_owned()),
        summariser: None,
        budget: Budget { turns: 9, tokens: Some(1000), cost: None, time: Some(HOUR) },
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
    }
}

pub(super) fn ask(node: NodeId, most: u32) -> LeaseAsk {
    LeaseAsk { node, span: HOUR, most, per_user: 1_000_000 }
}

pub(super) fn records(first: u64, events: Vec<Event>) -> Vec<Record> {
    let record = |(seq, event)| Record { v: LOG_VERSION, seq, at: Timestamp(NOW.0 + seq), event };
    (first..).zip(events).map(record).collect()
}

pub(super) fn taken_up() -> Event {
    Event::TakenUp { version: "0.1.0".to_owned(), only_delivers: false }
}

pub(super) fn noted(text: &str) -> Event {
    Event::Noted { text: text.to_owned() }
}

pub(super) fn ended(ending: Ending) -> Event {
    let spent =
        Spent { turns: 3, unpriced: 1, time: Duration::from_millis(1500), ..Spent::default() };
    Event::Ended { ending, spent, changes: Vec::new(), delivery_problem: None }
}

pub(super) fn complete() -> Ending {
    Ending::Complete { summary: "done".to_owned(), verified: true }
}

pub(super) fn failed() -> Ending {
    Ending::Failed { reason: "it cannot be done".to_owned() }
}

pub(super) fn cancelled() -> Ending {
    Ending::Cancelled { by: Cancel::User }
}

pub(super) fn cancel() -> Order {
    Order::Cancel { by: Cancel::User }
}

pub(super) fn say(text: &str) -> Order {
    Order::Say { text: text.to_owned() }
}

pub(super) fn resume() -> Order {
    Order::Resume { say: None, budget: None }
}

pub(super) fn resume_with(text: &str) -> Order {
    Order::Resume { say: Some(text.to_owned()), budget: None }
}

/// A blob that nobody has written: stores keep only its description.
pub(super) fn blob(word: &str) -> Result<Blob, Failure> {
    let key = BlobKey::of(&["conformance", word]);
    let key = key.ok_or_else(|| Failure(format!("{word:?} is no word of a key")))?;
    Ok(Blob { key, bytes: 1 << 40, sha256: "ab".repeat(32) })
}
