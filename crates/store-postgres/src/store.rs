//! The store.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_store::{
    About, Answer, Append, Artifact, Change, Counts, JobQuery, JobRow, Lease, LeaseAsk, Line,
    NewJob, NodeId, Order, OrderId, Ordered, Principal, Store, StoreError, Submitted, TokenHash,
    TokenId, TokenRow, Upload, UploadId, UserId, UserRow,
};
use cofferdam_types::JobId;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::address::Address;
use crate::append::{self, Doubts};
use crate::database::{Connection, Database, Settings, attempt, row};
use crate::failure::{Attempt, Failure};
use crate::news::{Ears, News};
use crate::{files, jobs, leases, orders, submit, users};

/// Jobs in PostgreSQL. Several servers may use one database.
pub struct PostgresStore {
    database: Arc<Database>,
    news: News,
    doubts: Doubts,
    /// Carries news out and in; ends with the store.
    _tasks: JoinSet<()>,
}

impl PostgresStore {
    /// Opens the database of this URL (`postgres://user:password@host:port/name`) and
    /// makes or brings up to date what it keeps there, in a schema of its own. It must
    /// be the server itself: a pooler that gives each transaction another session
    /// cannot carry news.
    ///
    /// # Errors
    /// When it cannot be reached or used, or a later release has changed it.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, Settings::default()).await
    }

    /// The same, with other settings.
    ///
    /// # Errors
    /// When it cannot be reached or used, or a later release has changed it.
    pub async fn open_with(url: &str, settings: Settings) -> Result<Self, StoreError> {
        let address = Address::parse(url, settings.patience)?;
        let database = Arc::new(Database::new(&address, settings)?);
        database.migrate().await?;
        // Before anything is told, so that nothing is missed.
        let ears = Ears::open(&address, settings.patience).await.map_err(Failure::into_error)?;
        let (news, outbox) = News::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(news.clone().carry(database.clone(), outbox));
        tasks.spawn(news.clone().hear(ears, address, settings.patience));
        Ok(Self { database, news, doubts: Doubts::default(), _tasks: tasks })
    }
}

impl Store for PostgresStore {
    fn about(&self) -> Answer<'_, About> {
        Box::pin(async move { attempt!(&self.database, |on, _doubt| about(on)) })
    }

    fn submit(&self, job: NewJob) -> Answer<'_, Submitted> {
        Box::pin(async move {
            let done = attempt!(&self.database, |on, doubt| submit::submit(on, &job, doubt))?;
            if done == Submitted::New {
                self.news.tell(Change::Events { job: job.spec.job, last: 1 });
                self.news.tell(Change::Queue);
            }
            Ok(done)
        })
    }

    fn job(&self, job: JobId) -> Answer<'_, Option<JobRow>> {
        Box::pin(async move { attempt!(&self.database, |on, _doubt| jobs::job(on, job)) })
    }

    fn jobs(&self, query: JobQuery) -> Answer<'_, Vec<JobRow>> {
        Box::pin(async move { attempt!(&self.database, |on, _doubt| jobs::jobs(on, &query)) })
    }

    fn counts(&self, user: Option<UserId>) -> Answer<'_, Counts> {
        Box::pin(async move { attempt!(&self.database, |on, _doubt| jobs::counts(on, user)) })
    }

    fn events(&self, job: JobId, after: u64, limit: u32) -> Answer<'_, Vec<Line>> {
        Box::pin(async move {
            attempt!(&self.database, |on, _doubt| jobs::events(on, job, after, limit))
        })
    }

    fn forget(&self, job: JobId) -> Answer<'_, Vec<Artifact>> {
        Box::pin(async move {
            let mut gone = Vec::new();
            attempt!(&self.database, |on, doubt| jobs::forget(on, job, doubt, &mut gone))
        })
    }

    fn lease(&self, ask: LeaseAsk) -> Answer<'_, Vec<Lease>> {
        Box::pin(async move {
            let mut given = Vec::new();
            let leases =
                attempt!(&self.database, |on, doubt| leases::lease(on, ask, doubt, &mut given))?;
            // Whoever held it before may have died before it could tell.
            for lease in leases.iter().filter(|lease| lease.before.is_some()) {
                self.news.tell(Change::Events { job: lease.job.id, last: lease.job.last_seq });
            }
            Ok(leases)
        })
    }

    fn renew(
        &self,
        node: NodeId,
        held: Vec<(JobId, u64)>,
        span: Duration,
    ) -> Answer<'_, Vec<JobId>> {
        Box::pin(async move {
            attempt!(&self.database, |on, _doubt| leases::renew(on, node, &held, span))
        })
    }

    fn release(&self, job: JobId, epoch: u64) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut in_doubt = false;
            let released = attempt!(&self.database, |on, doubt| {
                in_doubt = doubt;
                leases::release(on, job, epoch)
            })?;
            if released || in_doubt {
                self.news.tell(Change::Queue);
            }
            Ok(())
        })
    }

    fn reclaim(&self, node: NodeId) -> Answer<'_, u64> {
        Box::pin(async move {
            let ended = attempt!(&self.database, |on, _doubt| leases::reclaim(on, node))?;
            self.news.tell(Change::Queue);
            Ok(ended)
        })
    }

    fn append(&self, append: Append) -> Answer<'_, ()> {
        Box::pin(async move {
            let done =
                attempt!(&self.database, |on, _doubt| append::append(on, &append, &self.doubts));
            if !matches!(done, Err(StoreError::Unavailable(_))) {
                self.doubts.end(&append);
            }
            done?;
            if let Some(record) = append.records.last() {
                self.news.tell(Change::Events { job: append.job, last: record.seq });
            }
            Ok(())
        })
    }

    fn order(&self, job: JobId, order: Order) -> Answer<'_, Ordered> {
        Box::pin(async move {
            let receipt = Uuid::now_v7();
            let done = attempt!(&self.database, |on, doubt| orders::order(
                on, job, &order, receipt, doubt
            ))?;
            if !matches!(done, Ordered::Refused(_)) {
                self.news.tell(Change::Ordered { job });
                self.news.tell(Change::Queue);
            }
            Ok(done)
        })
    }

    fn orders(&self, job: JobId) -> Answer<'_, Vec<(OrderId, Order)>> {
        Box::pin(async move { attempt!(&self.database, |on, _doubt| orders::orders(on, job)) })
    }

    fn keep_artifact(&self, artifact: Artifact, epoch: u64) -> Answer<'_, ()> {
        Box::pin(async move {
            attempt!(&self.database, |on, _doubt| files::keep_artifact(on, &artifact, epoch))
        })
    }

    fn artifacts(&self, job: JobId) -> Answer<'_, Vec<Artifact>> {
        Box::pin(async move { attempt!(&self.database, |on, _doubt| files::artifacts(on, job)) })
    }

    fn keep_upload(&self, upload: Upload) -> Answer<'_, ()> {
        Box::pin(
            async move { attempt!(&self.database, |on, _doubt| files::keep_upload(on, &upload)) },
        )
    }

    fn upload(&self, upload: UploadId) -> Answer<'_, Option<Upload>> {
        Box::pin(
            async move { attempt!(&self.database, |on, _doubt| files::find_upload(on, upload)) },
        )
    }

    fn expire(&self, older_than: Duration) -> Answer<'_, Vec<Upload>> {
        Box::pin(async move {
            let mut gone = Vec::new();
            attempt!(&self.database, |on, _doubt| files::expire(on, older_than, &mut gone))
        })
    }

    fn add_user(&self, user: UserRow) -> Answer<'_, ()> {
        Box::pin(
            async move { attempt!(&self.database, |on, doubt| users::add_user(on, &user, doubt)) },
        )
    }

    fn users(&self) -> Answer<'_, Vec<UserRow>> {
        Box::pin(async move { attempt!(&self.database, |on, _doubt| users::users(on)) })
    }

    fn remove_user(&self, user: UserId) -> Answer<'_, ()> {
        Box::pin(async move {
            attempt!(&self.database, |on, doubt| users::remove_user(on, user, doubt))
        })
    }

    fn add_token(&self, token: TokenRow, hash: TokenHash) -> Answer<'_, ()> {
        Box::pin(async move {
            attempt!(&self.database, |on, doubt| users::add_token(on, &token, hash, doubt))
        })
    }

    fn tokens(&self, user: UserId) -> Answer<'_, Vec<TokenRow>> {
        Box::pin(async move { attempt!(&self.database, |on, _doubt| users::tokens(on, user)) })
    }

    fn remove_token(&self, token: TokenId) -> Answer<'_, ()> {
        Box::pin(async move {
            attempt!(&self.database, |on, doubt| users::remove_token(on, token, doubt))
        })
    }

    fn principal(&self, hash: TokenHash) -> Answer<'_, Option<Principal>> {
        Box::pin(async move { attempt!(&self.database, |on, _doubt| users::principal(on, hash)) })
    }

    fn watch(&self) -> broadcast::Receiver<Change> {
        self.news.watch()
    }
}

async fn about(on: &Connection) -> Attempt<About> {
    let names = ["synchronous_commit", "fsync", "full_page_writes", "server_encoding"];
    let sql = "SELECT current_setting('server_version') AS version, \
               array(SELECT current_setting(name) FROM unnest($1::text[]) AS name) AS settings";
    let found = row(on, sql, &[&names.as_slice()]).await?;
    let found = found.ok_or_else(|| Failure::broken("the server does not say what it is"))?;
    let settings: Vec<String> = found.try_get("settings")?;
    Ok(About {
        engine: "postgres".to_owned(),
        version: found.try_get("version")?,
        settings: names.iter().map(|name| (*name).to_owned()).zip(settings).collect(),
    })
}
