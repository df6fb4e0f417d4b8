//! A model that answers from a recorded log.
//!
//! A log is followed question by question: each conversation, and each role that is asked
//! in it, gets what it got then, in that order, answers and failures alike. What stands
//! before the model may be shorter by now than all that was said; what does stand there
//! must be what was recorded: a conversation that has taken another course gets no answer
//! that was meant for this one.

use std::collections::HashMap;
use std::time::Duration;

use cofferdam_model::{DeltaStream, Model, ModelError, Request, Which};
use cofferdam_types::{
    Answer, Block, Event, FailureKind, Message, ModelFailure, ModelName, Record, RequestId, Role,
    ThreadId,
};
use futures_util::{StreamExt, stream};

use crate::deltas::deltas;
use crate::said::opening;

/// Characters of an answer that an error shows.
const EXCERPT: usize = 120;

/// An opening of more bytes than this may have been cut on the way; then so many characters
/// of it have to fit.
const LONG_OPENING: usize = 500;
const BEGINNING: usize = 200;

/// Answers from a recorded log.
#[derive(Clone, Debug)]
pub struct Replay {
    name: ModelName,
    threads: Vec<Thread>,
}

/// One recorded conversation.
#[derive(Clone, Debug)]
struct Thread {
    id: ThreadId,
    role: Role,
    opening: String,
    /// What came of its own questions, in their order.
    outcomes: Vec<Outcome>,
    /// What came of the questions for its summaries.
    summaries: Vec<Outcome>,
}

/// What came of a question.
#[derive(Clone, Debug)]
enum Outcome {
    Answered(Answer),
    Failed(ModelError),
}

impl Replay {
    /// A model of this name that gives the answers of this log.
    #[must_use]
    pub fn from_records(name: ModelName, records: Vec<Record>) -> Self {
        let mut threads: Vec<Thread> = Vec::new();
        let mut asked: HashMap<RequestId, (ThreadId, Role)> = HashMap::new();
        let begun = |id, role, opening| {
            let (outcomes, summaries) = (Vec::new(), Vec::new());
            Thread { id, role, opening, outcomes, summaries }
        };
        for record in records {
            let (request, outcome) = match record.event {
                Event::Created { spec } => {
                    threads.push(begun(ThreadId(0), Role::Orchestrator, spec.task));
                    continue;
                }
                Event::Delegated { thread, brief, reading, .. } => {
                    let role = if reading.is_some() { Role::Summariser } else { Role::Coder };
                    threads.push(begun(thread, role, brief));
                    continue;
                }
                Event::ModelAsked { thread, request, role, .. } => {
                    asked.insert(request, (thread, role));
                    continue;
                }
                Event::ModelAnswered { request, answer, .. } => {
                    (request, Outcome::Answered(answer))
                }
                // That nobody waited for an answer is not the model's doing.
                Event::ModelFailed { failure, .. } if failure.kind == FailureKind::Abandoned => {
                    continue;
                }
                Event::ModelFailed { request, failure, retry_at, .. } => {
                    (request, Outcome::Failed(at_once(failure, retry_at.is_some())))
                }
                _ => continue,
            };
            let Some((id, role)) = asked.get(&request) else { continue };
            if let Some(thread) = threads.iter_mut().find(|thread| thread.id == *id) {
                let own = *role == thread.role;
                if own { &mut thread.outcomes } else { &mut thread.summaries }.push(outcome);
            }
        }
        Self { name, threads }
    }

    fn answer(&self, request: &Request) -> Result<&Answer, ModelError> {
        let Which { thread: id, role, .. } = request.which;
        let opening = opening(request);
        let asked_there = |thread: &&Thread| {
            begins_like(&opening, &thread.opening)
                && (thread.role == role || role == Role::Summariser)
        };
        let mut fitting = self.threads.iter().filter(asked_there);
        // What is begun side by side may be numbered in another order.
        let thread = fitting.clone().find(|thread| thread.id == id).or_else(|| fitting.next());
        let thread = thread
            .ok_or_else(|| no_answer("no conversation in it begins like this one".to_owned()))?;
        match thread.next(request)? {
            Outcome::Answered(answer) => Ok(answer),
            Outcome::Failed(error) => Err(error.clone()),
        }
    }
}

impl Model for Replay {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn ask(&self, request: Request) -> DeltaStream {
        match self.answer(&request) {
            Ok(answer) => stream::iter(deltas(answer).into_iter().map(Ok)).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
}

impl Thread {
    fn next(&self, request: &Request) -> Result<&Outcome, ModelError> {
        let Which { role, earlier, .. } = request.which;
        let place = usize::try_from(earlier).unwrap_or(usize::MAX);
        let (outcomes, what) = match role == self.role {
            true => (&self.outcomes, "answers"),
            false => (&self.summaries, "summaries"),
        };
        if role == self.role {
            self.check_course(request, outcomes.get(..place).unwrap_or(outcomes))?;
        }
        outcomes.get(place).ok_or_else(|| {
            no_answer(format!("conversation {} has {} {what}", self.id, outcomes.len()))
        })
    }

    /// The answers that are before the model must be the last of those that were given.
    fn check_course(&self, request: &Request, given: &[Outcome]) -> Result<(), ModelError> {
        let recorded = given.iter().filter_map(|outcome| match outcome {
            Outcome::Answered(answer) if says_something(answer) => Some(&answer.blocks),
            _ => None,
        });
        let recorded: Vec<&Vec<Block>> = recorded.collect();
        let here = request.messages.iter().rev().filter_map(|message| match message {
            Message::Model { blocks } => Some(blocks),
            _ => None,
        });
        let both = recorded.iter().enumerate().rev().zip(here);
        // The earliest difference is where the course was left.
        let differs = both.filter(|((_, recorded), here)| *recorded != here).last();
        let Some(((place, recorded), here)) = differs else { return Ok(()) };
        let (place, recorded, here) = (place + 1, excerpt(recorded), excerpt(here));
        Err(ModelError::new(
            FailureKind::Rejected,
            format!(
                "conversation {} differs from the recording at answer {place}: recorded is \
                 {recorded}, here it was {here}",
                self.id
            ),
        ))
    }
}

/// A failure as it is given again: where it was followed by another question, that comes
/// without a wait.
fn at_once(failure: ModelFailure, asked_again: bool) -> ModelError {
    let ModelFailure { kind, message, retry_after } = failure;
    let retry_after = if asked_again { Some(Duration::ZERO) } else { retry_after };
    ModelError { kind, message, retry_after }
}

/// Whether a question is from a conversation that began so.
fn begins_like(question: &str, opening: &str) -> bool {
    if question.contains(opening) {
        return true;
    }
    let beginning: String = opening.chars().take(BEGINNING).collect();
    opening.len() > LONG_OPENING && question.contains(&beginning)
}

/// Whether an answer is kept in its conversation.
fn says_something(answer: &Answer) -> bool {
    answer.calls().next().is_some() || !answer.text().trim().is_empty()
}

fn no_answer(why: String) -> ModelError {
    let message = format!("the recording has no answer for this question: {why}");
    ModelError::new(FailureKind::Rejected, message)
}

/// What an answer is about, short.
fn excerpt(blocks: &[Block]) -> String {
    let parts = blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.clone()),
        Block::ToolCall(call) => Some(format!("{} {}", call.name, call.arguments.0)),
        Block::Thinking { .. } => None,
    });
    let whole = parts.collect::<Vec<_>>().join(" ");
    let mut characters = whole.chars();
    let shown: String = characters.by_ref().take(EXCERPT).collect();
    let rest = if characters.next().is_some() { "…" } else { "" };
    format!("{:?}", shown + rest)
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
