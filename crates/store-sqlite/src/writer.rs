//! The one thread that writes.
//!
//! It takes all calls that wait and commits them together: one `fsync` for all. A
//! call that fails undoes only what it did itself. If the commit fails, nothing of
//! any of them is stored. Answers, and then the news, go out only after the commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use cofferdam_store::{Change, StoreError};
use rusqlite::Connection;
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::error::from_sqlite;

/// Calls of one commit.
const TOGETHER: usize = 256;

/// Calls that may wait. Whoever comes then waits for a place.
const WAITING: usize = 1024;

/// How long to wait for a place before the store is too busy.
const PLACE_TIMEOUT: Duration = Duration::from_secs(30);

/// A call, whatever it returns.
trait Work: Send {
    /// Does it, within a transaction. It may be done again if that is undone.
    fn run(&mut self, connection: &Connection) -> Result<(), Undone>;

    /// Gives its outcome to whoever waits, or why there is none, and its news.
    fn answer(self: Box<Self>, lost: Option<StoreError>) -> Vec<Change>;
}

/// What a call did is to be undone.
struct Undone;

/// Where a transaction was lost, with all calls in it.
enum Lost {
    Begin(rusqlite::Error),
    Call(rusqlite::Error),
    Commit(rusqlite::Error),
}

impl Lost {
    fn reason(&self) -> StoreError {
        match self {
            Self::Begin(error) | Self::Call(error) | Self::Commit(error) => from_sqlite(error),
        }
    }

    /// Whether it may be the fault of one call, so that the others may do without it.
    fn is_of_one(&self) -> bool {
        match self {
            Self::Begin(_) => false,
            Self::Call(_) => true,
            Self::Commit(error) => matches!(from_sqlite(error), StoreError::Full(_)),
        }
    }
}

struct Call<T, F> {
    work: F,
    outcome: Option<Result<T, StoreError>>,
    news: Vec<Change>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Call<T, F>
where
    T: Send,
    F: FnMut(&Connection, &mut Vec<Change>) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), Undone> {
        self.news.clear();
        let outcome = (self.work)(connection, &mut self.news);
        let done = if outcome.is_ok() { Ok(()) } else { Err(Undone) };
        self.outcome = Some(outcome);
        done
    }

    fn answer(self: Box<Self>, lost: Option<StoreError>) -> Vec<Change> {
        let outcome = match (self.outcome, lost) {
            (Some(outcome), None) => outcome,
            // Its own reason says more than that of all.
            (Some(Err(own)), Some(_)) => Err(own),
            (_, Some(lost)) => Err(lost),
            (None, None) => Err(StoreError::Broken("the call was not made".to_owned())),
        };
        let news = if outcome.is_ok() { self.news } else { Vec::new() };
        // Whoever asked may have gone; what was asked for is done all the same.
        self.answer.send(outcome).ok();
        news
    }
}

/// The way to the thread.
pub(crate) struct Writer {
    calls: Option<mpsc::Sender<Box<dyn Work>>>,
    thread: Option<JoinHandle<()>>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(
        connection: Connection,
        news: broadcast::Sender<Change>,
    ) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let commits = Arc::new(AtomicU64::new(0));
        let mut thread = Thread { connection, receiver, news, commits: Arc::clone(&commits) };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || thread.serve())
            .map_err(|error| StoreError::Unavailable(format!("no thread to write: {error}")))?;
        Ok(Self { calls: Some(sender), thread: Some(thread), commits })
    }

    /// How many transactions were committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Has something done within a transaction, and waits until that is durable.
    pub(crate) async fn call<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection, &mut Vec<Change>) -> Result<T, StoreError> + Send + 'static,
    {
        let ended = || StoreError::Unavailable("its writer has ended".to_owned());
        let calls = self.calls.as_ref().ok_or_else(ended)?;
        let (answer, outcome) = oneshot::channel();
        let call: Box<dyn Work> = Box::new(Call { work, outcome: None, news: Vec::new(), answer });
        match calls.try_send(call) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(ended()),
            Err(mpsc::error::TrySendError::Full(call)) => {
                let place = tokio::time::timeout(PLACE_TIMEOUT, calls.reserve()).await;
                let busy = |_| StoreError::Unavailable(format!("busy for {PLACE_TIMEOUT:?}"));
                place.map_err(busy)?.map_err(|_| ended())?.send(call);
            }
        }
        // Once it is in the queue it happens: giving up here would leave in doubt
        // whether it did.
        outcome.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread does what still waits, and ends.
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

struct Thread {
    connection: Connection,
    receiver: mpsc::Receiver<Box<dyn Work>>,
    news: broadcast::Sender<Change>,
    commits: Arc<AtomicU64>,
}

impl Thread {
    fn serve(&mut self) {
        while let Some(first) = self.receiver.blocking_recv() {
            let mut batch = Vec::new();
            let outcome = self.run_all_that_wait(first, &mut batch);
            self.finish(batch, outcome);
        }
    }

    /// Runs what waits in one transaction, and commits it.
    fn run_all_that_wait(
        &mut self,
        first: Box<dyn Work>,
        batch: &mut Vec<Box<dyn Work>>,
    ) -> Result<(), Lost> {
        let begun = self.begin();
        let mut next = Some(first);
        while let Some(mut work) = next {
            let ran = if begun.is_ok() { self.run_one(work.as_mut()) } else { Ok(()) };
            batch.push(work);
            ran?;
            next = if batch.len() < TOGETHER { self.receiver.try_recv().ok() } else { None };
        }
        begun?;
        self.commit()
    }

    fn run_alone(&self, work: &mut dyn Work) -> Result<(), Lost> {
        self.begin()?;
        self.run_one(work)?;
        self.commit()
    }

    /// Runs one call so that it can be undone by itself.
    fn run_one(&self, work: &mut dyn Work) -> Result<(), Lost> {
        self.statement("SAVEPOINT call").map_err(Lost::Call)?;
        if work.run(&self.connection).is_err() {
            // When there is no room, say, SQLite undoes the whole transaction by
            // itself, and there is no savepoint left.
            self.statement("ROLLBACK TO call").map_err(Lost::Call)?;
        }
        self.statement("RELEASE call").map_err(Lost::Call)
    }

    fn begin(&self) -> Result<(), Lost> {
        self.statement("BEGIN IMMEDIATE").map_err(Lost::Begin)
    }

    fn commit(&self) -> Result<(), Lost> {
        self.statement("COMMIT").map_err(Lost::Commit)?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn statement(&self, sql: &str) -> Result<(), rusqlite::Error> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Answers the calls, or does them again one by one.
    fn finish(&self, batch: Vec<Box<dyn Work>>, outcome: Result<(), Lost>) {
        let Err(lost) = outcome else {
            self.answer(batch.into_iter().map(|work| (work, None)).collect());
            return;
        };
        self.undo();
        if !lost.is_of_one() || batch.len() == 1 {
            self.answer(batch.into_iter().map(|work| (work, Some(lost.reason()))).collect());
            return;
        }
        for mut work in batch {
            let lost = self.run_alone(work.as_mut()).err().map(|lost| lost.reason());
            if lost.is_some() {
                self.undo();
            }
            self.answer(vec![(work, lost)]);
        }
    }

    /// Ends the transaction, if SQLite has not done that.
    fn undo(&self) {
        if !self.connection.is_autocommit() {
            self.statement("ROLLBACK").ok();
        }
    }

    fn answer(&self, batch: Vec<(Box<dyn Work>, Option<StoreError>)>) {
        let mut news = Vec::new();
        for (work, lost) in batch {
            for change in work.answer(lost) {
                // Once is enough.
                if change != Change::Queue || !news.contains(&Change::Queue) {
                    news.push(change);
                }
            }
        }
        for change in news {
            // Nobody may watch.
            self.news.send(change).ok();
        }
    }
}
