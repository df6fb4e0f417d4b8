//! A job's state, computed from its events and from nothing else.

use std::time::Duration;

use cofferdam_context::{Conversation, Counting};
use cofferdam_types::{
    CallId, Cancel, CheckResult, Ending, Event, Instructions, JobSpec, LOG_VERSION, ModelName,
    PlanStep, Record, Role, SandboxId, Skill, Spent, ThreadId, Timestamp,
};

use crate::thread::{CallState, Thread};

/// A job's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub(crate) spec: JobSpec,
    pub(crate) stage: Stage,
    pub(crate) sandbox: Option<SandboxId>,
    /// The one it had last, whether or not the process that works on it has one yet.
    pub(crate) last_sandbox: Option<SandboxId>,
    /// The events by which it was taken up since then, and its models told so.
    pub(crate) interruptions: Vec<u64>,
    /// The image that its own files ask for, once that is known.
    pub(crate) image: Option<String>,
    /// What the workspace says, once it was looked at.
    pub(crate) prepared: Option<(Vec<Instructions>, Vec<Skill>)>,
    /// The conversations; the place of each is its id.
    pub(crate) threads: Vec<Thread>,
    pub(crate) requests_made: u32,
    pub(crate) calls_made: u64,
    pub(crate) plan: Vec<PlanStep>,
    /// How often work was handed in to the checks.
    pub(crate) hand_ins: u32,
    pub(crate) checks: Checks,
    pub(crate) cancelled: Option<Cancel>,
    /// Whether it is to rest.
    pub(crate) paused: bool,
    /// Whether the process that works on it is about to stop.
    pub(crate) held: bool,
    pub(crate) spent: Spent,
    /// When the last event was, and its number.
    pub(crate) last_event: Timestamp,
    pub(crate) last_seq: u64,
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nobody works on it yet.
    Created,
    /// A process works on it.
    Working,
    /// How it ends is decided; what there is, is being handed over.
    Ending(Ending),
    /// It is over.
    Ended(Ending),
}

/// Where the checks of the last hand-in are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    /// Nothing is to be checked.
    Idle,
    /// They run.
    Running,
    /// This came of them, and nobody has acted on it yet.
    Ended(Vec<CheckResult>),
}

/// Why events are not the log of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// There are none.
    Empty,
    /// The first is not that of a job's creation.
    NoBeginning,
    /// An event is missing or doubled.
    Gap {
        /// The number that should have come.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// A later release wrote it.
    Newer {
        /// The version of its format.
        version: u32,
    },
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(formatter, "the log is empty"),
            Self::NoBeginning => write!(formatter, "the log does not begin with its job"),
            Self::Gap { expected, found } => {
                write!(formatter, "event {expected} should follow, and event {found} does")
            }
            Self::Newer { version } => write!(
                formatter,
                "the log has format {version}; this release knows formats up to {LOG_VERSION}"
            ),
        }
    }
}

impl std::error::Error for ReplayError {}

impl Run {
    /// A job that was just asked for. Its first event is [`Event::Created`] with
    /// the same `spec`.
    #[must_use]
    pub fn new(spec: JobSpec, at: Timestamp) -> Self {
        let opening = Thread::new(Role::Orchestrator, &spec.task, None, 1);
        Self {
            spec,
            stage: Stage::Created,
            sandbox: None,
            last_sandbox: None,
            interruptions: Vec::new(),
            image: None,
            prepared: None,
            threads: vec![opening],
            requests_made: 0,
            calls_made: 0,
            plan: Vec::new(),
            hand_ins: 0,
            checks: Checks::Idle,
            cancelled: None,
            paused: false,
            held: false,
            spent: Spent::default(),
            last_event: at,
            last_seq: 1,
        }
    }

    /// The state that a log leads to, wherever it ends.
    ///
    /// # Errors
    /// When the records are not the beginning of a job's log.
    pub fn replay<'a>(records: impl IntoIterator<Item = &'a Record>) -> Result<Self, ReplayError> {
        let mut records = records.into_iter();
        let mut run = Self::begin(records.next().ok_or(ReplayError::Empty)?)?;
        for record in records {
            run.follow(record)?;
        }
        Ok(run)
    }

    /// The state after the first record of a log, for whoever has the log piece by piece.
    ///
    /// # Errors
    /// When a job's log does not begin so.
    pub fn begin(first: &Record) -> Result<Self, ReplayError> {
        check_place(first, 1)?;
        match &first.event {
            Event::Created { spec } => Ok(Self::new(JobSpec::clone(spec), first.at)),
            _ => Err(ReplayError::NoBeginning),
        }
    }

    /// Takes in the next record of a log.
    ///
    /// # Errors
    /// When another one should follow.
    pub fn follow(&mut self, record: &Record) -> Result<(), ReplayError> {
        check_place(record, self.last_seq + 1)?;
        self.apply(record.at, &record.event);
        Ok(())
    }

    /// When the last event was.
    #[must_use]
    pub fn last_event(&self) -> Timestamp {
        self.last_event
    }

    /// The number of the last event.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// What was asked for.
    #[must_use]
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// What was used up to the last event.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<&Ending> {
        match &self.stage {
            Stage::Ended(ending) => Some(ending),
            _ => None,
        }
    }

    /// How it ends, once that is decided.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        match &self.stage {
            Stage::Ending(ending) | Stage::Ended(ending) => Some(ending),
            _ => None,
        }
    }

    /// Whether it rests, or will when nothing is under way any more.
    #[must_use]
    pub fn paused(&self) -> bool {
        self.paused && self.stage == Stage::Working
    }

    /// Begins nothing new from here on, because this process is about to stop:
    /// what is under way is still heard. Not part of the log.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// The key of the image that its own files ask for, once that is known: it stays the same.
    #[must_use]
    pub fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// Whether the workspace was looked at: whatever it begins with is there.
    #[must_use]
    pub fn prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// The calls that tools were given and that have not ended, as far as the
    /// log knows.
    #[must_use]
    pub fn open_calls(&self) -> Vec<CallId> {
        let delegated = |call: CallId| self.threads.iter().any(|coder| coder.serves == Some(call));
        let calls = self.threads.iter().flat_map(|thread| &thread.calls);
        let open = calls.filter(|pending| pending.state == CallState::Running);
        open.map(|pending| pending.call).filter(|call| !delegated(*call)).collect()
    }

    /// The plan as it is now.
    #[must_use]
    pub fn plan(&self) -> &[PlanStep] {
        &self.plan
    }

    /// A conversation as its model sees it.
    #[must_use]
    pub fn conversation(&self, thread: ThreadId) -> Option<&Conversation> {
        self.thread(thread).map(|thread| &thread.context)
    }

    /// How many questions of a role came to an end in a conversation.
    #[must_use]
    pub fn earlier(&self, thread: ThreadId, role: Role) -> u32 {
        self.thread(thread).map_or(0, |thread| thread.heard(role))
    }

    /// How the tokens of a role's conversations are known before its provider counts them.
    #[must_use]
    pub fn counting(&self, role: Role) -> Counting {
        Counting::of(self.model(role))
    }

    /// The conversations that there are, the orchestrator's first.
    pub fn conversations(&self) -> impl Iterator<Item = (ThreadId, Role)> {
        self.numbered_threads().map(|(id, thread)| (id, thread.role))
    }

    /// The time that processes have worked on it, up to this moment.
    pub(crate) fn elapsed(&self, now: Timestamp) -> Duration {
        self.spent.time + now.since(self.last_event)
    }

    pub(crate) fn thread(&self, id: ThreadId) -> Option<&Thread> {
        self.threads.get(id.0 as usize)
    }

    pub(crate) fn thread_mut(&mut self, id: ThreadId) -> Option<&mut Thread> {
        self.threads.get_mut(id.0 as usize)
    }

    /// The conversations with their ids.
    pub(crate) fn numbered_threads(&self) -> impl Iterator<Item = (ThreadId, &Thread)> {
        (0..).map(ThreadId).zip(&self.threads)
    }

    pub(crate) fn model(&self, role: Role) -> &ModelName {
        match role {
            Role::Orchestrator => &self.spec.orchestrator,
            Role::Coder => &self.spec.coder,
            Role::Summariser => self.spec.summariser.as_ref().unwrap_or(&self.spec.orchestrator),
        }
    }
}

fn check_place(record: &Record, expected: u64) -> Result<(), ReplayError> {
    if record.v > LOG_VERSION {
        return Err(ReplayError::Newer { version: record.v });
    }
    if record.seq != expected {
        return Err(ReplayError::Gap { expected, found: record.seq });
    }
    Ok(())
}
