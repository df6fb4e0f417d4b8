//! What is going on in a job, as far as whoever watches needs to know it: a
//! projection of its events, brought up to date by each.

use std::collections::BTreeMap;
use std::time::Duration;

use cofferdam_model::Delta;
use cofferdam_types::{
    Answer, Budget, CallId, Event, JobId, ModelFailure, PlanStep, Record, RequestId, Role, Spent,
    ThreadId, Timestamp, Tokens, ToolCall, ToolOutput, Usd,
};

use crate::closing::{Listed, Site};
use crate::fold::Stream;
use crate::heading::{heading, shortened};
use crate::tame::tame_line;
use crate::text;

/// Cells of a tool's name that are shown: a model may call anything.
const LONGEST_TOOL: usize = 64;

/// The state of a job.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) site: Site,
    pub(crate) job: Option<JobId>,
    pub(crate) budget: Option<Budget>,
    /// How many checks there are.
    pub(crate) checks: usize,
    pub(crate) running: BTreeMap<CallId, Call>,
    /// How often a process has taken the job up.
    pub(crate) taken_up: u32,
    stage: Stage,
    /// Whether something was noted while the result was handed over.
    noted_at_end: bool,
    /// How deep each coder's conversation is; the orchestrator's is not here.
    depths: BTreeMap<ThreadId, usize>,
    questions: BTreeMap<RequestId, Question>,
    /// The calls of each conversation's last answer that have not begun.
    asked: BTreeMap<ThreadId, Vec<ToolCall>>,
    /// What answers that are still coming have used.
    using: BTreeMap<ThreadId, Tokens>,
    spent: Spent,
    plan: Vec<PlanStep>,
}

/// What a job is doing besides talking and calling.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Opening,
    Working,
    /// The checks have run since then.
    Checking(Duration),
    HandingOver,
    Over,
}

#[derive(Debug)]
struct Question {
    thread: ThreadId,
    model: String,
    attempt: u32,
    /// Whether a summary was asked for, or notes on something long, which nobody but the
    /// other model reads.
    summary: bool,
    /// It failed and is put again then.
    again_at: Option<Duration>,
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) asked: ToolCall,
    pub(crate) depth: usize,
    /// Its tool, tame.
    pub(crate) tool: String,
    /// What it is about, tame.
    pub(crate) about: String,
    /// What it has printed so far.
    pub(crate) stream: Stream,
    /// Whether it has been shown that it runs.
    pub(crate) announced: bool,
    begun: Option<(Duration, Timestamp)>,
}

impl Call {
    fn new(asked: ToolCall, depth: usize, begun: Option<(Duration, Timestamp)>) -> Self {
        let tool = text::cut(&tame_line(&asked.name), LONGEST_TOOL);
        let about = heading(&asked);
        Self { asked, depth, tool, about, stream: Stream::default(), announced: false, begun }
    }

    /// Whether it ever began.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }
}

/// An event with what the story knows of it.
pub(crate) enum Heard<'a> {
    Answered {
        thread: ThreadId,
        depth: usize,
        answer: &'a Answer,
    },
    Failed {
        thread: ThreadId,
        depth: usize,
        failure: &'a ModelFailure,
        again: Option<Again>,
        /// Whether only a summary is missing, which can be had by rule.
        summary: bool,
    },
    Started(CallId),
    Ended {
        id: CallId,
        call: Box<Call>,
        output: &'a ToolOutput,
        took: Duration,
    },
    /// The plan is another one than before.
    Planned {
        steps: &'a [PlanStep],
    },
    Other(&'a Event),
}

/// A question that is put again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) after: Duration,
    pub(crate) attempt: u32,
}

impl Story {
    /// How deep a conversation is.
    pub(crate) fn depth(&self, thread: ThreadId) -> usize {
        self.depths.get(&thread).copied().unwrap_or_default()
    }

    /// Whether what comes in a conversation is for the other model and not for people.
    pub(crate) fn summarises(&self, thread: ThreadId) -> bool {
        self.questions.values().any(|question| question.thread == thread && question.summary)
    }

    /// Hears of a piece of an answer.
    pub(crate) fn hear_delta(&mut self, thread: ThreadId, delta: &Delta) {
        if let Delta::Used(tokens) = delta {
            self.using.insert(thread, *tokens);
        }
    }

    /// Hears of an event.
    pub(crate) fn hear<'a>(&mut self, now: Duration, record: &'a Record) -> Heard<'a> {
        let event = &record.event;
        match event {
            Event::Created { spec } => {
                self.job = Some(spec.job);
                self.budget = Some(spec.budget.clone());
                self.checks = spec.checks.len();
            }
            Event::TakenUp { only_delivers, .. } => {
                self.taken_up += 1;
                self.noted_at_end = false;
                self.stage = if *only_delivers { Stage::HandingOver } else { Stage::Opening };
            }
            Event::SandboxOpened { .. } => self.stage = Stage::Working,
            // Something long is read for a call that has begun before.
            Event::Delegated { thread, call, reading: Some(_), .. } => {
                let depth = self.running.get(call).map_or(0, |call| call.depth);
                self.depths.insert(*thread, depth + 1);
            }
            Event::Delegated { thread, call, brief, .. } => {
                return self.delegate(now, record.at, *thread, *call, brief);
            }
            Event::ModelAsked { thread, request, role, model, attempt, .. } => {
                self.questions.retain(|_, question| question.thread != *thread);
                let (thread, attempt) = (*thread, *attempt);
                let model = tame_line(&model.0);
                let summary = *role == Role::Summariser;
                let question = Question { thread, model, attempt, summary, again_at: None };
                self.questions.insert(*request, question);
            }
            Event::ModelAnswered { request, answer, cost } => {
                let question = self.questions.remove(request);
                let thread = question.as_ref().map_or(ThreadId(0), |question| question.thread);
                self.spent.turns += 1;
                self.pay(thread, answer.tokens, *cost);
                if question.is_some_and(|question| question.summary) {
                    // Said to the other model, and told with the cut.
                    return Heard::Other(event);
                }
                self.asked.insert(thread, answer.calls().cloned().collect());
                return Heard::Answered { thread, depth: self.depth(thread), answer };
            }
            Event::ModelFailed { request, failure, tokens, cost, retry_at } => {
                let again = retry_at.map(|at| at.since(record.at));
                let summary = self.questions.get(request).is_some_and(|asked| asked.summary);
                let (thread, attempt) = self.fail(*request, again.map(|after| now + after));
                if *tokens == Tokens::default() {
                    self.using.remove(&thread);
                } else {
                    self.pay(thread, *tokens, *cost);
                }
                let again = again.map(|after| Again { after, attempt: attempt + 1 });
                let depth = self.depth(thread);
                return Heard::Failed { thread, depth, failure, again, summary };
            }
            // The conversation is over, so its number does not matter.
            Event::ModelUsed { tokens, cost, .. } => self.pay(ThreadId(0), *tokens, *cost),
            Event::ToolStarted { call, thread, id, tool } => {
                let asked = self.claim(*thread, id, tool);
                let begun = Some((now, record.at));
                self.running.insert(*call, Call::new(asked, self.depth(*thread), begun));
                return Heard::Started(*call);
            }
            Event::ToolEnded { call: id, thread, id: named, output } => {
                let call = self.running.remove(id);
                let call = call.unwrap_or_else(|| {
                    Call::new(self.claim(*thread, named, ""), self.depth(*thread), None)
                });
                let took = match (output.took, call.begun) {
                    (Duration::ZERO, Some((_, at))) => record.at.since(at),
                    (took, _) => took,
                };
                return Heard::Ended { id: *id, call: Box::new(call), output, took };
            }
            Event::Planned { steps, .. } if *steps != self.plan => {
                self.plan.clone_from(steps);
                return Heard::Planned { steps };
            }
            Event::CheckStarted { .. } => self.stage = Stage::Checking(now),
            Event::CheckEnded { .. } => self.stage = Stage::Working,
            Event::BudgetChanged { budget } => self.budget = Some(budget.clone()),
            Event::Ending { .. } => self.stage = Stage::HandingOver,
            Event::Noted { .. } => self.noted_at_end |= matches!(self.stage, Stage::HandingOver),
            Event::Ended { .. } => {
                self.stage = Stage::Over;
                self.questions.clear();
                self.running.clear();
            }
            Event::ImageStep { .. }
            | Event::ImageReady { .. }
            | Event::Prepared { .. }
            | Event::UserSaid { .. }
            | Event::Listening { .. }
            | Event::Planned { .. }
            | Event::ContextCut { .. }
            | Event::RecallAsked { .. }
            | Event::Offered { .. }
            | Event::ModelsChanged { .. }
            | Event::Paused
            | Event::Resumed
            | Event::CancelAsked { .. } => {}
        }
        Heard::Other(event)
    }

    fn delegate<'a>(
        &mut self,
        now: Duration,
        at: Timestamp,
        thread: ThreadId,
        call: CallId,
        brief: &str,
    ) -> Heard<'a> {
        let from = self.asked.iter().find_map(|(from, calls)| {
            let call = calls.iter().find(|call| call.name == "delegate")?;
            Some((*from, call.id.clone()))
        });
        let (from, id) = from.unwrap_or((ThreadId(0), String::new()));
        let asked = self.claim(from, &id, "delegate");
        let depth = self.depth(from);
        self.depths.insert(thread, depth + 1);
        let mut call_begun = Call::new(asked, depth, Some((now, at)));
        if call_begun.about.is_empty() {
            call_begun.about = shortened(brief);
        }
        self.running.insert(call, call_begun);
        Heard::Started(call)
    }

    /// The call of the last answer that has this name.
    fn claim(&mut self, thread: ThreadId, id: &str, tool: &str) -> ToolCall {
        let calls = self.asked.entry(thread).or_default();
        match calls.iter().position(|call| call.id == id) {
            Some(index) => calls.remove(index),
            None => ToolCall {
                id: id.to_owned(),
                name: tool.to_owned(),
                arguments: cofferdam_types::Arguments(String::new()),
            },
        }
    }

    fn fail(&mut self, request: RequestId, again_at: Option<Duration>) -> (ThreadId, u32) {
        let Some(question) = self.questions.get_mut(&request) else { return (ThreadId(0), 1) };
        question.again_at = again_at;
        let known = (question.thread, question.attempt);
        if again_at.is_none() {
            self.questions.remove(&request);
        }
        known
    }

    /// What the list of changed files speaks of.
    pub(crate) fn listed(&self) -> Listed {
        match (self.noted_at_end, self.taken_up) {
            (true, _) => Listed::Incompletely,
            (false, 0 | 1) => Listed::SinceTheBeginning,
            (false, _) => Listed::SinceTakenUp,
        }
    }

    fn pay(&mut self, thread: ThreadId, tokens: Tokens, cost: Option<Usd>) {
        self.using.remove(&thread);
        self.spent.tokens += tokens;
        match cost {
            Some(cost) => self.spent.cost += cost,
            None => self.spent.unpriced += 1,
        }
    }

    /// The status line: turn, tokens, cost, time, and what is under way.
    pub(crate) fn status(&self, now: Duration) -> Option<String> {
        let doing = self.doing(now)?;
        let spent = &self.spent;
        let asking = self.questions.values().any(|question| question.again_at.is_none());
        let turn = spent.turns + u32::from(asking);
        let tokens = self.using.values().fold(spent.tokens, |sum, using| sum + *using);
        let mut parts = Vec::new();
        if turn > 0 {
            parts.push(format!("turn {turn}"));
        }
        if tokens.total() > 0 {
            parts.push(text::tokens(tokens));
            parts.extend(text::cost(spent));
        }
        parts.push(text::clock(now));
        parts.push(doing);
        Some(parts.join(" · "))
    }

    /// What is under way; nothing once the job is over.
    fn doing(&self, now: Duration) -> Option<String> {
        let since = |begun: Duration| text::span(now.saturating_sub(begun));
        Some(match self.stage {
            Stage::Over => return None,
            Stage::Opening => "making the sandbox".to_owned(),
            Stage::HandingOver => "handing over".to_owned(),
            Stage::Checking(begun) => format!("running the checks {}", since(begun)),
            Stage::Working => {
                let mut calls = self.running.values().filter(|call| call.asked.name != "delegate");
                match (calls.next(), calls.count(), self.questions.values().next()) {
                    (Some(call), others, _) => {
                        let begun = call.begun.map_or(now, |(begun, _)| begun);
                        let about = text::cut(&call.about, 30);
                        let more = match (others, call.stream.lines) {
                            (0, 0) => String::new(),
                            (0, lines) => format!(", {}", text::count(lines, "line")),
                            (others, _) => format!(" and {others} more"),
                        };
                        format!("{} {about} {}{more}", call.tool, since(begun))
                    }
                    (None, _, Some(Question { again_at: Some(at), .. })) => {
                        format!("asking again in {}", text::span(at.saturating_sub(now)))
                    }
                    (None, _, Some(Question { summary: true, .. })) => "summarising…".to_owned(),
                    (None, _, Some(question)) => format!("waiting for {}", question.model),
                    (None, _, None) => "working".to_owned(),
                }
            }
        })
    }
}
