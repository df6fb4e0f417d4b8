//! A job of a few scripted answers in a real sandbox.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cofferdam_engine::Run;
use cofferdam_model::{Delta, DeltaStream, Model, ModelError, PriceTable, Request};
use cofferdam_runtime::{
    Door, DriveError, Driven, Driver, Journal, JournalLog, Models, Notice, Opening, Order, Origin,
    Outfit, drive, engine_settings, now,
};
use cofferdam_sandbox::Lifetime;
use cofferdam_sandbox_native::Native;
use cofferdam_types::{
    Budget, Event, JobId, JobSpec, Limits, ModelName, Network, Place, Record, StopReason,
};
use futures_util::stream;
use tokio::sync::mpsc;

/// Runs these commands, one an answer, and then says that it is done.
pub(crate) struct Script {
    name: ModelName,
    commands: Vec<String>,
    asked: AtomicUsize,
}

impl Model for Script {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn ask(&self, _: Request) -> DeltaStream {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let deltas = match self.commands.get(turn) {
            Some(command) => vec![
                Delta::CallBegun { index: 0, id: format!("call-{turn}"), name: "bash".to_owned() },
                Delta::Arguments {
                    index: 0,
                    text: serde_json::json!({ "command": command }).to_string(),
                },
                Delta::Stop(StopReason::Tools),
            ],
            None => vec![Delta::Text("done".to_owned()), Delta::Stop(StopReason::Done)],
        };
        Box::pin(stream::iter(deltas.into_iter().map(Ok::<_, ModelError>)))
    }
}

/// A job and where it lives.
pub(crate) struct Lab {
    place: tempfile::TempDir,
    model: Arc<Script>,
    pub(crate) native: Arc<Native>,
}

/// A job that is driven.
pub(crate) struct Driving {
    pub(crate) orders: mpsc::Sender<Order>,
    pub(crate) notices: mpsc::Receiver<Notice>,
    pub(crate) door: Door,
    work: tokio::task::JoinHandle<Result<Driven, DriveError>>,
}

impl Driving {
    /// Waits for an event of this kind.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            match self.notices.recv().await.expect("the job goes on") {
                Notice::Record(record) if wanted(&record.event) => return record.event,
                _ => {}
            }
        }
    }

    /// Waits for the end of the drive.
    pub(crate) async fn end(mut self) -> Driven {
        while self.notices.recv().await.is_some() {}
        self.work.await.unwrap().unwrap()
    }
}

impl Lab {
    pub(crate) fn new(commands: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("workspace")).unwrap();
        let native = Arc::new(Native::new(place.path().join("sandboxes")));
        let model = Arc::new(Script {
            name: ModelName("test/script".to_owned()),
            commands: commands.iter().map(|command| (*command).to_owned()).collect(),
            asked: AtomicUsize::new(0),
        });
        let lab = Self { place, model, native };
        let mut journal = Journal::create(&lab.log()).unwrap();
        let created = Event::Created { spec: Box::new(lab.spec()) };
        journal.append(now(), vec![created]).unwrap();
        lab
    }

    fn log(&self) -> PathBuf {
        self.place.path().join("log.jsonl")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.place.path().join("workspace")
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        Journal::read(&self.log()).unwrap()
    }

    /// Appends what a process that is gone had appended.
    pub(crate) fn append(&self, events: Vec<Event>) {
        let (mut journal, _) = Journal::open(&self.log()).unwrap();
        journal.append(now(), events).unwrap();
    }

    /// Drives the job from where it is.
    #[expect(clippy::disallowed_methods, reason = "the test waits for it")]
    pub(crate) fn drive(&self) -> Driving {
        let (journal, records) = Journal::open(&self.log()).unwrap();
        let prices = PriceTable::default();
        let outfit = Outfit { prices: &prices, max_output: 1000, retries: 0 };
        let (orders, orders_there) = mpsc::channel(4);
        let (notices_there, notices) = mpsc::channel(64);
        let model: Arc<dyn Model> = self.model.clone();
        let door = Door::default();
        let driver = Driver {
            run: Run::replay(&records).unwrap(),
            records,
            settings: engine_settings(outfit, &self.spec()),
            models: Models { orchestrator: Arc::clone(&model), coder: model },
            backend: self.native.clone(),
            place: self.spec().place,
            lifetime: Lifetime::Lingering(Duration::from_secs(60)),
            origin: Origin::Empty,
            replant: false,
            outputs: self.place.path().join("outputs"),
            delivery: None,
            opening: Opening { finish: true, ..Opening::default() },
            door: door.clone(),
            orders: orders_there,
            notices: notices_there,
        };
        let work = tokio::spawn(drive(driver, JournalLog::from(journal)));
        Driving { orders, notices, door, work }
    }

    fn spec(&self) -> JobSpec {
        spec(&self.workspace())
    }
}

/// A job in this workspace.
pub(crate) fn spec(workspace: &Path) -> JobSpec {
    let model = ModelName("test/script".to_owned());
    JobSpec {
        job: JobId::generate(),
        task: "do it".to_owned(),
        orchestrator: model.clone(),
        coder: model,
        budget: Budget { turns: 9, tokens: None, cost: None, time: None },
        checks: Vec::new(),
        attempts: 1,
        place: Place {
            workspace: workspace.to_owned(),
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
