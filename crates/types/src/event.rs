//! The events of a job: its append-only, gapless log, and the only truth about
//! it. Everything else (state, screens, prompts, bills) is computed from it.
//!
//! A stored event never changes its meaning. A new need is a new variant, or a
//! new field with a default; a test reads lines that every earlier version wrote.
//!
//! Work is logged twice: the intent before it begins, the outcome before it is
//! acted on. An intent without an outcome is work in doubt.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Answer, Budget, CallId, Content, Cut, JobSpec, ModelName, Outcome, Reading, RequestId, Role,
    SandboxId, Span, ThreadId, Tokens, Usd,
};

/// The version of the log's format that is written.
pub const LOG_VERSION: u32 = 1;

/// A moment: milliseconds since 1970 in UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This long after.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; nothing if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// An event in its place in the log: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of the format, [`LOG_VERSION`] when it was written.
    pub v: u32,
    /// 1 for the first event, and one more for each that follows.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The job was asked for. The first event, and once only.
    Created {
        /// What was asked for.
        spec: Box<JobSpec>,
    },
    /// A process has taken the job up: at the beginning, after the one before it
    /// was gone, or because somebody wants a job that has ended to go on.
    TakenUp {
        /// The product's version.
        version: String,
        /// Whether that is only to hand over work that was done before.
        only_delivers: bool,
    },
    /// The image that the job's own files ask for is not there yet, and is being made.
    ImageStep {
        /// What is done for it now, in words.
        step: String,
    },
    /// It is there. The first of these fixes it, whatever becomes of those files.
    ImageReady {
        /// Its key: the name of its content.
        image: String,
    },
    /// The job's sandbox is there.
    SandboxOpened {
        /// Its name.
        sandbox: SandboxId,
        /// Its back end.
        backend: String,
        /// The isolation it really got.
        grade: String,
        /// What is weaker than it could be.
        weaknesses: Vec<String>,
    },
    /// What the workspace tells the models: conventions, never policy.
    Prepared {
        /// Instruction files, the most general first.
        instructions: Vec<Instructions>,
        /// Skills that can be read when they are needed.
        skills: Vec<Skill>,
    },
    /// The user said something while the job ran.
    UserSaid {
        /// The words.
        text: String,
    },
    /// A conversation with a coder began, because a call delegated to it; or the reading of
    /// something long.
    Delegated {
        /// The new conversation.
        thread: ThreadId,
        /// The call that waits for its result.
        call: CallId,
        /// What the coder was told, or what is to be found out.
        brief: String,
        /// What is to be read, where it is that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reading: Option<Reading>,
    },
    /// A model is about to be asked.
    ModelAsked {
        /// The conversation.
        thread: ThreadId,
        /// Names the question; one that is put again has a new name.
        request: RequestId,
        /// In which role.
        role: Role,
        /// Which model.
        model: ModelName,
        /// 1, and one more each time the same question is put again.
        attempt: u32,
        /// What is to be summarised, where it is that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        span: Option<Span>,
    },
    /// A model has answered, whole.
    ModelAnswered {
        /// The question.
        request: RequestId,
        /// The answer.
        answer: Answer,
        /// What it cost; `None` where the price is not known.
        cost: Option<Usd>,
    },
    /// A model has not answered.
    ModelFailed {
        /// The question.
        request: RequestId,
        /// Why not.
        failure: ModelFailure,
        /// What was used all the same, as far as the provider said.
        tokens: Tokens,
        /// What that cost.
        cost: Option<Usd>,
        /// When it is asked again; `None`: it is not.
        retry_at: Option<Timestamp>,
    },
    /// What an answer had used by the time nobody waited for it any more.
    ModelUsed {
        /// The question.
        request: RequestId,
        /// What was used, as far as the provider had said.
        tokens: Tokens,
        /// What that cost.
        cost: Option<Usd>,
    },
    /// A tool is about to run.
    ToolStarted {
        /// Names the call, here and in the sandbox.
        call: CallId,
        /// The conversation it came up in.
        thread: ThreadId,
        /// The provider's name for it in the answer that asked for it.
        id: String,
        /// Which tool.
        tool: String,
    },
    /// What became of a call. Calls that were refused never started.
    ToolEnded {
        /// The call.
        call: CallId,
        /// The conversation it came up in.
        thread: ThreadId,
        /// The provider's name for it.
        id: String,
        /// What became of it.
        output: ToolOutput,
    },
    /// The plan is now this.
    Planned {
        /// Its steps.
        steps: Vec<PlanStep>,
        /// What was decided on the way and has to hold to the end.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        decisions: Vec<String>,
    },
    /// The work was handed in; the checks are about to run, all of them, in a
    /// fork of the workspace.
    CheckStarted {
        /// Which hand-in, from 1.
        attempt: u32,
    },
    /// What the checks found.
    CheckEnded {
        /// Which hand-in.
        attempt: u32,
        /// One for each check that was run. They stop at the first that fails.
        results: Vec<CheckResult>,
    },
    /// The job may use up more, or less, from here on.
    BudgetChanged {
        /// What it may use up in all.
        budget: Budget,
    },
    /// The models are others from here on.
    ModelsChanged {
        /// The one that plans, directs and judges.
        orchestrator: ModelName,
        /// The one that writes code.
        coder: ModelName,
        /// The one that writes summaries, if that is another one now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summariser: Option<ModelName>,
    },
    /// A conversation has become shorter. What was cut stays in the log.
    ContextCut {
        /// The conversation.
        thread: ThreadId,
        /// How.
        cut: Cut,
        /// Bytes that pinned facts may take from here on.
        pinned: u64,
        /// About how many tokens its next question would have had, and has now.
        tokens: (u64, u64),
    },
    /// What was let go and may be needed next is about to be looked for.
    RecallAsked {
        /// The conversation.
        thread: ThreadId,
        /// What it is about now.
        words: String,
    },
    /// It was found, or not; it goes before the next question.
    Offered {
        /// The conversation.
        thread: ThreadId,
        /// The words; nothing, if nothing was found.
        text: String,
    },
    /// What can be connected to in the sandbox has changed.
    Listening {
        /// Every TCP port that is listened on now, in order.
        ports: Vec<u16>,
    },
    /// Something was cut, dropped, weakened or repeated, in words.
    Noted {
        /// What.
        text: String,
    },
    /// Somebody wants the job to rest. Nothing new is begun; it goes on when a
    /// process takes it up again.
    Paused,
    /// Somebody wants the job to go on, before it had come to rest.
    Resumed,
    /// Somebody wants the job to stop.
    CancelAsked {
        /// Who or what, in words.
        by: Cancel,
    },
    /// It is decided how the job ends; what there is, is being handed over.
    Ending {
        /// How.
        ending: Ending,
    },
    /// The job is over. Nothing follows, unless a process takes the job up again.
    Ended {
        /// How it ended.
        ending: Ending,
        /// What it used, all roles together.
        spent: Spent,
        /// The files that differ from when the job was last taken up.
        changes: Vec<FileChange>,
        /// What went wrong in handing over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delivery_problem: Option<String>,
    },
}

/// A file of instructions found in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// Its path in the workspace.
    pub path: String,
    /// What it says, cut to its limit.
    pub text: String,
    /// Whether it was cut.
    pub cut: bool,
}

/// A skill found in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// The file to read then.
    pub path: String,
}

/// Why a model has not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What is known of it, in words.
    pub message: String,
    /// How long the provider asks us to wait.
    #[serde(rename = "retry_after_ms", with = "crate::millis::option")]
    pub retry_after: Option<Duration>,
}

/// The kinds of failure of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Too many requests.
    RateLimited,
    /// The provider is overloaded or broken.
    Unavailable,
    /// It could not be reached.
    Unreachable,
    /// The stream ended before the answer did.
    Interrupted,
    /// Nothing came for too long.
    Stalled,
    /// What came makes no sense.
    Garbled,
    /// The process that had asked was gone before the answer was stored.
    Abandoned,
    /// The key is missing, wrong or not allowed to do this.
    Unauthorised,
    /// There is no such model.
    NoSuchModel,
    /// The conversation is too long for the model.
    TooLong,
    /// The provider will not take the request, and says so for good.
    Rejected,
}

impl FailureKind {
    /// Whether asking again may help.
    #[must_use]
    pub fn passes(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Unavailable
            | Self::Unreachable
            | Self::Interrupted
            | Self::Stalled
            | Self::Garbled
            | Self::Abandoned => true,
            Self::Unauthorised | Self::NoSuchModel | Self::TooLong | Self::Rejected => false,
        }
    }
}

/// What became of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// How it ended.
    pub status: ToolStatus,
    /// What the model sees of it.
    pub content: Vec<Content>,
    /// Where the rest is, if that is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
    /// How long it took.
    #[serde(rename = "took_ms", with = "crate::millis")]
    pub took: Duration,
}

impl ToolOutput {
    /// An output of text that took no time.
    pub fn text(status: ToolStatus, text: impl Into<String>) -> Self {
        Self { status, content: vec![Content::text(text)], rest: None, took: Duration::ZERO }
    }

    /// Its text, without pictures.
    #[must_use]
    pub fn plain_text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            Content::Text { text } => Some(text.as_str()),
            Content::Image { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did what it was meant to.
    Done,
    /// It ran and did not: a command with another exit code than 0, say.
    Failed,
    /// It was not run: no such tool, no sense in its arguments, or not allowed.
    Refused,
    /// It was begun, and what became of it is not known.
    Unknown,
    /// It was stopped because the job was.
    Cancelled,
}

/// Output that was kept apart because it is too long to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// What to read it by.
    pub handle: String,
    /// Its whole length in bytes.
    pub bytes: u64,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// What is to be done.
    pub step: String,
    /// How far it is.
    pub status: StepStatus,
}

/// How far a step of a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The command.
    pub command: String,
    /// How it ended; only exit code 0 passes.
    pub outcome: Outcome,
    /// Its output, cut to what a model can read.
    pub output: String,
    /// How long it took.
    #[serde(rename = "took_ms", with = "crate::millis")]
    pub took: Duration,
}

impl CheckResult {
    /// Whether it passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.outcome.success()
    }
}

/// Who wants a job to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancel {
    /// The user, by Ctrl-C or by a request.
    User,
    /// The system, by a polite signal.
    System,
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Ending {
    /// The work is done; verified if there were checks, which then passed.
    Complete {
        /// What the model says of it.
        summary: String,
        /// Whether checks have proved it.
        verified: bool,
    },
    /// The model says the work is done, and the checks say it is not.
    Unverified {
        /// What the model says of it.
        summary: String,
    },
    /// The task could not be done.
    Failed {
        /// Why not.
        reason: String,
    },
    /// A limit was reached first.
    LimitReached {
        /// Which one.
        limit: Limit,
    },
    /// No model could be reached, or it refused.
    ModelUnavailable {
        /// Why.
        reason: String,
    },
    /// There was no sandbox to work in, or it was lost.
    SandboxUnavailable {
        /// Why.
        reason: String,
    },
    /// Somebody stopped it.
    Cancelled {
        /// Who.
        by: Cancel,
    },
}

/// What a job may reach the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Answers of models.
    Turns,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// Time.
    Time,
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Time => "time",
        })
    }
}

/// What a job has used so far, all roles together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Answers of models.
    pub turns: u32,
    /// Tokens.
    pub tokens: Tokens,
    /// Money, as far as prices are known.
    pub cost: Usd,
    /// Answers whose price is not known.
    pub unpriced: u32,
    /// Time in which a process worked on it.
    #[serde(rename = "time_ms", with = "crate::millis")]
    pub time: Duration,
}

/// A file that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Its path in the workspace.
    pub path: String,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Lines that are new; `None` where it is not text.
    pub added: Option<u64>,
    /// Lines that are gone.
    pub removed: Option<u64>,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It has another content.
    Modified,
    /// It is gone.
    Deleted,
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
