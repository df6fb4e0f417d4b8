//! Commands in the background: each has a name, and a task that takes its output,
//! so that it never waits for us.
//!
//! A command and all it started are one: they end together, at the latest when
//! the tools are dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cofferdam_guest_protocol::{ExecReport, Leftovers};
use cofferdam_sandbox::{CallError, Process};
use cofferdam_types::{CallId, Content, Outcome, ToolOutput, ToolStatus};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::ending::{Ending, under};
use super::shell::Leaves;
use super::{ENOENT, PATIENCE, begin, lost, not_run, record};
use crate::cut::Recording;
use crate::outputs::Outputs;
use crate::tools::{Call, Tools, Watcher};
use crate::trouble::Trouble;

/// How long a command that was just started is looked at.
const FIRST_LOOK: Duration = Duration::from_millis(300);

/// How long new output is waited for, if nothing else is said.
const LOOK: u64 = 5;

/// Between asking a command to end and ending it.
const GRACE: Duration = Duration::from_secs(2);

/// How long the end of a command that is stopped is waited for.
const STOP: Duration = Duration::from_secs(20);

/// How long the back end is asked what a command's end means.
const OUTCOME: Duration = Duration::from_secs(10);

/// Commands that run at once, and names that are remembered.
const MOST_RUNNING: usize = 32;
const MOST_NAMES: usize = 256;

/// The commands in the background of a job.
#[derive(Default)]
pub(crate) struct Background {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    started: u32,
    jobs: BTreeMap<u32, Arc<Job>>,
    tasks: JoinSet<()>,
}

/// One command.
struct Job {
    log: Mutex<Log>,
    /// Whether there is something new, and whether it is over.
    news: watch::Sender<News>,
    stop: Notify,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct News {
    output: bool,
    over: bool,
}

/// What came since somebody last looked.
struct Log {
    outputs: Arc<Outputs>,
    call: CallId,
    parts: u32,
    recording: Recording,
    reported: Option<Arc<Reported>>,
    /// What that means, once somebody has asked.
    ending: Option<Ending>,
}

/// A command that is over, as far as its task could tell.
struct Reported {
    process: Process,
    report: Result<ExecReport, CallError>,
}

impl Log {
    fn new(outputs: &Arc<Outputs>, call: CallId) -> Self {
        let recording = Recording::of_call(outputs, call);
        let outputs = Arc::clone(outputs);
        Self { outputs, call, parts: 1, recording, reported: None, ending: None }
    }

    /// What is there, and a new place for what comes.
    fn take(&mut self) -> Recording {
        self.parts += 1;
        let name = format!("{}.{}", self.call, self.parts);
        std::mem::replace(&mut self.recording, Recording::new(&self.outputs, name))
    }
}

impl Job {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is there to be told.
    async fn news(&self, wanted: impl Fn(News) -> bool, most: Duration) {
        let mut news = self.news.subscribe();
        // Whether it came in time shows in what is there.
        drop(timeout(most, news.wait_for(|news| wanted(*news))).await);
    }

    /// Takes its output until its end.
    async fn follow(self: Arc<Self>, mut process: Process) {
        let mut kill_at = None;
        loop {
            let kill = async {
                match kill_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                chunk = process.next_output() => {
                    let Some(chunk) = chunk else { break };
                    // Both at once, so that no news is left of what was told.
                    let mut log = self.log();
                    record(&mut log.recording, chunk, process.offsets(), &Nobody);
                    self.news.send_modify(|news| news.output = true);
                }
                () = self.stop.notified() => {
                    process.signal(15);
                    kill_at = kill_at.or(Some(Instant::now() + GRACE));
                }
                () = kill => {
                    process.kill();
                    kill_at = Some(Instant::now() + GRACE);
                }
            }
        }
        let report = process.wait().await;
        self.log().reported = Some(Arc::new(Reported { process, report }));
        self.news.send_modify(|news| news.over = true);
    }

    /// How it ended; `None` while it runs.
    async fn ending(&self, tools: &Tools) -> Option<Ending> {
        let reported = {
            let log = self.log();
            if log.ending.is_some() {
                return log.ending.clone();
            }
            Arc::clone(log.reported.as_ref()?)
        };
        let Reported { process, report } = reported.as_ref();
        let outcome = match report {
            Ok(report) => match timeout(OUTCOME, tools.sandbox.outcome(process, report)).await {
                Ok(outcome) => outcome,
                Err(_) => Ok(Outcome::Lost { reason: "the sandbox does not answer".to_owned() }),
            },
            Err(error) => Err(error.clone()),
        };
        let outcome = outcome.unwrap_or_else(|error| Outcome::Lost { reason: error.to_string() });
        let left_running = report.as_ref().map_or(0, |report| report.left_running);
        let ending = Ending { outcome, left_running };
        self.log().ending = Some(ending.clone());
        Some(ending)
    }
}

/// Nobody looks at the output of a background command as it comes.
struct Nobody;

impl Watcher for Nobody {
    fn output(&self, _: &[u8]) {}
}

impl Background {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command and takes a first look at it.
    pub(super) async fn start(
        &self,
        tools: &Tools,
        call: &Call<'_>,
        script: &str,
    ) -> Result<ToolOutput, Trouble> {
        self.inner().make_room()?;
        let shell = &tools.shells.shell;
        let process = loop {
            let kind = shell.kind();
            let command = kind.command(&tools.sandbox, call, script, Leaves::Nothing);
            let command = command.leftovers(Leftovers::Kill);
            let Some(mut process) = begin(tools, call.call, command).await? else {
                return Ok(lost(Recording::new(&tools.outputs, call.call)).await);
            };
            match timeout(PATIENCE, process.started()).await {
                Ok(Ok(_)) => break process,
                Ok(Err(CallError::NotStarted { errno: ENOENT, .. })) if shell.is_missing(kind) => {
                    // The guest gives the name free once this is acknowledged.
                    drop(process.wait().await);
                }
                Ok(Err(error)) => return Err(not_run(&error)),
                Err(_) => return Ok(lost(Recording::new(&tools.outputs, call.call)).await),
            }
        };
        let job = Arc::new(Job {
            log: Mutex::new(Log::new(&tools.outputs, call.call)),
            news: watch::Sender::new(News::default()),
            stop: Notify::new(),
        });
        tools.something_stays();
        let number = {
            let mut inner = self.inner();
            inner.started += 1;
            let number = inner.started;
            inner.jobs.insert(number, Arc::clone(&job));
            inner.tasks.spawn(Arc::clone(&job).follow(process));
            number
        };
        job.news(|news| news.output || news.over, FIRST_LOOK).await;
        Ok(self.tell(tools, number, &job, Asked::Start).await)
    }

    /// What is new of a command.
    pub(super) async fn look(
        &self,
        tools: &Tools,
        name: &str,
        seconds: Option<u64>,
        stop: bool,
    ) -> Result<ToolOutput, Trouble> {
        let (number, job) = self.inner().find(name)?;
        if stop {
            job.stop.notify_one();
            job.news(|news| news.over, STOP).await;
            return Ok(self.tell(tools, number, &job, Asked::Stop).await);
        }
        let most = Duration::from_secs(seconds.unwrap_or(LOOK));
        job.news(|news| news.output || news.over, most).await;
        Ok(self.tell(tools, number, &job, Asked::Look).await)
    }

    async fn tell(&self, tools: &Tools, number: u32, job: &Job, asked: Asked) -> ToolOutput {
        // In this order: what comes between the two is told next time.
        let ending = job.ending(tools).await;
        let recording = {
            let mut log = job.log();
            job.news.send_modify(|news| news.output = false);
            log.take()
        };
        let quiet = recording.is_empty();
        let shown = recording.finish().await;
        let (status, state) = match &ending {
            Some(ending) => {
                let status = match asked {
                    Asked::Start => ending.status(),
                    Asked::Look | Asked::Stop => ToolStatus::Done,
                };
                (status, format!("p{number} has ended, {}", ending.text(None)))
            }
            None => match asked {
                Asked::Start => (ToolStatus::Done, format!("p{number} has started and is running")),
                Asked::Look if quiet => {
                    (ToolStatus::Done, format!("p{number} is running; no new output"))
                }
                Asked::Look => (ToolStatus::Done, format!("p{number} is running")),
                Asked::Stop => {
                    (ToolStatus::Failed, format!("p{number} was told to end and still runs"))
                }
            },
        };
        let content = vec![Content::text(under(&shown, &state))];
        ToolOutput { content, rest: shown.rest, ..ToolOutput::text(status, "") }
    }
}

/// What was asked about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Start,
    Look,
    Stop,
}

impl Inner {
    /// Forgets commands that are over, and refuses when too many run.
    fn make_room(&mut self) -> Result<(), Trouble> {
        while self.tasks.try_join_next().is_some() {}
        let running = self.jobs.values().filter(|job| !job.news.borrow().over).count();
        if running >= MOST_RUNNING {
            return Err(Trouble::Failed(format!(
                "bash: {running} processes run in the background already; stop one first"
            )));
        }
        while self.jobs.len() >= MOST_NAMES {
            let over = self.jobs.iter().find(|(_, job)| job.news.borrow().over);
            let Some(number) = over.map(|(number, _)| *number) else { break };
            self.jobs.remove(&number);
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<(u32, Arc<Job>), Trouble> {
        let number = name.strip_prefix('p').and_then(|number| number.parse::<u32>().ok());
        let found = number.and_then(|number| Some((number, Arc::clone(self.jobs.get(&number)?))));
        found.ok_or_else(|| {
            let names: Vec<String> = self.jobs.keys().map(|number| format!("p{number}")).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Trouble::Refused(format!(
                "bash: there is no background process `{name}`; known: {names}"
            ))
        })
    }
}
