//! A job of a few scripted answers in a real sandbox.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cofferdam_model::{Delta, DeltaStream, Model, ModelError, PriceTable, Request};
use cofferdam_recall::{Index, RecallError};
use cofferdam_recall_sqlite::SqliteIndex;
use cofferdam_runtime::{
    Door, DriveError, Driven, Driver, Indexes, Journal, JournalError, JournalLog, JournalPast,
    Models, Notice, Opening, Order, Origin, Outfit, Replayed, Replaying, drive, engine_settings,
    now,
};
use cofferdam_sandbox::Lifetime;
use cofferdam_sandbox_native::Native;
use cofferdam_types::{
    Budget, Event, JobId, JobSpec, Limits, ModelName, Network, Place, Record, StopReason,
};
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::sync::mpsc;

/// How long a drive that was killed may take to write its last line.
const LAST_LINE: Duration = Duration::from_secs(60);

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

/// What a model says.
pub(crate) enum Say {
    /// These calls, by their names and arguments.
    Calls(Vec<(&'static str, serde_json::Value)>),
    /// These words.
    Text(String),
}

/// Says what a function makes of each question.
struct Told<Answer> {
    name: ModelName,
    answer: Answer,
    asked: AtomicUsize,
}

impl<Answer: Fn(&Request) -> Say + Send + Sync> Model for Told<Answer> {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn ask(&self, question: Request) -> DeltaStream {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let mut deltas = Vec::new();
        match (self.answer)(&question) {
            Say::Calls(calls) => {
                for (index, (name, arguments)) in calls.into_iter().enumerate() {
                    let (id, name) = (format!("call-{turn}-{index}"), name.to_owned());
                    let index = u32::try_from(index).unwrap();
                    deltas.push(Delta::CallBegun { index, id, name });
                    deltas.push(Delta::Arguments { index, text: arguments.to_string() });
                }
                deltas.push(Delta::Stop(StopReason::Tools));
            }
            Say::Text(text) => {
                deltas.extend([Delta::Text(text), Delta::Stop(StopReason::Done)]);
            }
        }
        Box::pin(stream::iter(deltas.into_iter().map(Ok::<_, ModelError>)))
    }
}

/// Indexes as the product has them.
pub(crate) struct SqliteIndexes;

impl Indexes for SqliteIndexes {
    fn open(&self, path: PathBuf) -> BoxFuture<'_, Result<Arc<dyn Index>, RecallError>> {
        Box::pin(async move {
            let index: Arc<dyn Index> = Arc::new(SqliteIndex::open(path).await?);
            Ok(index)
        })
    }
}

/// A job and where it lives.
pub(crate) struct Lab {
    place: tempfile::TempDir,
    model: Arc<dyn Model>,
    /// Tokens that its models can read.
    window: Option<u64>,
    recalls: bool,
    task: String,
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

    /// Ends it as a process that is killed: nothing is put away.
    pub(crate) async fn kill(self) {
        self.work.abort();
        assert!(self.work.await.unwrap_err().is_cancelled());
    }

    /// Waits for the end of the drive.
    pub(crate) async fn end(mut self) -> Driven {
        while self.notices.recv().await.is_some() {}
        self.work.await.unwrap().unwrap()
    }
}

impl Lab {
    pub(crate) fn new(commands: &[&str]) -> Self {
        let model = Arc::new(Script {
            name: ModelName("test/script".to_owned()),
            commands: commands.iter().map(|command| (*command).to_owned()).collect(),
            asked: AtomicUsize::new(0),
        });
        Self::of(model, None, false, "do it")
    }

    /// A job that can look for what it has let go, with so small a window.
    pub(crate) fn recalling(
        window: u64,
        task: &str,
        answer: impl Fn(&Request) -> Say + Send + Sync + 'static,
    ) -> Self {
        let name = ModelName("test/script".to_owned());
        let model = Arc::new(Told { name, answer, asked: AtomicUsize::new(0) });
        Self::of(model, Some(window), true, task)
    }

    fn of(model: Arc<dyn Model>, window: Option<u64>, recalls: bool, task: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("workspace")).unwrap();
        let native = Arc::new(Native::new(place.path().join("sandboxes")));
        let lab = Self { place, model, window, recalls, task: task.to_owned(), native };
        let mut journal = Journal::create(&lab.log()).unwrap();
        let created = Event::Created { spec: Box::new(lab.spec()) };
        journal.append(now(), vec![created]).unwrap();
        lab
    }

    fn log(&self) -> PathBuf {
        self.place.path().join("log.jsonl")
    }

    /// Where the job's own files are.
    pub(crate) fn directory(&self) -> PathBuf {
        self.place.path().join("job")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.place.path().join("workspace")
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        Journal::read(&self.log()).unwrap()
    }

    /// Appends what a process that is gone had appended.
    pub(crate) fn append(&self, events: Vec<Event>) {
        let mut journal = Journal::open(&self.log(), |_| {}).unwrap();
        journal.append(now(), events).unwrap();
    }

    /// The log and what it says. A drive that was just killed may write its last line yet,
    /// which a killed process could not.
    fn taken_up(&self) -> (Journal, Replayed) {
        let begun = std::time::Instant::now();
        loop {
            let mut replaying = Replaying::default();
            let seen = |record: &Record| replaying.take(record).unwrap();
            match Journal::open(&self.log(), seen) {
                Ok(journal) => return (journal, replaying.finish().unwrap()),
                Err(JournalError::Busy { .. }) if begun.elapsed() < LAST_LINE => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Drives the job from where it is.
    pub(crate) fn drive(&self) -> Driving {
        self.drive_saying(None)
    }

    /// Drives the job from where it is, after the user has said something.
    #[expect(clippy::disallowed_methods, reason = "the test waits for it")]
    pub(crate) fn drive_saying(&self, say: Option<&str>) -> Driving {
        let (journal, Replayed { run, traces }) = self.taken_up();
        let prices = PriceTable::default();
        let (window, recalls) = (self.window, self.recalls);
        let outfit = Outfit { prices: &prices, max_output: 1000, retries: 0, window, recalls };
        let (orders, orders_there) = mpsc::channel(4);
        let (notices_there, notices) = mpsc::channel(64);
        let model = Arc::clone(&self.model);
        let door = Door::default();
        let driver = Driver {
            settings: engine_settings(outfit, run.spec()),
            run,
            traces,
            past: Arc::new(JournalPast::of(journal.path())),
            models: Models {
                orchestrator: Arc::clone(&model),
                coder: Arc::clone(&model),
                summariser: model,
            },
            backend: self.native.clone(),
            place: self.spec().place,
            images: None,
            aide: None,
            lifetime: Lifetime::Lingering(Duration::from_secs(60)),
            origin: Origin::Empty,
            replant: false,
            directory: self.directory(),
            indexes: Arc::new(SqliteIndexes),
            embedder: None,
            delivery: None,
            opening: Opening {
                say: say.map(str::to_owned),
                finish: say.is_none(),
                ..Opening::default()
            },
            door: door.clone(),
            orders: orders_there,
            notices: notices_there,
        };
        let work = tokio::spawn(drive(driver, JournalLog::from(journal)));
        Driving { orders, notices, door, work }
    }

    fn spec(&self) -> JobSpec {
        let spec = spec(&self.workspace());
        let turns = if self.recalls { 200 } else { spec.budget.turns };
        let budget = Budget { turns, ..spec.budget };
        JobSpec { task: self.task.clone(), budget, ..spec }
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
        summariser: None,
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
