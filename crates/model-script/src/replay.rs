//! A model that answers from a recorded log.
//!
//! A request does not name its conversation, so it is found by what it began
//! with: the task, or a coder's brief. As many answers as the request holds have
//! been given, and they must be the recorded ones: a conversation that has taken
//! another course gets no answer that was meant for this one.

use std::collections::HashMap;

use cofferdam_model::{DeltaStream, Model, ModelError, Request};
use cofferdam_types::{
    Answer, Block, Event, FailureKind, Message, ModelName, Record, RequestId, StopReason, ThreadId,
};
use futures_util::{StreamExt, stream};

use crate::deltas::deltas;
use crate::said::opening;

/// Characters of an answer that an error shows.
const EXCERPT: usize = 120;

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
    opening: String,
    answers: Vec<Answer>,
}

impl Replay {
    /// A model of this name that gives the answers of this log.
    #[must_use]
    pub fn from_records(name: ModelName, records: Vec<Record>) -> Self {
        let mut threads: Vec<Thread> = Vec::new();
        let mut asked: HashMap<RequestId, ThreadId> = HashMap::new();
        let begun = |id, opening| Thread { id, opening, answers: Vec::new() };
        for record in records {
            match record.event {
                Event::Created { spec } => threads.push(begun(ThreadId(0), spec.task)),
                Event::Delegated { thread, brief, .. } => threads.push(begun(thread, brief)),
                Event::ModelAsked { thread, request, .. } => {
                    asked.insert(request, thread);
                }
                Event::ModelAnswered { request, answer, .. } if leaves_a_trace(&answer) => {
                    let id = asked.get(&request);
                    let thread = threads.iter_mut().find(|thread| Some(&thread.id) == id);
                    if let Some(thread) = thread {
                        thread.answers.push(answer);
                    }
                }
                _ => {}
            }
        }
        Self { name, threads }
    }

    fn answer(&self, request: &Request) -> Result<&Answer, ModelError> {
        let opening = opening(request);
        let fits = |thread: &&Thread| opening.contains(&thread.opening);
        // A brief may quote the task, so the longest that fits is meant. Briefs
        // may be alike word for word; the course of the conversation decides then.
        let longest = self.threads.iter().filter(fits).map(|thread| thread.opening.len()).max();
        let meant = self.threads.iter().filter(fits);
        let meant = meant.filter(|thread| Some(thread.opening.len()) == longest);
        let mut problem = None;
        for thread in meant {
            match thread.next_after(request) {
                Ok(answer) => return Ok(answer),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        Err(problem
            .unwrap_or_else(|| no_answer("no conversation in it begins like this one".to_owned())))
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
    fn next_after(&self, request: &Request) -> Result<&Answer, ModelError> {
        let given = request.messages.iter().filter_map(|message| match message {
            Message::Model { blocks } => Some(blocks),
            _ => None,
        });
        let mut recorded = self.answers.iter();
        for (place, blocks) in given.enumerate() {
            let place = place + 1;
            let Some(answer) = recorded.next() else { break };
            if answer.blocks != *blocks {
                let (recorded, here) = (excerpt(&answer.blocks), excerpt(blocks));
                return Err(ModelError::new(
                    FailureKind::Rejected,
                    format!(
                        "conversation {} differs from the recording at answer {place}: recorded \
                         is {recorded}, here it was {here}",
                        self.id
                    ),
                ));
            }
        }
        let ended = || format!("conversation {} has {} answers", self.id, self.answers.len());
        recorded.next().ok_or_else(|| no_answer(ended()))
    }
}

/// Whether an answer is kept in its conversation. One that says nothing is not,
/// so it would be given again and again; one that declines is the last.
fn leaves_a_trace(answer: &Answer) -> bool {
    answer.stop == StopReason::Refused
        || answer.calls().next().is_some()
        || !answer.text().trim().is_empty()
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
