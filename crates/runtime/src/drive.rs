//! The loop that drives a job: wait for something to happen, have the engine
//! decide, make its events durable, do what it says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cofferdam_engine::{DIGEST, Effect, Input, step};
use cofferdam_sandbox::{Lifetime, Sandbox};
use cofferdam_store::OrderId;
use cofferdam_tools::Tools;
use cofferdam_types::{Event, RequestId, Role, Timestamp, Tokens};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::ask::{Meter, ask};
use crate::check::check;
use crate::clock::Clock;
use crate::driver::{DriveError, Driven, Driver, Notice, Order, OrderKind, Origin};
use crate::fail_point::fail_point;
use crate::listen;
use crate::log::Log;
use crate::memory::{self, Memory};
use crate::spans;
use crate::work::{self, Done};

/// Drives a job from where it is until it ends, rests, or is left.
///
/// # Errors
/// When its log can no longer be written. A sandbox that is owned is closed all the
/// same, so that the workspace has what was done; one that lingers is left to
/// whoever drives the job next.
pub async fn drive(driver: Driver, log: impl Log + 'static) -> Result<Driven, DriveError> {
    let mut drive = Drive::new(driver, Box::new(log));
    let Some(collected) = drive.adopt().await else {
        drive.leave().await;
        return Ok(Driven::Left);
    };
    let opening = std::mem::take(&mut drive.driver.opening);
    let mut heard = opening.heard;
    let mut input = Input::TakeUp {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        collected,
        say: opening.say,
        finish: opening.finish,
    };
    loop {
        let driven = drive.hear(input, heard.take()).await;
        let driven = match driven {
            Ok(None) if drive.rests() => Ok(Some(drive.rest().await)),
            driven => driven,
        };
        match driven {
            Ok(Some(driven)) => return Ok(driven),
            Ok(None) => {}
            Err(error) => {
                drive.taken |= error.is_lost();
                drive.give_up().await;
                return Err(error);
            }
        }
        match drive.next().await {
            Next::Input(next) => input = next,
            Next::Order(order) => match drive.input_of(order) {
                Some((next, stored)) => (input, heard) = (next, stored),
                None => input = Input::Woken,
            },
            Next::Leave => {
                drive.leave().await;
                return Ok(Driven::Left);
            }
        }
    }
}

/// How long visitors of a sandbox that is left are waited for.
const FAREWELL: Duration = Duration::from_secs(1);

/// What is told of an image that is being made and not heard yet; more of it is missed.
const STEPS: usize = 16;

/// What happens next.
enum Next {
    Input(Input),
    Order(Order),
    /// It is time to go.
    Leave,
}

pub(crate) struct Drive {
    pub(crate) driver: Driver,
    pub(crate) work: JoinSet<Done>,
    /// What the job can look things up in, and whoever fills that.
    pub(crate) memory: Arc<Memory>,
    pub(crate) filling: JoinSet<()>,
    log: Box<dyn Log>,
    pub(crate) sandbox: Option<Arc<Sandbox>>,
    /// Whether it is known that the sandbox's guest is gone.
    pub(crate) lost: bool,
    pub(crate) tools: Option<Arc<Tools>>,
    /// What is told of the image that is being made.
    steps: (mpsc::Sender<String>, mpsc::Receiver<String>),
    /// Waits until other ports are listened on in the sandbox than those last told.
    listening: JoinSet<Vec<u16>>,
    /// How often that was waited for.
    listened: u32,
    /// The questions that are under way.
    asked: BTreeMap<RequestId, (Role, Meter)>,
    pub(crate) clock: Clock,
    wakes: BTreeSet<Timestamp>,
    /// What has happened and was not heard yet.
    pub(crate) unheard: VecDeque<Input>,
    /// Orders that came before the job was taken up.
    pub(crate) early: VecDeque<Order>,
    /// When this process goes, whatever is under way then.
    leaves: Option<Instant>,
    /// Whether another process has the job by now.
    pub(crate) taken: bool,
    /// The event of a model's last answer.
    pub(crate) last_answer: u64,
    /// Whether a conversation was just shortened.
    pub(crate) was_cut: bool,
}

impl Drive {
    fn new(mut driver: Driver, log: Box<dyn Log>) -> Self {
        if let Some(image) = driver.run.image() {
            driver.place.image = Some(image.into());
        }
        let (past, indexes) = (Arc::clone(&driver.past), Arc::clone(&driver.indexes));
        let memory = Memory::new(past, indexes, driver.directory.clone())
            .with_embedder(driver.embedder.clone());
        Self {
            clock: Clock::start(driver.run.last_event()),
            last_answer: driver.run.last_seq(),
            was_cut: false,
            driver,
            work: JoinSet::new(),
            memory: Arc::new(memory),
            filling: JoinSet::new(),
            log,
            sandbox: None,
            lost: false,
            tools: None,
            steps: mpsc::channel(STEPS),
            listening: JoinSet::new(),
            listened: 0,
            asked: BTreeMap::new(),
            wakes: BTreeSet::new(),
            unheard: VecDeque::new(),
            early: VecDeque::new(),
            leaves: None,
            taken: false,
        }
    }

    /// Has the engine hear an input; everything that follows is durable, then
    /// shown, then begun. The ending, once the job is over.
    async fn hear(
        &mut self,
        input: Input,
        heard: Option<OrderId>,
    ) -> Result<Option<Driven>, DriveError> {
        let now = self.clock.now();
        let late = words_too_late(&input);
        let mut step = step(&mut self.driver.run, &self.driver.settings, now, input);
        if heard.is_some() && step.events.is_empty() {
            // Whoever gave the order is told that nothing came of it.
            let note = Event::Noted { text: late };
            self.driver.run.apply(now, &note);
            step.events.push(note);
        }
        if step.events.iter().any(|event| matches!(event, Event::Ended { .. })) {
            fail_point("completing");
        }
        self.append(now, step.events, heard).await?;
        self.after_cut().await;
        for effect in step.effects {
            self.perform(effect).await;
        }
        Ok(self.driver.run.ended().cloned().map(Driven::Ended))
    }

    async fn append(
        &mut self,
        now: Timestamp,
        events: Vec<Event>,
        heard: Option<OrderId>,
    ) -> Result<(), DriveError> {
        if events.is_empty() {
            return Ok(());
        }
        let records = self.log.append(now, events, heard).await.map_err(DriveError::Log)?;
        for record in records {
            match &record.event {
                Event::ToolStarted { .. } => fail_point("tool-intent"),
                Event::TakenUp { .. } => fail_point("taken-up"),
                Event::CancelAsked { .. } => fail_point("cancelling"),
                Event::Paused => fail_point("pausing"),
                Event::ContextCut { thread, .. } => {
                    if let Some(tools) = &self.tools {
                        tools.shortened(*thread);
                    }
                }
                // The sandbox may forget it now.
                Event::ToolEnded { call, .. } => {
                    if let Some(tools) = &self.tools {
                        tools.acknowledge(*call);
                    }
                }
                _ => {}
            }
            self.note(&record);
            // Nobody may be watching.
            self.driver.notices.send(Notice::Record(Box::new(record))).await.ok();
        }
        Ok(())
    }

    /// What happens next.
    async fn next(&mut self) -> Next {
        loop {
            if let Some(order) = self.early.pop_front() {
                return Next::Order(order);
            }
            // Before what has happened: it may be the end, after which nobody hears.
            if let Ok(order) = self.driver.orders.try_recv() {
                return Next::Order(order);
            }
            if let Some(input) = self.unheard.pop_front() {
                return Next::Input(input);
            }
            if self.leaves.is_some() && self.asked.is_empty() {
                return Next::Leave;
            }
            let wake = self.wakes.first().map(|at| at.since(self.clock.now()));
            let guest = self.sandbox.as_ref().map(|sandbox| sandbox.guest());
            let guest = guest.filter(|_| !self.lost);
            let leaves = self.leaves;
            tokio::select! {
                biased;
                Some(order) = self.driver.orders.recv() => return Next::Order(order),
                Some(step) = self.steps.1.recv() => {
                    return Next::Input(Input::ImageStep { step });
                }
                Some(done) = self.work.join_next() => {
                    if let Some(input) = self.finished(done).await {
                        return Next::Input(input);
                    }
                }
                () = tokio::time::sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() => {
                    let now = self.clock.now();
                    self.wakes.retain(|at| *at > now);
                    return Next::Input(Input::Woken);
                }
                Some(Ok(ports)) = self.listening.join_next() => {
                    self.listen(ports.clone());
                    return Next::Input(Input::Listening { ports });
                }
                () = until(leaves), if leaves.is_some() => return Next::Leave,
                reason = lost(guest.as_deref()), if guest.is_some() => {
                    self.lost = true;
                    return Next::Input(Input::SandboxFailed { reason });
                }
            }
        }
    }

    /// The input that an order is; nothing for one that concerns this process alone.
    fn input_of(&mut self, order: Order) -> Option<(Input, Option<OrderId>)> {
        let input = match order.wish {
            OrderKind::Cancel(by) => Input::Cancel { by },
            OrderKind::Say(text) => Input::UserSaid { text },
            OrderKind::Pause => Input::Pause,
            OrderKind::Resume(say) => Input::Resume { say },
            OrderKind::Leave(at) => {
                self.driver.run.hold();
                self.leaves = Some(at);
                return None;
            }
            OrderKind::Lost => {
                self.driver.run.hold();
                (self.taken, self.leaves) = (true, Some(Instant::now()));
                return None;
            }
        };
        Some((input, order.stored))
    }

    async fn finished(&mut self, done: Result<Done, tokio::task::JoinError>) -> Option<Input> {
        match done {
            Ok(Done::Heard(input)) => {
                match &input {
                    Input::ModelAnswered { request, .. } => {
                        fail_point("model-answered");
                        self.asked.remove(request);
                    }
                    Input::ModelFailed { request, .. } => {
                        self.asked.remove(request);
                    }
                    Input::ToolEnded { .. } => fail_point("tool-ended"),
                    Input::ImageReady { image } => {
                        fail_point("image-made");
                        self.driver.place.image = Some(image.into());
                    }
                    _ => {}
                }
                Some(input)
            }
            Ok(Done::Opened(Ok(sandbox))) => {
                if let Err(error) = sandbox.keep().await {
                    // It is gone, which whoever works in it is told.
                    tracing::warn!(%error, "a sandbox cannot be kept");
                }
                let input = work::opened(&sandbox);
                self.settle(*sandbox).await;
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

    /// Works in this sandbox from here on.
    pub(crate) async fn settle(&mut self, sandbox: Sandbox) {
        let sandbox = Arc::new(sandbox);
        let outputs = cofferdam_tools::Outputs::in_directory(self.driver.directory.join("outputs"));
        let tools = Tools::new(Arc::clone(&sandbox), Arc::new(outputs));
        let tools = tools.with_aide(self.aide().cloned());
        self.driver.door.open(Arc::clone(&sandbox), tools.hands()).await;
        self.tools = Some(Arc::new(tools));
        self.sandbox = Some(sandbox);
        self.listen(Vec::new());
    }

    /// Notices when other ports than these are listened on.
    fn listen(&mut self, known: Vec<u16>) {
        if let (Some(sandbox), Some(tools)) = (&self.sandbox, &self.tools) {
            let (sandbox, tools) = (Arc::clone(sandbox), Arc::clone(tools));
            self.listening.spawn(listen::changed(sandbox, tools, known, self.listened));
            self.listened += 1;
        }
    }

    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::MakeImage => {
                let known = self.driver.run.image().map(str::to_owned);
                match (&self.driver.images, known) {
                    // A sandbox that was taken up has it.
                    (_, Some(image)) if self.sandbox.is_some() => {
                        self.unheard.push_back(Input::ImageReady { image });
                    }
                    (Some(images), known) => {
                        let (images, tell) = (Arc::clone(images), self.steps.0.clone());
                        self.work.spawn(work::make_image(images, known, tell));
                    }
                    (None, _) => {
                        let reason = "nobody here makes images of what jobs need".to_owned();
                        self.unheard.push_back(Input::SandboxFailed { reason });
                    }
                }
            }
            Effect::OpenSandbox => match &self.sandbox {
                Some(adopted) => self.unheard.push_back(work::opened(adopted)),
                None => {
                    let backend = Arc::clone(&self.driver.backend);
                    let spec = self.workplace();
                    let seed = match &self.driver.origin {
                        Origin::Seed(seed) if self.driver.replant => Some(Arc::clone(seed)),
                        _ => None,
                    };
                    let variables = self.driver.place.variables.clone();
                    self.work.spawn(work::open_planted(backend, spec, variables, seed));
                }
            },
            Effect::Prepare => match self.sandbox.clone() {
                Some(sandbox) => {
                    self.work.spawn(work::prepare(sandbox, self.driver.origin.clone()));
                }
                None => self.unheard.push_back(no_sandbox()),
            },
            Effect::AskModel { request, thread, role, max_output } => {
                let (question, piece) = work::question(&self.driver, thread, role, max_output);
                let memory = Arc::clone(&self.memory);
                let model = self.driver.models.of(role);
                let notices = self.driver.notices.clone();
                let meter = Meter::default();
                self.asked.insert(request, (role, meter.clone()));
                let span = spans::turn(model.name(), max_output);
                let asking = async move {
                    let question = match piece {
                        Some(piece) => work::with_piece(&memory, question, piece).await,
                        None => Ok(question),
                    };
                    let input = match question {
                        Ok(question) => {
                            ask(model, question, (request, thread), meter, notices).await
                        }
                        Err(failure) => {
                            Input::ModelFailed { request, failure, tokens: Tokens::default() }
                        }
                    };
                    spans::answered(&Span::current(), &input);
                    Done::Heard(input)
                };
                self.work.spawn(asking.instrument(span));
            }
            Effect::RunTool { call, tool, .. } if tool.name == DIGEST => {
                // Half of what its reader can take in, at the usual four bytes a token.
                let piece = self.driver.settings.summariser.window * 2;
                let (memory, sandbox) = (Arc::clone(&self.memory), self.sandbox.clone());
                self.work.spawn(work::load(memory, sandbox, call, tool, piece));
            }
            Effect::RunTool { call, tool, .. } if tool.name == memory::NAME => {
                self.recall(call, tool);
            }
            Effect::RunTool { call, thread, tool } => match &self.tools {
                Some(tools) => {
                    let notices = self.driver.notices.clone();
                    let span = spans::tool(&tool.name, call);
                    let running = work::run(Arc::clone(tools), call, thread, tool, notices);
                    self.work.spawn(running.instrument(span));
                }
                None => self.unheard.push_back(no_sandbox()),
            },
            Effect::Recall { thread, words } => self.offer(thread, words),
            Effect::Check => {
                let place = self.driver.place.clone();
                let checks = self.driver.run.spec().checks.clone();
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
        // First: the commands of the job end here, also those in the background, and whoever
        // looks at what one of them serves is to know why.
        self.driver.door.shut();
        self.wakes.clear();
        self.unheard.clear();
        self.filling.shutdown().await;
        self.listening.shutdown().await;
        self.work.abort_all();
        while let Some(done) = self.work.join_next().await {
            // One that was just made has to be closed like any other: it would linger.
            if let (Ok(Done::Opened(Ok(sandbox))), None) = (done, &self.sandbox) {
                self.sandbox = Some(Arc::new(*sandbox));
            }
        }
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

    /// Whether the job rests now: it is to, and nothing is under way.
    fn rests(&self) -> bool {
        self.driver.run.paused() && self.work.is_empty() && self.unheard.is_empty()
    }

    async fn rest(&mut self) -> Driven {
        self.stop().await;
        if let (Some(delivery), Some(sandbox)) = (&self.driver.delivery, &self.sandbox) {
            let resting = work::in_time("keeping the trail", delivery.rest(sandbox));
            if let Err(reason) = resting.await {
                tracing::warn!(reason, "the trail of a job that rests is lost");
            }
        }
        // What cannot be brought home now is brought home by whoever opens the
        // directory next.
        self.close().await.ok();
        fail_point("resting");
        Driven::Resting
    }

    /// Whether the sandbox is for the next process that has the job. One that has it
    /// already has another.
    fn leaves_sandbox(&self) -> bool {
        self.driver.lifetime != Lifetime::Owned && !self.taken
    }

    /// Leaves the job to the next process: what runs in the sandbox runs on.
    async fn leave(&mut self) {
        if !self.leaves_sandbox() {
            return self.give_up().await;
        }
        if let Some(sandbox) = &self.sandbox {
            sandbox.leave();
        }
        self.stop().await;
        // Visitors have lost their connection too, and are gone soon.
        tokio::time::timeout(FAREWELL, self.driver.door.close()).await.ok();
        self.sandbox = None;
    }

    /// The log cannot be written: nothing more can be done.
    async fn give_up(&mut self) {
        if self.leaves_sandbox() {
            return Box::pin(self.leave()).await;
        }
        self.stop().await;
        self.close().await.ok();
    }
}

fn no_sandbox() -> Input {
    Input::SandboxFailed { reason: "the sandbox is gone".to_owned() }
}

/// What an order's input is called in a note, if nothing comes of it.
fn words_too_late(input: &Input) -> String {
    match input {
        Input::UserSaid { text } => format!("said too late to be heard: {text}"),
        Input::Cancel { .. } => "asked to stop, and already stopping".to_owned(),
        Input::Pause => "asked to pause, and already ending or pausing".to_owned(),
        _ => "an order that nothing came of".to_owned(),
    }
}

pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn lost(guest: Option<&cofferdam_sandbox::GuestClient>) -> String {
    let Some(guest) = guest else { return std::future::pending().await };
    guest.ended().await;
    guest.lost().unwrap_or_else(|| "the sandbox is gone".to_owned())
}
