//! One conversation with a model.

use std::hash::{DefaultHasher, Hash, Hasher};

use cofferdam_types::{
    Answer, Block, CallId, Content, Message, ModelFailure, RequestId, Role, StopReason, Timestamp,
    Tokens, ToolCall, ToolOutput, ToolResult, ToolStatus,
};

use crate::repetition::Repetition;
use crate::tools;
use crate::words;

/// One conversation with a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) role: Role,
    /// The call that waits for what comes of this.
    pub(crate) serves: Option<CallId>,
    /// What was said so far; all of it goes into the next question.
    pub(crate) messages: Vec<Message>,
    /// What is to be said to the model before it is asked again.
    pub(crate) pending_words: Vec<String>,
    /// Whether some of that is from the user.
    pub(crate) user_waits: bool,
    pub(crate) state: ThreadState,
    /// The calls of the last answer, while not all have ended.
    pub(crate) calls: Vec<PendingCall>,
    /// The last rounds of calls and what they brought.
    pub(crate) repetition: Repetition,
    /// Answers in a row that brought nothing.
    pub(crate) fruitless: u32,
    /// Bytes of all messages, and of those that the model has read before.
    pub(crate) weight: u64,
    pub(crate) weight_read: u64,
    /// What the last answer used.
    pub(crate) last_tokens: Tokens,
}

/// Where a conversation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// The model can be asked, from this moment on.
    Ready { attempt: u32, not_before: Timestamp },
    /// The model is being asked.
    Asked { request: RequestId, attempt: u32 },
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
    Ended(ToolOutput),
}

impl Thread {
    pub(crate) fn new(role: Role, opening: &str, serves: Option<CallId>) -> Self {
        let mut thread = Self {
            role,
            serves,
            messages: Vec::new(),
            pending_words: Vec::new(),
            user_waits: false,
            state: ThreadState::ready(),
            calls: Vec::new(),
            repetition: Repetition::default(),
            fruitless: 0,
            weight: 0,
            weight_read: 0,
            last_tokens: Tokens::default(),
        };
        thread.push(Message::user(opening));
        thread
    }

    /// Puts what is to be said into the conversation.
    pub(crate) fn speak(&mut self) {
        if self.pending_words.is_empty() {
            return;
        }
        self.user_waits = false;
        let content: Vec<Content> = self.pending_words.drain(..).map(Content::text).collect();
        self.push(Message::User { content });
    }

    /// Takes an answer. `next_call` numbers its calls.
    pub(crate) fn hear(&mut self, answer: &Answer, mut next_call: impl FnMut() -> CallId) {
        self.last_tokens = answer.tokens;
        self.weight_read = self.weight;
        let says_something = answer.blocks.iter().any(|block| match block {
            Block::Text { text } => !text.trim().is_empty(),
            Block::Thinking { .. } => false,
            Block::ToolCall(_) => true,
        });
        if !says_something && answer.stop != StopReason::Refused {
            // A message of nothing is refused by providers, so it is not kept.
            self.fruitless += 1;
            self.pending_words.push(match answer.stop {
                StopReason::OutputLimit => words::CUT_ANSWER.to_owned(),
                _ => words::EMPTY_ANSWER.to_owned(),
            });
            self.state = ThreadState::ready();
            return;
        }
        if says_something {
            self.push(Message::Model { blocks: answer.blocks.clone() });
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
                self.pending_words.push(words::CUT_ANSWER.to_owned());
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
    pub(crate) fn end_call(&mut self, call: CallId, output: &ToolOutput) {
        for pending in &mut self.calls {
            if pending.call == call {
                pending.state = CallState::Ended(output.clone());
            }
        }
        if self.calls.iter().any(|pending| !matches!(pending.state, CallState::Ended(_))) {
            return;
        }
        let calls = std::mem::take(&mut self.calls);
        self.repetition.push(round(&calls));
        let fruitful = calls.iter().any(|pending| !pending.cut);
        self.fruitless = if fruitful { 0 } else { self.fruitless + 1 };
        self.state = self.last_word(&calls).unwrap_or_else(ThreadState::ready);
        self.push(Message::Tools { results: calls.into_iter().filter_map(result).collect() });
        if self.repetition.warns() {
            self.pending_words.push(words::REPEATING.to_owned());
        }
    }

    /// A coder's `finish` is its last word. The orchestrator's is judged before it
    /// gets a result, so one that has a result was not accepted.
    fn last_word(&self, calls: &[PendingCall]) -> Option<ThreadState> {
        self.serves?;
        calls.iter().find_map(|pending| match &pending.state {
            CallState::Ended(output) if pending.asked.name == tools::FINISH => {
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

    fn push(&mut self, message: Message) {
        self.weight += weight(&message);
        self.messages.push(message);
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
        if let CallState::Ended(output) = &pending.state {
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

fn result(pending: PendingCall) -> Option<ToolResult> {
    let CallState::Ended(output) = pending.state else { return None };
    Some(ToolResult {
        id: pending.asked.id,
        content: output.content,
        failed: output.status != ToolStatus::Done,
    })
}

/// About how many bytes of text a message is worth.
fn weight(message: &Message) -> u64 {
    /// A picture costs about as much as this much text, whatever its size.
    const PICTURE: u64 = 6_000;
    let content = |content: &Content| match content {
        Content::Text { text } => text.len() as u64,
        Content::Image { .. } => PICTURE,
    };
    match message {
        Message::User { content: parts } => parts.iter().map(content).sum(),
        Message::Tools { results } => {
            results.iter().flat_map(|result| result.content.iter().map(content)).sum()
        }
        Message::Model { blocks } => blocks
            .iter()
            .map(|block| match block {
                Block::Text { text } => text.len() as u64,
                Block::Thinking { text, seal } => {
                    (text.len() + seal.as_ref().map_or(0, |seal| seal.data.len())) as u64
                }
                Block::ToolCall(call) => (call.name.len() + call.arguments.0.len()) as u64,
            })
            .sum(),
    }
}
