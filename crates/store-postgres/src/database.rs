//! The connections, and how often something is attempted on them.
//!
//! Nothing waits for ever: a statement, a lock, a connection and a whole call each
//! have their time. A connection that did not answer in time is not used again.

use std::time::Duration;

use cofferdam_store::StoreError;
use deadpool_postgres::{
    ClientWrapper, GenericClient, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError,
    RecyclingMethod, Runtime, Timeouts, Transaction,
};
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::address::Address;
use crate::failure::{Attempt, Failure};
use crate::schema;

/// How often something is attempted.
const ATTEMPTS: u32 = 8;

/// The pause after the first attempt; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// How many connections there are and how long anything may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Connections for calls. One more listens.
    pub connections: usize,
    /// How long a call may take, with all its attempts.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { connections: 8, patience: Duration::from_secs(10) }
    }
}

/// Attempts something until it is done, or will not be, or took too long. The work is
/// told whether an earlier attempt may have done it after all.
macro_rules! attempt {
    ($database:expr, |$connection:ident, $in_doubt:ident| $work:expr) => {{
        let mut tries = $crate::database::Tries::new($database);
        loop {
            let $in_doubt = tries.in_doubt;
            let attempt = async {
                let mut session = $database.session().await?;
                let $connection = session.connection()?;
                let ended = $work.await;
                session.settle(ended.is_err()).await;
                ended
            };
            let ended = ::tokio::time::timeout_at(tries.deadline, attempt).await;
            if let Some(done) = tries.judge(ended.ok()).await {
                break done;
            }
        }
    }};
}
pub(crate) use attempt;

/// The connections.
pub(crate) struct Database {
    pool: Pool,
    patience: Duration,
}

/// A connection in use.
pub(crate) type Connection = Object;

/// A value in a statement.
pub(crate) type Value<'a> = &'a (dyn ToSql + Sync);

impl Database {
    /// Makes no connection yet.
    pub(crate) fn new(address: &Address, settings: Settings) -> Result<Self, StoreError> {
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config.clone(), address.tls.clone(), how);
        let patience = settings.patience;
        let session = session(patience);
        let prepare = Hook::async_fn(move |client: &mut ClientWrapper, _| {
            let session = session.clone();
            Box::pin(
                async move { client.batch_execute(&session).await.map_err(HookError::Backend) },
            )
        });
        let wait = Some(patience);
        let pool = Pool::builder(manager)
            .max_size(settings.connections.max(1))
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts { wait, create: wait, recycle: wait })
            .post_create(prepare)
            .build()
            .map_err(|error| StoreError::Broken(error.to_string()))?;
        Ok(Self { pool, patience })
    }

    /// Brings the database to the newest schema. May take longer than a call.
    pub(crate) async fn migrate(&self) -> Result<(), StoreError> {
        attempt!(self, |_on, _doubt| std::future::ready(Ok(())))?;
        let mut session = self.session().await.map_err(Failure::into_error)?;
        let connection = session.connection().map_err(Failure::into_error)?;
        let done = schema::migrate(connection).await.map_err(Failure::into_error);
        session.settle(done.is_err()).await;
        done
    }

    /// A connection, when one is free.
    pub(crate) async fn session(&self) -> Attempt<Session> {
        match self.pool.get().await {
            Ok(object) => Ok(Session { object: Some(object), answered: false }),
            Err(PoolError::Backend(error)) => Err(Failure::from(error)),
            Err(PoolError::PostCreateHook(HookError::Backend(error))) => Err(Failure::from(error)),
            Err(error) => Err(Failure::Again(error.to_string())),
        }
    }
}

/// The attempts at one thing.
pub(crate) struct Tries {
    /// When there is no more time.
    pub(crate) deadline: Instant,
    /// Whether one of them may have done it.
    pub(crate) in_doubt: bool,
    patience: Duration,
    pause: Duration,
    left: u32,
}

impl Tries {
    /// None was made yet.
    pub(crate) fn new(database: &Database) -> Self {
        let patience = database.patience;
        let deadline = Instant::now() + patience;
        Self { deadline, in_doubt: false, patience, pause: FIRST_PAUSE, left: ATTEMPTS }
    }

    /// What to answer after an attempt; `None` after a pause: make another one. An
    /// attempt that took too long has no outcome.
    pub(crate) async fn judge<T>(
        &mut self,
        ended: Option<Attempt<T>>,
    ) -> Option<Result<T, StoreError>> {
        let failure = match ended {
            Some(Ok(done)) => return Some(Ok(done)),
            Some(Err(Failure::Final(error))) => return Some(Err(error)),
            Some(Err(failure)) => failure,
            None => {
                let reason = format!("no answer within {:?}", self.patience);
                return Some(Err(StoreError::Unavailable(reason)));
            }
        };
        self.in_doubt |= matches!(failure, Failure::InDoubt(_));
        self.left -= 1;
        if self.left == 0 || Instant::now() + self.pause >= self.deadline {
            return Some(Err(match failure {
                // What is in doubt stays so, whatever failed afterwards.
                Failure::Again(reason) if self.in_doubt => Failure::InDoubt(reason).into_error(),
                failure => failure.into_error(),
            }));
        }
        sleep(self.pause).await;
        self.pause *= 2;
        None
    }
}

/// A connection that goes back to the others only if whoever used it got an answer.
pub(crate) struct Session {
    object: Option<Object>,
    answered: bool,
}

impl Session {
    /// The work got its answer. What failed has left a transaction that is being
    /// undone: its locks are gone when this returns.
    pub(crate) async fn settle(&mut self, failed: bool) {
        let undone = match self.object.as_ref().filter(|_| failed) {
            Some(object) => object.check_connection().await.is_ok(),
            None => true,
        };
        self.answered = undone;
    }

    /// The connection.
    pub(crate) fn connection(&mut self) -> Attempt<&mut Connection> {
        let object = self.object.as_mut();
        object.ok_or_else(|| Failure::broken("no connection"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(object) = self.object.take_if(|_| !self.answered) {
            drop(Object::take(object));
        }
    }
}

/// What every connection is told first.
pub(crate) fn session(patience: Duration) -> String {
    // The server gives up before the caller does, so that its reason is heard.
    let time = (patience / 2).as_millis().max(1);
    let lock = (patience / 4).as_millis().max(1);
    // A stricter setting of synchronous_commit than `on` is left alone.
    format!(
        "SET search_path = cofferdam; SET statement_timeout = {time}; SET lock_timeout = {lock}; \
         SET idle_in_transaction_session_timeout = {time}; \
         SET default_transaction_isolation = 'read committed'; \
         SET jit = off; SET standard_conforming_strings = on; SET client_encoding = 'UTF8'; \
         SELECT set_config('synchronous_commit', 'on', false) \
         WHERE current_setting('synchronous_commit') IN ('off', 'local')"
    )
}

/// Begins a transaction.
pub(crate) async fn begin(connection: &mut Connection) -> Attempt<Transaction<'_>> {
    Ok(connection.transaction().await?)
}

/// Ends a transaction.
pub(crate) async fn commit(transaction: Transaction<'_>) -> Attempt<()> {
    transaction.commit().await.map_err(|error| Failure::of_commit(&error))
}

/// Undoes a transaction that has found nothing to do; the answer is this.
pub(crate) async fn unchanged<T>(transaction: Transaction<'_>, answer: T) -> Attempt<T> {
    transaction.rollback().await?;
    Ok(answer)
}

/// The rows of a query.
pub(crate) async fn rows(
    on: &impl GenericClient,
    sql: &str,
    values: &[Value<'_>],
) -> Attempt<Vec<Row>> {
    let statement = on.prepare_cached(sql).await?;
    Ok(on.query(&statement, values).await?)
}

/// The row of a query that has at most one.
pub(crate) async fn row(
    on: &impl GenericClient,
    sql: &str,
    values: &[Value<'_>],
) -> Attempt<Option<Row>> {
    let statement = on.prepare_cached(sql).await?;
    Ok(on.query_opt(&statement, values).await?)
}

/// Does something; returns how many rows it was done to.
pub(crate) async fn execute(
    on: &impl GenericClient,
    sql: &str,
    values: &[Value<'_>],
) -> Attempt<u64> {
    let statement = on.prepare_cached(sql).await?;
    Ok(on.execute(&statement, values).await?)
}

/// Does something in a transaction of its own.
pub(crate) async fn write(on: &Connection, sql: &str, values: &[Value<'_>]) -> Attempt<u64> {
    let statement = on.prepare_cached(sql).await?;
    on.execute(&statement, values).await.map_err(|error| Failure::of_commit(&error))
}
