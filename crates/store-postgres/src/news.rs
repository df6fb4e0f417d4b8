//! What has changed, told to whoever watches here and on other servers.
//!
//! Changes are told after their commit, in a transaction of their own: a commit that
//! also notifies waits for every other one that does, up to the disk. A server that
//! dies in between has not told; whoever takes its jobs over tells of them again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cofferdam_store::{Change, StoreError};
use cofferdam_types::JobId;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, mpsc};
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};
use uuid::Uuid;

use crate::address::Address;
use crate::database::{Database, attempt, session, write};
use crate::failure::{Attempt, Failure};

/// The channel of the database.
const CHANNEL: &str = "cofferdam";

/// Changes that wait to be told to others. Beyond, they are told to look at everything.
const WAITING: usize = 1024;

/// Changes that a slow watcher may be behind.
const BEHIND: usize = 4096;

/// Changes in one notification: PostgreSQL takes less than 8,000 bytes.
const TOGETHER: usize = 64;

/// The pause before the first attempt to listen again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Changes, with the store that has made them.
#[derive(Serialize, Deserialize)]
struct Notification {
    from: Uuid,
    changes: Vec<Change>,
}

/// Tells of changes.
#[derive(Clone)]
pub(crate) struct News {
    /// Names this store, which needs no news of itself.
    me: Uuid,
    here: broadcast::Sender<Change>,
    elsewhere: mpsc::Sender<Change>,
    overflow: Arc<AtomicBool>,
}

impl News {
    /// With the changes that others are to be told, for [`News::carry`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<Change>) {
        let (elsewhere, outbox) = mpsc::channel(WAITING);
        let here = broadcast::Sender::new(BEHIND);
        let overflow = Arc::new(AtomicBool::new(false));
        (Self { me: Uuid::now_v7(), here, elsewhere, overflow }, outbox)
    }

    /// Tells of something that is durable.
    pub(crate) fn tell(&self, change: Change) {
        // Nobody may be watching.
        self.here.send(change.clone()).ok();
        if self.elsewhere.try_send(change).is_err() {
            self.overflow.store(true, Ordering::Relaxed);
        }
    }

    /// What is told from now on.
    pub(crate) fn watch(&self) -> broadcast::Receiver<Change> {
        self.here.subscribe()
    }

    /// Carries changes to other servers.
    pub(crate) async fn carry(self, database: Arc<Database>, mut outbox: mpsc::Receiver<Change>) {
        let mut changes = Vec::new();
        while outbox.recv_many(&mut changes, WAITING).await > 0 {
            let mut digest = digest(&changes);
            changes.clear();
            if self.overflow.swap(false, Ordering::Relaxed) {
                digest = vec![Change::Everything];
            }
            while self.send(&database, &digest).await.is_err() {
                // What gathers meanwhile is no more than this.
                digest = vec![Change::Everything];
                sleep(LONGEST_PAUSE).await;
            }
        }
    }

    async fn send(&self, database: &Database, changes: &[Change]) -> Result<(), StoreError> {
        for changes in changes.chunks(TOGETHER) {
            let note = Notification { from: self.me, changes: changes.to_vec() };
            let note = serde_json::to_string(&note)
                .map_err(|error| StoreError::Broken(error.to_string()))?;
            // Nothing of this needs to reach the disk.
            let sql = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)";
            attempt!(database, |on, _doubt| write(on, sql, &[&CHANNEL, &note]))?;
        }
        Ok(())
    }

    /// Hears what other servers tell, for ever.
    pub(crate) async fn hear(self, mut ears: Ears, address: Address, patience: Duration) {
        loop {
            ears.listen(&self, patience).await;
            let mut pause = FIRST_PAUSE;
            ears = loop {
                sleep(pause).await;
                match Ears::open(&address, patience).await {
                    Ok(ears) => break ears,
                    Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
                }
            };
            self.here.send(Change::Everything).ok();
        }
    }

    fn deliver(&self, payload: &str) {
        match serde_json::from_str::<Notification>(payload) {
            Ok(note) if note.from == self.me => {}
            Ok(note) => {
                for change in note.changes {
                    self.here.send(change).ok();
                }
            }
            // A later release tells of things that are not known here.
            Err(_) => {
                self.here.send(Change::Everything).ok();
            }
        }
    }
}

/// The same changes, each job named once.
fn digest(changes: &[Change]) -> Vec<Change> {
    let mut last: HashMap<JobId, u64> = HashMap::new();
    let mut others: Vec<Change> = Vec::new();
    for change in changes {
        match change {
            Change::Events { job, last: seq } => {
                let known = last.entry(*job).or_default();
                *known = (*known).max(*seq);
            }
            other if others.contains(other) => {}
            other => others.push(other.clone()),
        }
    }
    others.extend(last.into_iter().map(|(job, last)| Change::Events { job, last }));
    others
}

/// A connection that listens.
pub(crate) struct Ears {
    client: Client,
    messages: BoxStream<'static, Result<AsyncMessage, tokio_postgres::Error>>,
}

impl Ears {
    /// Connects and listens.
    pub(crate) async fn open(address: &Address, patience: Duration) -> Attempt<Self> {
        let late = |_| Failure::Again(format!("no answer within {patience:?}"));
        let connect = address.config.connect(address.tls.clone());
        let (client, mut connection) = timeout(patience, connect).await.map_err(late)??;
        let messages = stream::poll_fn(move |context| connection.poll_message(context)).boxed();
        let mut ears = Self { client, messages };
        let listen = format!("{}; LISTEN {CHANNEL}", session(patience));
        ears.ask(&listen, patience, |_| {}).await?;
        Ok(ears)
    }

    /// Delivers what comes until the connection is lost.
    async fn listen(&mut self, news: &News, patience: Duration) {
        loop {
            match timeout(patience, self.messages.next()).await {
                Ok(Some(Ok(message))) => deliver(news, message),
                Ok(_) => return,
                // Silence: is the server still there?
                Err(_) => {
                    let asked = self.ask("SELECT 1", patience, |message| deliver(news, message));
                    if asked.await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Runs statements while messages are read, without which there is no answer.
    async fn ask(
        &mut self,
        sql: &str,
        patience: Duration,
        mut deliver: impl FnMut(AsyncMessage),
    ) -> Attempt<()> {
        let ask = async {
            let mut answer = std::pin::pin!(self.client.batch_execute(sql));
            loop {
                tokio::select! {
                    answer = &mut answer => return answer.map_err(Failure::from),
                    message = self.messages.next() => match message {
                        Some(Ok(message)) => deliver(message),
                        Some(Err(error)) => return Err(error.into()),
                        None => return Err(Failure::Again("the connection was closed".to_owned())),
                    },
                }
            }
        };
        let late = |_| Failure::Again(format!("no answer within {patience:?}"));
        timeout(patience, ask).await.map_err(late)?
    }
}

fn deliver(news: &News, message: AsyncMessage) {
    if let AsyncMessage::Notification(notification) = message {
        news.deliver(notification.payload());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_names_each_job_once_and_loses_nothing() {
        let (one, other) = (JobId::generate(), JobId::generate());
        let changes = [
            Change::Queue,
            Change::Events { job: one, last: 2 },
            Change::Ordered { job: one },
            Change::Events { job: other, last: 7 },
            Change::Events { job: one, last: 3 },
            Change::Queue,
        ];
        let digest = digest(&changes);
        assert_eq!(digest.len(), 4, "{digest:?}");
        for change in [
            Change::Queue,
            Change::Ordered { job: one },
            Change::Events { job: one, last: 3 },
            Change::Events { job: other, last: 7 },
        ] {
            assert!(digest.contains(&change), "{change:?}");
        }
    }

    #[test]
    fn a_notification_is_as_short_as_postgres_wants() {
        let change = Change::Events { job: JobId::generate(), last: u64::MAX };
        let note = Notification { from: Uuid::now_v7(), changes: vec![change; TOGETHER] };
        assert!(serde_json::to_string(&note).unwrap().len() < 8000);
    }
}
