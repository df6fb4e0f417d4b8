//! The store: what is asked of the trait, handed to the writer or to a reader.

use std::path::Path;
use std::time::Duration;

use cofferdam_store::{
    About, Answer, Append, Artifact, Change, Counts, JobQuery, JobRow, Lease, LeaseAsk, Line,
    NewJob, NodeId, Order, OrderId, Ordered, Principal, Store, StoreError, Submitted, TokenHash,
    TokenId, TokenRow, Upload, UploadId, UserId, UserRow,
};
use cofferdam_types::JobId;
use tokio::sync::broadcast;

use crate::error::broken;
use crate::readers::Readers;
use crate::writer::Writer;
use crate::{append, keeping, lease, open, orders, queries, submit, users};

/// News that somebody who watches may be behind by.
const NEWS: usize = 4096;

/// Jobs in one SQLite file.
///
/// Dropping it waits until what was asked for is done, and closes the file.
pub struct SqliteStore {
    // Dropped in this order: the last connection that is closed tidies up the log,
    // which only the writer can.
    readers: Readers,
    writer: Writer,
    news: broadcast::Sender<Change>,
    about: About,
}

impl SqliteStore {
    /// Opens the file, or makes it, with the tables of this release. The file is
    /// for its owner alone to read.
    ///
    /// # Errors
    /// When the file cannot be used, or a later release has changed it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = open::writer(path)?;
        let about = open::about(&connection)?;
        let (news, _) = broadcast::channel(NEWS);
        let readers = Readers::start(path)?;
        let writer = Writer::start(connection, news.clone())?;
        Ok(Self { readers, writer, news, about })
    }

    /// How many transactions were committed: with many calls at once, fewer than
    /// calls.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }
}

impl Store for SqliteStore {
    fn about(&self) -> Answer<'_, About> {
        Box::pin(async { Ok(self.about.clone()) })
    }

    /// It is a file in the data directory of one server.
    fn is_shared(&self) -> bool {
        false
    }

    fn submit(&self, job: NewJob) -> Answer<'_, Submitted> {
        Box::pin(async move {
            let first = line(&job.first_record())?;
            let work = move |db: &_, news: &mut _| submit::submit(db, &job, &first, news);
            self.writer.call(work).await
        })
    }

    fn job(&self, job: JobId) -> Answer<'_, Option<JobRow>> {
        Box::pin(self.readers.ask(move |db| queries::job(db, job)))
    }

    fn jobs(&self, query: JobQuery) -> Answer<'_, Vec<JobRow>> {
        Box::pin(self.readers.ask(move |db| queries::jobs(db, &query)))
    }

    fn counts(&self, user: Option<UserId>) -> Answer<'_, Counts> {
        Box::pin(self.readers.ask(move |db| queries::counts(db, user)))
    }

    fn events(&self, job: JobId, after: u64, limit: u32) -> Answer<'_, Vec<Line>> {
        Box::pin(self.readers.ask(move |db| queries::events(db, job, after, limit)))
    }

    fn forget(&self, job: JobId) -> Answer<'_, Vec<Artifact>> {
        Box::pin(self.writer.call(move |db, _| keeping::forget(db, job)))
    }

    fn lease(&self, ask: LeaseAsk) -> Answer<'_, Vec<Lease>> {
        Box::pin(self.writer.call(move |db, _| lease::lease(db, &ask)))
    }

    fn renew(
        &self,
        node: NodeId,
        held: Vec<(JobId, u64)>,
        span: Duration,
    ) -> Answer<'_, Vec<JobId>> {
        Box::pin(self.writer.call(move |db, _| lease::renew(db, node, &held, span)))
    }

    fn release(&self, job: JobId, epoch: u64) -> Answer<'_, ()> {
        Box::pin(self.writer.call(move |db, news| lease::release(db, job, epoch, news)))
    }

    fn reclaim(&self, node: NodeId) -> Answer<'_, u64> {
        Box::pin(self.writer.call(move |db, news| lease::reclaim(db, node, news)))
    }

    fn append(&self, append: Append) -> Answer<'_, ()> {
        Box::pin(async move {
            let lines: Vec<Line> = append.records.iter().map(line).collect::<Result<_, _>>()?;
            let work = move |db: &_, news: &mut _| append::append(db, &append, &lines, news);
            self.writer.call(work).await
        })
    }

    fn order(&self, job: JobId, order: Order) -> Answer<'_, Ordered> {
        Box::pin(self.writer.call(move |db, news| orders::order(db, job, &order, news)))
    }

    fn orders(&self, job: JobId) -> Answer<'_, Vec<(OrderId, Order)>> {
        Box::pin(self.readers.ask(move |db| orders::unheard(db, job)))
    }

    fn keep_artifact(&self, artifact: Artifact, epoch: u64) -> Answer<'_, ()> {
        Box::pin(self.writer.call(move |db, _| keeping::keep_artifact(db, &artifact, epoch)))
    }

    fn artifacts(&self, job: JobId) -> Answer<'_, Vec<Artifact>> {
        Box::pin(self.readers.ask(move |db| keeping::artifacts(db, job)))
    }

    fn keep_upload(&self, upload: Upload) -> Answer<'_, ()> {
        Box::pin(self.writer.call(move |db, _| keeping::keep_upload(db, &upload)))
    }

    fn upload(&self, upload: UploadId) -> Answer<'_, Option<Upload>> {
        Box::pin(self.readers.ask(move |db| keeping::upload(db, upload)))
    }

    fn expire(&self, older_than: Duration) -> Answer<'_, Vec<Upload>> {
        Box::pin(self.writer.call(move |db, _| keeping::expire(db, older_than)))
    }

    fn add_user(&self, user: UserRow) -> Answer<'_, ()> {
        Box::pin(self.writer.call(move |db, _| users::add_user(db, &user)))
    }

    fn users(&self) -> Answer<'_, Vec<UserRow>> {
        Box::pin(self.readers.ask(users::users))
    }

    fn remove_user(&self, user: UserId) -> Answer<'_, ()> {
        Box::pin(self.writer.call(move |db, _| users::remove_user(db, user)))
    }

    fn add_token(&self, token: TokenRow, hash: TokenHash) -> Answer<'_, ()> {
        Box::pin(self.writer.call(move |db, _| users::add_token(db, &token, &hash)))
    }

    fn tokens(&self, user: UserId) -> Answer<'_, Vec<TokenRow>> {
        Box::pin(self.readers.ask(move |db| users::tokens(db, user)))
    }

    fn remove_token(&self, token: TokenId) -> Answer<'_, ()> {
        Box::pin(self.writer.call(move |db, _| users::remove_token(db, token)))
    }

    fn principal(&self, hash: TokenHash) -> Answer<'_, Option<Principal>> {
        Box::pin(self.readers.ask(move |db| users::principal(db, &hash)))
    }

    fn watch(&self) -> broadcast::Receiver<Change> {
        self.news.subscribe()
    }
}

fn line(record: &cofferdam_types::Record) -> Result<Line, StoreError> {
    Line::of(record).map_err(|error| broken(format!("an event has no JSON: {error}")))
}
