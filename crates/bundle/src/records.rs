//! What a job's log says of it. The log is the only truth; nothing is guessed.

use std::collections::HashMap;
use std::time::Duration;

use cofferdam_types::{
    CallId, Ending, Event, JobSpec, Record, RequestId, Spent, ThreadId, Timestamp, Tokens,
    ToolCall, ToolOutput, ToolStatus, Usd,
};

use crate::about::{About, CheckRun, CommandRun, IsolationUsed, ModelUsed, Status};
use crate::component::cut;

/// The tool whose calls are commands.
const SHELL: &str = "bash";

/// How its output's last line begins.
const EXIT: &str = "exit code: ";

/// The longest command that is shown whole, in bytes.
const LONGEST_COMMAND: usize = 10_000;

impl About {
    /// What a job's log says of it so far; `None` where the log does not begin
    /// with the job's creation.
    #[must_use]
    pub fn from_records(records: &[Record]) -> Option<Self> {
        let (first, rest) = records.split_first()?;
        let mut reading = Reading::begin(first)?;
        for record in rest {
            reading.take(record);
        }
        Some(reading.finish())
    }
}

/// What is known after a part of a log, for whoever has the log piece by piece.
pub struct Reading {
    about: About,
    /// When the last event was.
    last: Timestamp,
    /// The conversation of each question.
    asked: HashMap<RequestId, ThreadId>,
    /// The calls of each conversation's last answer that have not begun, and what
    /// they run. Several may have the same name: they begin in their order.
    wanted: HashMap<ThreadId, Vec<(String, Option<CommandRun>)>>,
    /// The commands that have begun: places in the list.
    begun: HashMap<CallId, usize>,
    /// The last time a process took the job up, and the last event since.
    working: Option<(Timestamp, Timestamp)>,
}

impl Reading {
    /// Begins with the first record of a log; `None` where it is not the job's creation.
    #[must_use]
    pub fn begin(first: &Record) -> Option<Self> {
        match &first.event {
            Event::Created { spec } => Some(Self::new(spec, first.at)),
            _ => None,
        }
    }

    fn new(spec: &JobSpec, last: Timestamp) -> Self {
        let about = About {
            job: spec.job,
            task: Some(spec.task.clone()),
            status: Status::Pending,
            verified: false,
            ending: None,
            at: None,
            isolation: None,
            models: Vec::new(),
            spent: Spent::default(),
            checks: Vec::new(),
            commands: Vec::new(),
        };
        Self {
            about,
            last,
            asked: HashMap::new(),
            wanted: HashMap::new(),
            begun: HashMap::new(),
            working: None,
        }
    }

    /// Takes in the next record.
    pub fn take(&mut self, record: &Record) {
        self.last = record.at;
        match &record.event {
            Event::TakenUp { only_delivers, .. } => {
                self.rest();
                self.working = Some((record.at, record.at));
                if !only_delivers {
                    self.about.status = Status::Running;
                    self.about.ending = None;
                }
            }
            Event::SandboxOpened { backend, grade, weaknesses, .. } => {
                self.about.isolation = Some(IsolationUsed {
                    backend: backend.clone(),
                    grade: grade.clone(),
                    weaknesses: weaknesses.clone(),
                });
            }
            Event::ModelAsked { thread, request, role, model, .. } => {
                self.asked.insert(*request, *thread);
                let used = ModelUsed { role: *role, model: model.clone() };
                if !self.about.models.contains(&used) {
                    self.about.models.push(used);
                }
            }
            Event::ModelAnswered { request, answer, cost } => {
                self.about.spent.turns += 1;
                self.pay(answer.tokens, *cost);
                let thread = self.asked.remove(request).unwrap_or(ThreadId(0));
                let wanted = answer.calls().map(|call| (call.id.clone(), command_of(call)));
                self.wanted.insert(thread, wanted.collect());
            }
            Event::ModelFailed { tokens, cost, .. } if *tokens != Tokens::default() => {
                self.pay(*tokens, *cost);
            }
            Event::ModelUsed { tokens, cost, .. } => self.pay(*tokens, *cost),
            Event::ToolStarted { call, thread, id, .. } => {
                if let Some(command) = self.claim(*thread, id) {
                    self.begun.insert(*call, self.about.commands.len());
                    self.about.commands.push(command);
                }
            }
            Event::ToolEnded { call, thread, id, output } => {
                if !self.begun.contains_key(call) && output.status == ToolStatus::Refused {
                    self.claim(*thread, id);
                }
                let place = self.begun.remove(call);
                if let Some(command) = place.and_then(|at| self.about.commands.get_mut(at)) {
                    end(command, output);
                }
            }
            Event::CheckEnded { attempt, results } => {
                self.about.checks.extend(results.iter().map(|result| CheckRun {
                    attempt: *attempt,
                    command: result.command.clone(),
                    passed: result.passed(),
                    outcome: result.outcome.clone(),
                    took: result.took,
                }));
            }
            Event::Ending { ending } => self.end(ending),
            Event::Ended { ending, spent, .. } => {
                self.end(ending);
                self.about.spent = *spent;
                self.working = None;
            }
            _ => {}
        }
        if let Some((_, last)) = &mut self.working {
            *last = record.at;
        }
    }

    /// Takes the next call of this name out of those that have not begun, and says
    /// what it runs.
    fn claim(&mut self, thread: ThreadId, id: &str) -> Option<CommandRun> {
        let wanted = self.wanted.get_mut(&thread)?;
        let place = wanted.iter().position(|(name, _)| name == id)?;
        wanted.remove(place).1
    }

    fn pay(&mut self, tokens: Tokens, cost: Option<Usd>) {
        let spent = &mut self.about.spent;
        spent.tokens += tokens;
        match cost {
            Some(cost) => spent.cost += cost,
            None => spent.unpriced += 1,
        }
    }

    fn end(&mut self, ending: &Ending) {
        self.about.status = match ending {
            Ending::Complete { .. } => Status::Complete,
            Ending::Cancelled { .. } => Status::Cancelled,
            _ => Status::Error,
        };
        self.about.ending = Some(ending.clone());
    }

    /// Nobody works on the job from here on.
    fn rest(&mut self) {
        if let Some((from, to)) = self.working.take() {
            self.about.spent.time += to.since(from);
        }
    }

    /// What the log says up to here.
    #[must_use]
    pub fn finish(mut self) -> About {
        self.rest();
        let at = Some(self.last);
        let verified = matches!(self.about.ending, Some(Ending::Complete { verified: true, .. }));
        About { at, verified, ..self.about }
    }
}

/// The command that a call runs, if it runs one.
fn command_of(call: &ToolCall) -> Option<CommandRun> {
    if call.name != SHELL {
        return None;
    }
    let arguments = call.arguments.object().ok()?;
    let mut command = arguments.get("command")?.as_str()?.to_owned();
    if command.len() > LONGEST_COMMAND {
        cut(&mut command, LONGEST_COMMAND);
        command.push_str(" […]");
    }
    let background = arguments.get("background").and_then(|value| value.as_bool());
    let background = background.unwrap_or_default();
    Some(CommandRun { command, background, status: None, exit: None, took: Duration::ZERO })
}

fn end(command: &mut CommandRun, output: &ToolOutput) {
    command.status = Some(output.status);
    command.took = output.took;
    let has_exit =
        matches!(output.status, ToolStatus::Done | ToolStatus::Failed | ToolStatus::Unknown);
    if has_exit && !command.background {
        // The last one is ours: what the command itself printed is before it.
        let text = output.plain_text();
        let line = text.lines().rev().find_map(|line| line.strip_prefix(EXIT));
        command.exit = line.map(str::to_owned);
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
