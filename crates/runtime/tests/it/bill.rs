//! What is paid for when a job is stopped.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_engine::{RoleSettings, Run, Settings};
use cofferdam_model::{Delta, DeltaStream, Model, ModelError, Request};
use cofferdam_runtime::{
    Door, Driven, Driver, Journal, JournalLog, JournalPast, Models, Notice, Opening, OrderKind,
    Origin, Traces, drive, now,
};
use cofferdam_sandbox::Lifetime;
use cofferdam_sandbox_native::Native;
use cofferdam_types::{Cancel, Ending, Event, ModelName, Tokens, Toolbox};
use futures_util::stream;
use tokio::sync::{Notify, mpsc};

const USED: Tokens = Tokens { input: 100, cache_read: 7, cache_write: 0, output: 3 };

/// Says what it has used, and then nothing more.
struct Silent {
    name: ModelName,
    /// Told when everything it said was taken.
    taken: Arc<Notify>,
}

impl Model for Silent {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn ask(&self, _: Request) -> DeltaStream {
        let taken = Arc::clone(&self.taken);
        Box::pin(stream::unfold(false, move |said| {
            let taken = Arc::clone(&taken);
            async move {
                if said {
                    taken.notify_one();
                    std::future::pending::<()>().await;
                }
                Some((Ok::<_, ModelError>(Delta::Used(USED)), true))
            }
        }))
    }
}

#[tokio::test]
async fn what_an_answer_had_used_when_the_job_was_stopped_is_in_the_bill() {
    let home = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let spec = crate::lab::spec(workspace.path());
    let taken = Arc::new(Notify::new());
    let model: Arc<dyn Model> =
        Arc::new(Silent { name: spec.orchestrator.clone(), taken: Arc::clone(&taken) });
    let role =
        RoleSettings { tools: Toolbox::default(), price: None, max_output: 1000, window: 200_000 };
    let mut journal = Journal::create(&home.path().join("log.jsonl")).unwrap();
    let at = now();
    let created = Event::Created { spec: Box::new(spec.clone()) };
    journal.append(at, vec![created]).unwrap();
    let (orders, orders_there) = mpsc::channel(4);
    let (notices_there, mut notices) = mpsc::channel(64);
    let place = spec.place.clone();
    let driver = Driver {
        run: Run::new(spec, at),
        traces: Traces::default(),
        past: Arc::new(JournalPast::of(journal.path())),
        settings: Settings {
            orchestrator: role.clone(),
            coder: role.clone(),
            summariser: role,
            recalls: false,
            retries: 0,
            backoff: Duration::from_millis(1),
        },
        models: Models {
            orchestrator: Arc::clone(&model),
            coder: Arc::clone(&model),
            summariser: model,
        },
        backend: Arc::new(Native::new(home.path().join("sandboxes"))),
        place,
        images: None,
        aide: None,
        lifetime: Lifetime::Owned,
        origin: Origin::Directory,
        replant: false,
        directory: home.path().to_owned(),
        indexes: Arc::new(crate::lab::SqliteIndexes),
        embedder: None,
        delivery: None,
        opening: Opening::default(),
        door: Door::default(),
        orders: orders_there,
        notices: notices_there,
    };
    let stopping = async {
        taken.notified().await;
        orders.send(OrderKind::Cancel(Cancel::User).into()).await.unwrap();
    };
    let watching = async {
        let mut last = None;
        while let Some(notice) = notices.recv().await {
            if let Notice::Record(record) = notice {
                last = Some(record.event);
            }
        }
        last
    };
    let (ending, (), last) =
        tokio::join!(drive(driver, JournalLog::from(journal)), stopping, watching);
    assert_eq!(ending.unwrap(), Driven::Ended(Ending::Cancelled { by: Cancel::User }));
    let Some(Event::Ended { spent, .. }) = last else { panic!("{last:?}") };
    assert_eq!(spent.tokens, USED);
}
