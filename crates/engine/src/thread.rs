//! One conversation with a model.

use std::hash::{DefaultHasher, Hash, Hasher};

use cofferdam_context::{Call, Conversation};
use cofferdam_types::{
    Answer, Block, CallId, Content, FailureKind, ModelFailure, RequestId, Role, Span, StopReason,
    Timestamp, ToolCall, ToolOutput, ToolResult, ToolStatus,
};

use crate::digest::Digest;
use crate::policy;
use crate::repetition::Repetition;
use crate::tools;
use crate::words;

/// So often in a row a provider may find a conversation too long.
const MOST_REFUSALS: u32 = 4;

/// After this attempt a summary is asked for no more.
const LAST_ATTEMPT: u32 = u32::MAX - 1;

/// One conversation with a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) role: Role,
    /// The call that waits for what comes of this.
    pub(crate) serves: Option<CallId>,
    /// What goes into the next question.
    pub(crate) context: Conversation,
    /// Whether the user has said something that the model was not asked about yet.
    pub(crate) user_waits: bool,
    pub(crate) state: ThreadState,
    /// The calls of the last answer, while not all have ended.
    pub(crate) calls: Vec<PendingCall>,
    /// The last rounds of calls and what they brought.
    pub(crate) repetition: Repetition,
    /// Answers in a row that brought nothing.
    pub(crate) fruitless: u32,
    /// Whether something that was let go is to be looked for before the next question.
    pub(crate) offer: Offer,
    /// What is being read, where that is all it is about.
    pub(crate) digest: Option<Digest>,
    /// Its own questions that came to an end, and those for a summary.
    pub(crate) heard: u32,
    pub(crate) summaries_heard: u32,
}

/// Whether what was let go is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is not.
    Nothing,
    /// It is to be.
    Due,
    /// It is being looked for.
    Awaited,
}

/// Where a conversation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// The model can be asked, from this moment on.
    Ready { attempt: u32, not_before: Timestamp },
    /// The model is being asked.
    Asked { request: RequestId, attempt: u32 },
    /// A part of it is being summarised.
    Summarising { request: RequestId, attempt: u32, span: Span },
    /// A summary has come, or none, and is to be judged from this moment on.
    Summarised { attempt: u32, span: Span, text: Option<String>, not_before: Timestamp },
    /// The calls of its last answer are being dealt with.
    Calling,
    /// It has said its last word.
    HandedIn { summary: String, success: bool },
    /// It has declined to answer.
    Refused { text: String },
    /// The model cannot be reached.
    Broken { failure: ModelFailure, attempts: u32 },
    /// Its result is where it belongs.
    Done,
}

/// A call of the last answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingCall {
    pub(crate) call: CallId,
    pub(crate) asked: ToolCall,
    /// Whether the answer was cut at the output limit, so that nobody knows
    /// whether the call is whole.
    pub(crate) cut: bool,
    pub(crate) state: CallState,
}

/// Where a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallState {
    Queued,
    Running,
    /// It ended so, with this event.
    Ended(ToolOutput, u64),
}

impl Thread {
    /// `seq` is the event that it begins with.
    pub(crate) fn new(role: Role, opening: &str, serves: Option<CallId>, seq: u64) -> Self {
        Self {
            role,
            serves,
            context: Conversation::new(seq, opening),
            user_waits: false,
            state: ThreadState::ready(),
            calls: Vec::new(),
            repetition: Repetition::default(),
            fruitless: 0,
            offer: Offer::Nothing,
            digest: None,
            heard: 0,
            summaries_heard: 0,
        }
    }

    /// How many questions of a role came to an end here.
    pub(crate) fn heard(&self, role: Role) -> u32 {
        if role == self.role { self.heard } else { self.summaries_heard }
    }

    fn count_question(&mut self) {
        match self.state {
            ThreadState::Asked { .. } => self.heard += 1,
            ThreadState::Summarising { .. } => self.summaries_heard += 1,
            _ => {}
        }
    }

    /// The question that is under way: its name, which time it is put, and by whom it is
    /// answered.
    pub(crate) fn question(&self) -> Option<(RequestId, u32, Role)> {
        match self.state {
            ThreadState::Asked { request, attempt } => Some((request, attempt, self.role)),
            ThreadState::Summarising { request, attempt, .. } => {
                Some((request, attempt, Role::Summariser))
            }
            _ => None,
        }
    }

    /// The model is asked, about everything that was to be said.
    pub(crate) fn ask(&mut self) {
        self.user_waits = false;
        self.context.ask();
    }

    /// Takes an answer, or a summary. `next_call` numbers the answer's calls.
    pub(crate) fn hear_any(
        &mut self,
        seq: u64,
        answer: &Answer,
        next_call: impl FnMut() -> CallId,
    ) {
        self.count_question();
        if let Some(digest) = &mut self.digest {
            self.state = match digest.note(&answer.text()) {
                Some(summary) => ThreadState::HandedIn { summary, success: true },
                None => ThreadState::ready(),
            };
            return;
        }
        let ThreadState::Summarising { attempt, span, .. } = self.state else {
            return self.hear(seq, answer, next_call);
        };
        // One that was cut at the limit lacks its end.
        let text = (answer.stop == StopReason::Done).then(|| answer.text());
        self.state = ThreadState::Summarised { attempt, span, text, not_before: Timestamp(0) };
    }

    /// The model has not answered. It is asked again then, or not at all.
    pub(crate) fn fail(&mut self, failure: &ModelFailure, retry_at: Option<Timestamp>) {
        // That nobody waited for an answer is not the model's fault.
        let counts = u32::from(failure.kind != FailureKind::Abandoned);
        if counts > 0 {
            self.count_question();
        }
        match self.state {
            ThreadState::Summarising { attempt, span, .. } => {
                let attempt = match (failure.kind, retry_at) {
                    (FailureKind::Abandoned, _) => attempt.saturating_sub(1),
                    // It is shown less next time.
                    (FailureKind::TooLong, _) | (_, Some(_)) => attempt,
                    // Asking again would not help.
                    (_, None) => LAST_ATTEMPT,
                };
                let not_before = retry_at.unwrap_or_default();
                self.state = ThreadState::Summarised { attempt, span, text: None, not_before };
            }
            ThreadState::Asked { .. }
                if failure.kind == FailureKind::TooLong
                    && self.context.refusals() < MOST_REFUSALS =>
            {
                self.context.refuse();
                self.state = ThreadState::ready();
            }
            ThreadState::Asked { attempt, .. } => {
                self.state = match retry_at {
                    Some(at) => ThreadState::Ready { attempt: attempt + counts, not_before: at },
                    None => ThreadState::Broken { failure: failure.clone(), attempts: attempt },
                };
            }
            _ => {}
        }
    }

    /// Takes an answer. `next_call` numbers its calls.
    pub(crate) fn hear(
        &mut self,
        seq: u64,
        answer: &Answer,
        mut next_call: impl FnMut() -> CallId,
    ) {
        self.context.count(answer.tokens);
        let says_something = answer.blocks.iter().any(|block| match block {
            Block::Text { text } => !text.trim().is_empty(),
            Block::Thinking { .. } => false,
            Block::ToolCall(_) => true,
        });
        if !says_something && answer.stop != StopReason::Refused {
            // A message of nothing is refused by providers, so it is not kept.
            self.fruitless += 1;
            let words = match answer.stop {
                StopReason::OutputLimit => words::CUT_ANSWER,
                _ => words::EMPTY_ANSWER,
            };
            self.context.tell(seq, words);
            self.state = ThreadState::ready();
            return;
        }
        if says_something {
            self.context.answer(seq, answer.blocks.clone());
        }
        let cut = answer.stop == StopReason::OutputLimit;
        self.calls = answer
            .calls()
            .map(|asked| PendingCall {
                call: next_call(),
                asked: asked.clone(),
                cut,
                state: CallState::Queued,
            })
            .collect();
        self.state = match answer.stop {
            StopReason::Refused => ThreadState::Refused { text: answer.text() },
            _ if !self.calls.is_empty() => ThreadState::Calling,
            StopReason::OutputLimit => {
                self.fruitless += 1;
                self.context.tell(seq, words::CUT_ANSWER);
                ThreadState::ready()
            }
            // It cannot have answered what the user has said meanwhile.
            StopReason::Done | StopReason::Tools if self.user_waits => ThreadState::ready(),
            StopReason::Done | StopReason::Tools => {
                ThreadState::HandedIn { summary: answer.text(), success: true }
            }
        };
        if answer.stop == StopReason::Refused {
            self.calls.clear();
        }
    }

    /// Takes the output of a call; with that of the last one, all of them go into
    /// the conversation.
    pub(crate) fn end_call(&mut self, seq: u64, call: CallId, output: &ToolOutput) {
        let Some(pending) = self.calls.iter_mut().find(|pending| pending.call == call) else {
            return;
        };
        pending.state = CallState::Ended(output.clone(), seq);
        if self.calls.iter().any(|pending| !matches!(pending.state, CallState::Ended(..))) {
            return;
        }
        let calls = std::mem::take(&mut self.calls);
        self.repetition.push(round(&calls));
        let fruitful = calls.iter().any(|pending| !pending.cut);
        self.fruitless = if fruitful { 0 } else { self.fruitless + 1 };
        self.state = self.last_word(&calls).unwrap_or_else(ThreadState::ready);
        self.context.results(calls.iter().filter_map(result).collect());
        if self.repetition.warns() {
            self.context.tell(seq, words::REPEATING);
        }
    }

    /// A coder's `finish` is its last word. The orchestrator's is judged before it
    /// gets a result, so one that has a result was not accepted.
    fn last_word(&self, calls: &[PendingCall]) -> Option<ThreadState> {
        self.serves?;
        calls.iter().find_map(|pending| match &pending.state {
            CallState::Ended(output, _) if pending.asked.name == tools::FINISH => {
                let success = match output.status {
                    ToolStatus::Done => true,
                    ToolStatus::Failed => false,
                    _ => return None,
                };
                let summary = output.plain_text();
                Some(ThreadState::HandedIn { summary, success })
            }
            _ => None,
        })
    }
}

impl ThreadState {
    pub(crate) fn ready() -> Self {
        Self::Ready { attempt: 1, not_before: Timestamp(0) }
    }
}

/// A round of calls and what they brought, as a number.
fn round(calls: &[PendingCall]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for pending in calls {
        (&pending.asked.name, &pending.asked.arguments.0).hash(&mut hasher);
        if let CallState::Ended(output, _) = &pending.state {
            (output.status as u8).hash(&mut hasher);
            for content in &output.content {
                match content {
                    Content::Text { text } => text.hash(&mut hasher),
                    Content::Image { data, .. } => data.hash(&mut hasher),
                }
            }
        }
    }
    hasher.finish()
}

fn result(pending: &PendingCall) -> Option<(Call<'_>, ToolResult)> {
    let CallState::Ended(output, seq) = &pending.state else { return None };
    let call = Call {
        seq: *seq,
        tool: &pending.asked.name,
        arguments: &pending.asked.arguments.0,
        status: output.status,
        changes: policy::changes(&pending.asked),
    };
    let result = ToolResult {
        id: pending.asked.id.clone(),
        content: output.content.clone(),
        failed: output.status != ToolStatus::Done,
    };
    Some((call, result))
}
