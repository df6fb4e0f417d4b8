//! The index: everything that touches the file happens off the async threads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam_recall::{Document, Hit, Index, Question, RecallError};
use futures_util::future::BoxFuture;
use rusqlite::{Connection, TransactionBehavior};
use tokio::task::spawn_blocking;

use crate::add::{self, Prepared};
use crate::file::{Connections, Held};
use crate::trouble::{Trouble, Verdict, unusable, verdict};
use crate::{find, read, schema};

/// An index in one file.
///
/// A file that turns out to be broken while it is open is made anew if nobody else
/// has it open. The call that met it fails with [`RecallError::Stale`] all the same:
/// the index is empty then, and [`Index::reaches`] says from where to feed it.
#[derive(Clone)]
pub struct SqliteIndex {
    shared: Arc<Shared>,
}

struct Shared {
    // `None`: it could not be made anew. The reader is closed first: who closes the last
    // one brings the log into the file, which a reader cannot.
    reader: Mutex<Option<Connection>>,
    writer: Mutex<Option<Connection>>,
    // After them: it holds the lock under which they are open.
    held: Held,
}

impl SqliteIndex {
    /// Opens the file, or makes it. One that is broken, or that another release made,
    /// is removed first.
    ///
    /// # Errors
    /// [`RecallError::Stale`] when it would have to be removed and somebody else has it
    /// open; [`RecallError::Unusable`] when it cannot be read or written.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, RecallError> {
        let path = path.into();
        let opened = spawn_blocking(move || Held::open(&path)).await;
        let (held, Connections { writer, reader }) = opened.map_err(|error| ended(&error))??;
        let (writer, reader) = (Mutex::new(Some(writer)), Mutex::new(Some(reader)));
        Ok(Self { shared: Arc::new(Shared { held, writer, reader }) })
    }

    async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, RecallError> {
        let shared = Arc::clone(&self.shared);
        let done = spawn_blocking(move || {
            let outcome = match lock(&shared.reader).as_ref() {
                Some(connection) => work(connection).map_err(|trouble| judged(trouble, connection)),
                None => return Err(shared.gone()),
            };
            outcome.map_err(|judged| shared.answer(judged))
        });
        done.await.map_err(|error| ended(&error))?
    }

    async fn writing<T>(
        &self,
        prepare: impl FnOnce() -> Vec<T> + Send + 'static,
        work: impl FnOnce(&Connection, &[T]) -> Result<(), Trouble> + Send + 'static,
    ) -> Result<(), RecallError> {
        let shared = Arc::clone(&self.shared);
        let done = spawn_blocking(move || {
            let prepared = prepare();
            let outcome = match lock(&shared.writer).as_mut() {
                Some(connection) => in_transaction(connection, |inside| work(inside, &prepared))
                    .map_err(|trouble| judged(trouble, connection)),
                None => return Err(shared.gone()),
            };
            outcome.map_err(|judged| shared.answer(judged))
        });
        done.await.map_err(|error| ended(&error))?
    }
}

impl Index for SqliteIndex {
    fn reaches(&self) -> BoxFuture<'_, Result<u64, RecallError>> {
        Box::pin(self.reading(add::reaches))
    }

    fn add(
        &self,
        through: u64,
        documents: Vec<Document>,
    ) -> BoxFuture<'_, Result<(), RecallError>> {
        let prepare = move || prepared(documents);
        Box::pin(self.writing(prepare, move |connection, documents| {
            add::add(connection, through, documents)
        }))
    }

    fn replace_files(
        &self,
        files: BTreeMap<String, Vec<Document>>,
    ) -> BoxFuture<'_, Result<(), RecallError>> {
        let prepare = move || {
            let prepared = |(path, documents)| (path, prepared(documents));
            files.into_iter().map(prepared).collect::<Vec<(String, Vec<Prepared>)>>()
        };
        Box::pin(self.writing(prepare, add::replace_files))
    }

    fn find(&self, question: Question) -> BoxFuture<'_, Result<Vec<Hit>, RecallError>> {
        Box::pin(self.reading(move |connection| find::find(connection, &question)))
    }

    fn read(&self, seq: u64) -> BoxFuture<'_, Result<Vec<Document>, RecallError>> {
        Box::pin(self.reading(move |connection| read::read(connection, seq)))
    }
}

fn prepared(documents: Vec<Document>) -> Vec<Prepared> {
    documents.into_iter().map(Prepared::new).collect()
}

/// What a trouble says of the file.
enum Judged {
    Broken(String),
    Other(String),
}

fn judged(trouble: Trouble, connection: &Connection) -> Judged {
    let error = match trouble {
        Trouble::Senseless(reason) => return Judged::Other(reason),
        Trouble::Sqlite(error) => error,
    };
    let is_broken = match verdict(&error) {
        Verdict::Broken => true,
        Verdict::Doubtful => !schema::is_whole(connection),
        Verdict::Outside => false,
    };
    if is_broken { Judged::Broken(error.to_string()) } else { Judged::Other(error.to_string()) }
}

impl Shared {
    /// Makes the file anew if it is broken, and says what the caller is told.
    fn answer(&self, judged: Judged) -> RecallError {
        let reason = match judged {
            Judged::Other(reason) => return unusable(self.held.path(), reason),
            Judged::Broken(reason) => reason,
        };
        // Always in this order.
        let (mut writer, mut reader) = (lock(&self.writer), lock(&self.reader));
        *reader = None;
        *writer = None;
        match self.held.remake(&reason) {
            Ok(connections) => {
                *writer = Some(connections.writer);
                *reader = Some(connections.reader);
                let path = self.held.path().display();
                RecallError::Stale(format!("{path}: {reason}; it was made anew and is empty"))
            }
            Err(error) => error,
        }
    }

    fn gone(&self) -> RecallError {
        let path = self.held.path().display();
        RecallError::Stale(format!(
            "{path}: it was broken and could not be made anew: open it again"
        ))
    }
}

fn in_transaction(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    work(&transaction)?;
    Ok(transaction.commit()?)
}

fn lock(connection: &Mutex<Option<Connection>>) -> MutexGuard<'_, Option<Connection>> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended(error: &tokio::task::JoinError) -> RecallError {
    RecallError::Unusable(format!("its work was not done: {error}"))
}
