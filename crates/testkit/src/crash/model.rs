//! The model that the suite's jobs are done by. It lives in the suite's process, so
//! that it outlives the servers, and finds in each request how far the job is.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::script::{Fault, ScriptedAnswer, Turn};
use crate::server::{Recorded, ScriptedServer};

/// What stands before a job's mark in its task.
const MARK: &str = "The mark of this job is ";

/// Calls of one answer of [`Plan::Many`].
const MANY: usize = 25;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// A file, then so many commands that each count themselves, one at a time.
    Count(usize),
    /// One command that ends when it is ended.
    Endless,
    /// So many answers with many quick commands each: a job of many events.
    Many(usize),
}

impl Plan {
    /// The task of a job of this mark.
    pub(super) fn task(self, mark: &str) -> String {
        let plan = match self {
            Self::Count(steps) => format!("count {steps}"),
            Self::Endless => "endless 0".to_owned(),
            Self::Many(turns) => format!("many {turns}"),
        };
        format!("{MARK}{mark} {plan} .")
    }

    /// The mark and the plan that a task tells.
    fn told(text: &str) -> Option<(String, Self)> {
        let mut words = text.split_once(MARK)?.1.split(' ');
        let mark = words.next()?.to_owned();
        let (kind, number) = (words.next()?, words.next()?.parse().ok()?);
        let plan = match kind {
            "count" => Self::Count(number),
            "endless" => Self::Endless,
            _ => Self::Many(number),
        };
        Some((mark, plan))
    }

    /// What is counted in the answer of this number: each a line in `counter.txt`.
    fn steps(self, turn: usize) -> Vec<String> {
        match self {
            Self::Count(steps) if (1..=steps).contains(&turn) => vec![format!("run-{turn}")],
            Self::Endless if turn == 0 => vec!["run-0".to_owned()],
            Self::Many(turns) if turn < turns => {
                (0..MANY).map(|call| format!("run-{turn}-{call}")).collect()
            }
            _ => Vec::new(),
        }
    }

    fn answer(self, turn: usize) -> Turn {
        let command = |step: &String| {
            let command = match self {
                Self::Count(_) => {
                    format!(
                        "echo begun; sleep 0.1; echo {step} >> counter.txt; sleep 0.2; echo {step}"
                    )
                }
                Self::Endless => format!("echo {step} >> counter.txt; echo begun; sleep 1000"),
                Self::Many(_) => format!("echo {step} >> counter.txt"),
            };
            ("bash".to_owned(), json!({ "command": command }))
        };
        let mut calls: Vec<(String, Value)> = self.steps(turn).iter().map(command).collect();
        if matches!(self, Self::Count(_)) && turn == 0 {
            let arguments = json!({ "path": "notes.txt", "content": "a note\n" });
            calls.push(("write_file".to_owned(), arguments));
        }
        if calls.is_empty() {
            return Turn::text("It is done.");
        }
        let text = "I shall do the next step.".to_owned();
        Turn::Answer(ScriptedAnswer { text, calls, ..ScriptedAnswer::default() })
    }
}

#[derive(Default)]
struct State {
    /// How often the answer of this number was asked for in the job of this mark.
    asked: HashMap<(String, usize), usize>,
    /// The jobs that were told of a call whose end is not known.
    doubts: HashSet<String>,
    /// What happens to the next answer of this number, once.
    fault: Option<(usize, Fault)>,
    struck: bool,
}

/// The model.
pub(super) struct Model {
    state: Arc<Mutex<State>>,
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Model {
    pub(super) fn start() -> io::Result<Self> {
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let script = move |request: &Recorded, _| lock(&shared).answer(request);
        let server = runtime.block_on(ScriptedServer::with(script))?;
        let url = format!("{}/v1", server.base_url());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            // Ends when it is told, or when nobody can tell it any more.
            runtime.block_on(stopped).ok();
            drop(server);
        });
        Ok(Self { state, url, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// Has something happen to the next answer of this number in any job.
    pub(super) fn strike(&self, turn: usize, fault: Fault) {
        let mut state = lock(&self.state);
        state.fault = Some((turn, fault));
        state.struck = false;
    }

    /// Whether that has happened.
    pub(super) fn has_struck(&self) -> bool {
        lock(&self.state).struck
    }

    /// How often the answer of this number was asked for.
    pub(super) fn asked(&self, mark: &str, turn: usize) -> usize {
        lock(&self.state).asked.get(&(mark.to_owned(), turn)).copied().unwrap_or(0)
    }

    /// Whether the job was told of a call whose end is not known.
    pub(super) fn doubts(&self, mark: &str) -> bool {
        lock(&self.state).doubts.contains(mark)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that has panicked has said so.
        self.thread.take().map(JoinHandle::join);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn answer(&mut self, request: &Recorded) -> Turn {
        let text = request.body.to_string();
        let Some((mark, plan)) = Plan::told(&text) else { return Turn::text("Who asks?") };
        let messages = request.body.get("messages").and_then(Value::as_array);
        let answers = |message: &&Value| message.get("role") == Some(&json!("assistant"));
        let turn = messages.map_or(0, |messages| messages.iter().filter(answers).count());
        if text.contains("not known") {
            self.doubts.insert(mark.clone());
        }
        *self.asked.entry((mark, turn)).or_default() += 1;
        match self.fault.take_if(|(struck, _)| *struck == turn) {
            Some((_, fault)) => {
                self.struck = true;
                plan.answer(turn).but(fault)
            }
            None => plan.answer(turn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_tells_its_mark_and_plan() {
        for plan in [Plan::Count(3), Plan::Endless, Plan::Many(40)] {
            assert_eq!(Plan::told(&plan.task("j7")), Some(("j7".to_owned(), plan)));
        }
        assert_eq!(Plan::told("Write a hello world script"), None);
    }
}
