//! The connection is lost on the commit: before it, so that nothing has happened, or
//! after it, so that all has and nobody was told. Either way it happens once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use cofferdam_store::{
    Artifact, Blob, BlobKey, NodeId, Order, Ordered, Store, StoreError, Submitted, UserId,
};
use cofferdam_store_postgres::PostgresStore;
use cofferdam_testkit::Postgres;
use cofferdam_types::{Ending, Event, Spent, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::fixture::{HOUR, ask, draft, lease, noted, submit};

/// What the wire does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Wire {
    /// Carries everything.
    Whole,
    /// Breaks in place of the next commit.
    BreaksBefore,
    /// Carries the next commit and breaks before its answer.
    BreaksAfter,
    /// Has broken.
    Broke,
}

const CUTS: [Wire; 2] = [Wire::BreaksBefore, Wire::BreaksAfter];

/// A store whose connections can be broken.
struct Lab {
    store: PostgresStore,
    wire: Arc<AtomicU8>,
    _proxy: JoinSet<()>,
    _server: Arc<Postgres>,
}

impl Lab {
    async fn new() -> Self {
        let server = Postgres::shared();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let wire = Arc::new(AtomicU8::new(Wire::Whole as u8));
        let mut proxy = JoinSet::new();
        proxy.spawn(serve(listener, server.port(), wire.clone()));
        let url = server.database();
        let url = url.replace(&format!(":{}/", server.port()), &format!(":{port}/"));
        let store = PostgresStore::open(&url).await.unwrap();
        Self { store, wire, _proxy: proxy, _server: server }
    }

    /// The wire breaks on the next commit.
    fn cut(&self, how: Wire) -> &PostgresStore {
        self.wire.store(how as u8, Ordering::SeqCst);
        &self.store
    }

    fn broke(&self) {
        let wire = self.wire.swap(Wire::Whole as u8, Ordering::SeqCst);
        assert_eq!(wire, Wire::Broke as u8, "the case did not happen");
    }
}

async fn serve(listener: TcpListener, port: u16, wire: Arc<AtomicU8>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(carry(client, port, wire.clone()));
    }
}

/// Carries one connection until an end closes it or it is cut.
async fn carry(client: TcpStream, port: u16, wire: Arc<AtomicU8>) {
    let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut cutting = false;
    loop {
        tokio::select! {
            count = from_client.read(&mut asked) => {
                let bytes = &asked[..count.unwrap_or(0)];
                let commits = bytes.windows(7).any(|window| window == b"COMMIT\0");
                let now = wire.load(Ordering::SeqCst);
                if commits && now != Wire::Whole as u8 && now != Wire::Broke as u8 {
                    wire.store(Wire::Broke as u8, Ordering::SeqCst);
                    if now == Wire::BreaksBefore as u8 {
                        return;
                    }
                    cutting = true;
                }
                if bytes.is_empty() || to_server.write_all(bytes).await.is_err() {
                    return;
                }
            }
            count = from_server.read(&mut answered) => {
                let bytes = &answered[..count.unwrap_or(0)];
                if cutting || bytes.is_empty() || to_client.write_all(bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_submission_is_kept_once() {
    let lab = Lab::new().await;
    let user = UserId::generate();
    for cut in CUTS {
        let job = draft(user);
        let id = job.spec.job;
        assert_eq!(lab.cut(cut).submit(job.clone()).await.unwrap(), Submitted::New, "{cut:?}");
        lab.broke();
        assert_eq!(lab.store.events(id, 0, 10).await.unwrap().len(), 1);
        let again = lab.store.submit(job).await;
        assert!(matches!(again, Err(StoreError::Taken(_))), "nothing was lost here: {again:?}");
    }
    assert_eq!(lab.store.counts(Some(user)).await.unwrap().pending, 2);
}

#[tokio::test]
async fn an_append_is_kept_once() {
    let lab = Lab::new().await;
    let job = submit(&lab.store, UserId::generate()).await;
    let held = lease(&lab.store, NodeId::generate(), HOUR).await;
    for (seq, cut) in (2..).zip(CUTS) {
        lab.cut(cut).append(noted(&held, seq, "a")).await.unwrap();
        lab.broke();
        assert_eq!(lab.store.job(job).await.unwrap().unwrap().last_seq, seq, "{cut:?}");
    }
    let again = lab.store.append(noted(&held, 3, "a")).await;
    assert!(matches!(again, Err(StoreError::Fenced)), "nothing was lost here: {again:?}");
}

#[tokio::test]
async fn an_order_is_given_once() {
    let lab = Lab::new().await;
    let job = submit(&lab.store, UserId::generate()).await;
    let resume = Order::Resume { say: None, budget: None };
    for (count, cut) in (1..).zip(CUTS) {
        let said = lab.cut(cut).order(job, Order::Say { text: "hello".to_owned() }).await.unwrap();
        lab.broke();
        let orders = lab.store.orders(job).await.unwrap();
        assert_eq!(orders.len(), count, "{cut:?}");
        assert_eq!(orders.last().map(|(id, _)| Ordered::Kept(*id)), Some(said), "{cut:?}");
        // These change the job itself; the second of two alike is another thing.
        assert_eq!(lab.cut(cut).order(job, Order::Pause).await.unwrap(), Ordered::Done);
        lab.broke();
        assert_eq!(lab.cut(cut).order(job, resume.clone()).await.unwrap(), Ordered::Done);
        lab.broke();
        let refused = lab.store.order(job, resume.clone()).await.unwrap();
        assert!(matches!(refused, Ordered::Refused(_)), "{refused:?}");
    }
}

#[tokio::test]
async fn leases_are_given_once_and_none_is_lost() {
    let lab = Lab::new().await;
    let user = UserId::generate();
    for cut in CUTS {
        submit(&lab.store, user).await;
        submit(&lab.store, user).await;
        let leases = lab.cut(cut).lease(ask(NodeId::generate(), 2, HOUR)).await.unwrap();
        lab.broke();
        assert_eq!(leases.len(), 2, "{cut:?}");
        for lease in &leases {
            assert_eq!(lease.job.epoch, 1, "{cut:?}");
            lab.store.append(noted(lease, 2, "mine")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_is_forgotten_is_told_although_it_is_gone() {
    let lab = Lab::new().await;
    for cut in CUTS {
        let job = submit(&lab.store, UserId::generate()).await;
        let held = lease(&lab.store, NodeId::generate(), HOUR).await;
        let mut end = noted(&held, 2, "");
        end.records[0].event = Event::Ended {
            ending: Ending::Complete { summary: String::new(), verified: true },
            spent: Spent::default(),
            changes: Vec::new(),
            delivery_problem: None,
        };
        lab.store.append(end).await.unwrap();
        let key = BlobKey::of(&["a", "b"]).unwrap();
        let blob = Blob { key, bytes: 1, sha256: "ab".repeat(32) };
        let artifact = Artifact { job, name: "nul\0.zip".to_owned(), blob, at: Timestamp(1) };
        let epoch = lab.store.job(job).await.unwrap().unwrap().epoch;
        lab.store.keep_artifact(artifact.clone(), epoch).await.unwrap();
        assert_eq!(lab.cut(cut).forget(job).await.unwrap(), [artifact], "{cut:?}");
        lab.broke();
        assert_eq!(lab.store.job(job).await.unwrap(), None);
    }
}
