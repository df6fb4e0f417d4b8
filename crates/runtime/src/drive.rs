//! The loop that drives a job: wait for something to happen, have the engine
//! decide, make its events durable, do what it says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_engine::{Effect, Input, Run, Settings, step};
use cofferdam_model::{Delta, Model};
use cofferdam_sandbox::{Backend, Files, Sandbox};
use cofferdam_tools::Tools;
use cofferdam_types::{
    CallId, Cancel, Ending, Record, RequestId, Role, ThreadId, Timestamp, error_chain,
};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::ask::{Meter, ask};
use crate::check::check;
use crate::clock::Clock;
use crate::journal::{Journal, JournalError};
use crate::work::{self, Done};

/// Everything a job is driven with.
pub struct Driver {
    /// Its records so far, which lead to `run`.
    pub records: Vec<Record>,
    /// Its state.
    pub run: Run,
    /// What the engine needs to know besides.
    pub settings: Settings,
    /// The models to ask.
    pub models: Models,
    /// What makes its sandbox.
    pub backend: Arc<dyn Backend>,
    /// Where long outputs are kept.
    pub outputs: PathBuf,
    /// Who else gets the result, before the sandbox closes.
    pub delivery: Option<Box<dyn Delivery>>,
    /// What the user says to it as it is taken up.
    pub say: Option<String>,
    /// What people want of it.
    pub orders: mpsc::Receiver<Order>,
    /// Who watches. The job waits for a slow watcher.
    pub notices: mpsc::Sender<Notice>,
}

/// The models of the roles.
#[derive(Clone)]
pub struct Models {
    /// Plans, directs and judges.
    pub orchestrator: Arc<dyn Model>,
    /// Writes code.
    pub coder: Arc<dyn Model>,
}

impl Models {
    pub(crate) fn of(&self, role: Role) -> Arc<dyn Model> {
        match role {
            Role::Orchestrator => Arc::clone(&self.orchestrator),
            Role::Coder => Arc::clone(&self.coder),
        }
    }
}

/// Something that takes the result while the sandbox is still there.
pub trait Delivery: Send + Sync {
    /// Takes it. An error is told to the user, and the work does not count as
    /// handed over.
    fn deliver<'a>(
        &'a self,
        files: Files,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// What people want of a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// It is to stop.
    Cancel(Cancel),
    /// The orchestrator is to hear this.
    Say(String),
}

/// What happens in a job, for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An event, now durable.
    Record(Box<Record>),
    /// A piece of an answer that is still coming; it may yet come to nothing.
    Delta {
        /// The conversation.
        thread: ThreadId,
        /// The piece.
        delta: Delta,
    },
    /// Output of a tool that still runs. Pieces are left out when nobody keeps
    /// up; the event at its end has what counts.
    Output {
        /// The call.
        call: CallId,
        /// The bytes.
        bytes: Bytes,
    },
}

/// Why a job could not be driven to its end. What was durable before is still so.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Its log cannot be written.
    #[error("the job's log cannot be written")]
    Journal(#[from] JournalError),
    /// A task of ours broke.
    #[error("a part of the job broke: {0}")]
    Broken(String),
}

/// Drives a job from where it is to its end.
///
/// # Errors
/// When its log can no longer be written. The sandbox is closed all the same, so
/// that the workspace has what was done.
pub async fn drive(driver: Driver, journal: Journal) -> Result<Ending, DriveError> {
    let mut drive = Drive::new(driver, journal);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let say = drive.driver.say.take();
    let mut input = Input::TakeUp { version, collected: Vec::new(), say };
    loop {
        match drive.hear(input).await {
            Ok(Some(ending)) => return Ok(ending),
            Ok(None) => {}
            Err(error) => {
                drive.stop().await;
                drive.close().await.ok();
                return Err(error);
            }
        }
        input = drive.next_input().await;
    }
}

struct Drive {
    driver: Driver,
    work: JoinSet<Done>,
    /// The log, but for the moments when a thread writes to it.
    journal: Option<Journal>,
    sandbox: Option<Arc<Sandbox>>,
    /// Whether it is known that the sandbox's guest is gone.
    lost: bool,
    tools: Option<Arc<Tools>>,
    /// The questions that are under way.
    asked: BTreeMap<RequestId, (Role, Meter)>,
    clock: Clock,
    wakes: BTreeSet<Timestamp>,
    /// What has happened and was not heard yet.
    unheard: VecDeque<Input>,
}

impl Drive {
    fn new(driver: Driver, journal: Journal) -> Self {
        let last_event = driver.records.last().map_or(Timestamp(0), |record| record.at);
        Self {
            clock: Clock::start(last_event),
            driver,
            work: JoinSet::new(),
            journal: Some(journal),
            sandbox: None,
            lost: false,
            tools: None,
            asked: BTreeMap::new(),
            wakes: BTreeSet::new(),
            unheard: VecDeque::new(),
        }
    }

    /// Has the engine hear an input; everything that follows is durable, then
    /// shown, then begun. The ending, once the job is over.
    async fn hear(&mut self, input: Input) -> Result<Option<Ending>, DriveError> {
        let now = self.clock.now();
        let step = step(&mut self.driver.run, &self.driver.settings, now, input);
        let records = self.append(now, step.events).await?;
        for record in records {
            self.driver.records.push(record.clone());
            // Nobody may be watching.
            self.driver.notices.send(Notice::Record(Box::new(record))).await.ok();
        }
        for effect in step.effects {
            self.perform(effect).await;
        }
        Ok(self.driver.run.ended().cloned())
    }

    /// The log waits for the disk in a thread of its own: a disk that hangs must
    /// not keep anybody from interrupting us.
    async fn append(
        &mut self,
        now: Timestamp,
        events: Vec<cofferdam_types::Event>,
    ) -> Result<Vec<Record>, DriveError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let Some(mut journal) = self.journal.take() else {
            return Err(DriveError::Broken("the log was lost".to_owned()));
        };
        let appended = tokio::task::spawn_blocking(move || {
            let records = journal.append(now, events);
            (journal, records)
        });
        let (journal, records) =
            appended.await.map_err(|error| DriveError::Broken(error.to_string()))?;
        self.journal = Some(journal);
        Ok(records?)
    }

    /// What happens next.
    async fn next_input(&mut self) -> Input {
        loop {
            if let Some(input) = self.unheard.pop_front() {
                return input;
            }
            let wake = self.wakes.first().map(|at| at.since(self.clock.now()));
            let guest = self.sandbox.as_ref().map(|sandbox| sandbox.guest());
            let guest = guest.filter(|_| !self.lost);
            tokio::select! {
                biased;
                Some(order) = self.driver.orders.recv() => return match order {
                    Order::Cancel(by) => Input::Cancel { by },
                    Order::Say(text) => Input::UserSaid { text },
                },
                Some(done) = self.work.join_next() => {
                    if let Some(input) = self.finished(done) {
                        return input;
                    }
                }
                () = tokio::time::sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() => {
                    let now = self.clock.now();
                    self.wakes.retain(|at| *at > now);
                    return Input::Woken;
                }
                reason = lost(guest.as_deref()), if guest.is_some() => {
                    self.lost = true;
                    return Input::SandboxFailed { reason };
                }
            }
        }
    }

    fn finished(&mut self, done: Result<Done, tokio::task::JoinError>) -> Option<Input> {
        match done {
            Ok(Done::Heard(input)) => {
                if let Input::ModelAnswered { request, .. } | Input::ModelFailed { request, .. } =
                    &input
                {
                    self.asked.remove(request);
                }
                Some(input)
            }
            Ok(Done::Opened(Ok(sandbox))) => {
                let input = work::opened(&sandbox);
                let sandbox = Arc::new(*sandbox);
                let outputs = cofferdam_tools::Outputs::in_directory(self.driver.outputs.clone());
                let tools = Tools::new(Arc::clone(&sandbox), Arc::new(outputs));
                self.tools = Some(Arc::new(tools));
                self.sandbox = Some(sandbox);
                Some(input)
            }
            Ok(Done::Opened(Err(reason))) => Some(Input::SandboxFailed { reason }),
            Err(error) if error.is_cancelled() => None,
            // A task that panicked takes its effect's answer with it: without an
            // answer the job would wait for ever.
            Err(error) => {
                Some(Input::Broken { reason: format!("a part of the program broke: {error}") })
            }
        }
    }

    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::OpenSandbox => {
                let backend = Arc::clone(&self.driver.backend);
                let place = self.driver.run.spec().place.clone();
                self.work.spawn(work::open(backend, place));
            }
            Effect::Prepare => match self.sandbox.clone() {
                Some(sandbox) => {
                    self.work.spawn(work::prepare(sandbox));
                }
                None => self.unheard.push_back(no_sandbox()),
            },
            Effect::AskModel { request, thread, role, max_output } => {
                let question = work::question(&self.driver, thread, role, max_output);
                let model = self.driver.models.of(role);
                let notices = self.driver.notices.clone();
                let meter = Meter::default();
                self.asked.insert(request, (role, meter.clone()));
                self.work.spawn(async move {
                    Done::Heard(ask(model, question, (request, thread), meter, notices).await)
                });
            }
            Effect::RunTool { call, thread, tool } => match &self.tools {
                Some(tools) => {
                    let notices = self.driver.notices.clone();
                    self.work.spawn(work::run(Arc::clone(tools), call, thread, tool, notices));
                }
                None => self.unheard.push_back(no_sandbox()),
            },
            Effect::Check => {
                let spec = self.driver.run.spec();
                let (place, checks) = (spec.place.clone(), spec.checks.clone());
                let backend = Arc::clone(&self.driver.backend);
                match self.sandbox.clone() {
                    Some(sandbox) => {
                        self.work.spawn(async move {
                            let results = check(backend, sandbox, place, checks).await;
                            Done::Heard(Input::Checked { results })
                        });
                    }
                    None => self.unheard.push_back(no_sandbox()),
                }
            }
            Effect::WakeAt(at) => {
                self.wakes.insert(at);
            }
            Effect::Deliver => {
                self.stop().await;
                self.bill();
                self.deliver().await;
            }
        }
    }

    /// Stops whatever is under way, and waits until it has stopped.
    async fn stop(&mut self) {
        self.wakes.clear();
        self.unheard.clear();
        self.work.shutdown().await;
        self.tools = None;
    }

    /// What answers that nobody waits for any more had used is paid for too.
    fn bill(&mut self) {
        for (request, (role, meter)) in std::mem::take(&mut self.asked) {
            let tokens = meter.read();
            if tokens.total() > 0 {
                self.unheard.push_back(Input::ModelUsed { request, role, tokens });
            }
        }
    }

    /// Hands over what there is: to whoever else wants it, then to the workspace.
    async fn deliver(&mut self) {
        let mut problem = self.open_for_delivery().await.err();
        let mut changes = Vec::new();
        if let Some(sandbox) = self.sandbox.as_ref().filter(|_| !self.lost) {
            let place = &self.driver.run.spec().place;
            let comparing = work::changes(&*self.driver.backend, sandbox, place);
            match work::in_time("comparing the files", comparing).await {
                Ok(found) => {
                    changes = found.files;
                    self.unheard.extend(found.incomplete.map(|why| Input::Note {
                        text: format!("the list of changes is not complete: {why}"),
                    }));
                }
                Err(reason) => {
                    let text = format!("what has changed cannot be listed: {reason}");
                    self.unheard.push_back(Input::Note { text });
                }
            }
            if let Some(delivery) = &self.driver.delivery {
                let delivering = delivery.deliver(sandbox.files(), &self.driver.records);
                problem = work::in_time("packing the result", delivering).await.err().or(problem);
            }
        }
        if let Err(reason) = self.close().await {
            problem = Some(problem.map_or(reason.clone(), |first| format!("{first}; {reason}")));
        }
        self.unheard.push_back(Input::Delivered { changes, problem });
    }

    /// A job that was taken up only to be handed over has no sandbox yet.
    async fn open_for_delivery(&mut self) -> Result<(), String> {
        let wanted = self.sandbox.is_none()
            && self.driver.delivery.is_some()
            && !matches!(self.driver.run.ending(), Some(Ending::SandboxUnavailable { .. }));
        if wanted {
            let backend = Arc::clone(&self.driver.backend);
            let place = self.driver.run.spec().place.clone();
            if let Done::Opened(opened) = work::open(backend, place).await {
                self.sandbox = Some(Arc::new(*opened?));
            }
        }
        Ok(())
    }

    /// Closes the sandbox, which brings its changes to the workspace.
    async fn close(&mut self) -> Result<(), String> {
        let Some(sandbox) = self.sandbox.take() else { return Ok(()) };
        let Some(sandbox) = Arc::into_inner(sandbox) else {
            return Err("the sandbox is still in use".to_owned());
        };
        let closing = async { sandbox.close().await.map_err(|error| error_chain(&error)) };
        work::in_time("closing the sandbox", closing).await
    }
}

fn no_sandbox() -> Input {
    Input::SandboxFailed { reason: "the sandbox is gone".to_owned() }
}

async fn lost(guest: Option<&cofferdam_sandbox::GuestClient>) -> String {
    let Some(guest) = guest else { return std::future::pending().await };
    guest.ended().await;
    guest.lost().unwrap_or_else(|| "the sandbox is gone".to_owned())
}
