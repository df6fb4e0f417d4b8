//! A scene of the suite: a directory, a model, servers with all their lives, and
//! the jobs that were given to them.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::api::{Answer, Api};
use super::follow::{Follower, Reach};
use super::leftovers::{self, Watch};
use super::model::{Model, Plan};
use super::process::{GLANCE, Launch, Server, was_killed};
use super::verify::{self, Log};
use super::violation::{Violation, ensure};

/// How long acknowledged jobs may take to be over after the last kill.
pub(super) const OVER: Duration = Duration::from_secs(60);

/// How long an orderly stop may take: the grace is 5 seconds.
const STOPPING: Duration = Duration::from_secs(15);

/// How long what sandboxes leave may take to go.
const CLEAN: Duration = Duration::from_secs(30);

/// How a job is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Complete,
    Cancelled,
    /// In one way or another.
    Any,
}

/// A job that was given to a server.
pub(super) struct Job {
    pub(super) mark: String,
    pub(super) id: String,
    pub(super) expected: Expected,
    pub(super) follower: Option<Follower>,
}

/// One data directory, and the server that has it.
pub(super) struct Node {
    launch: Launch,
    pub(super) server: Option<Server>,
    pub(super) reach: Arc<Reach>,
    pub(super) watch: Watch,
    /// Where its next lives kill themselves. Further ones do not.
    pub(super) lives: VecDeque<String>,
    /// Whether it is started again when it has died.
    pub(super) revived: bool,
    pub(super) deaths: usize,
    /// The length of its log when its server was last started.
    logged: usize,
}

/// A scene.
pub(super) struct Scene {
    directory: TempDir,
    pub(super) model: Model,
    pub(super) nodes: Vec<Node>,
    pub(super) jobs: Vec<Job>,
    token: String,
    made: usize,
}

impl Node {
    /// Asks its server to stop.
    pub(super) fn ask_to_stop(&self) {
        self.server.iter().for_each(|server| server.signal(Signal::TERM));
    }

    /// Halts its server, as a machine that is out of reach.
    pub(super) fn halt(&self) {
        self.server.iter().for_each(|server| server.signal(Signal::STOP));
        self.reach.hide();
    }

    /// Lets it go on.
    pub(super) fn go_on(&self) {
        self.server.iter().for_each(|server| server.signal(Signal::CONT));
        self.reach.show();
    }

    /// Waits until its server has ended by itself.
    pub(super) fn left_within(&mut self, patience: Duration) -> Result<ExitStatus, Violation> {
        let Some(mut server) = self.server.take() else {
            return Err(Violation("the server does not run".to_owned()));
        };
        self.reach.set(None, "");
        server.ends_within(patience)
    }

    /// Waits until its servers have said something since the last start.
    pub(super) fn says(&self, words: &str, patience: Duration) -> Result<(), Violation> {
        let deadline = Instant::now() + patience;
        loop {
            let log = std::fs::read(&self.launch.log)?;
            let since = log.get(self.logged..).unwrap_or_default();
            if String::from_utf8_lossy(since).contains(words) {
                return Ok(());
            }
            ensure(Instant::now() < deadline, || format!("the server never said {words:?}"))?;
            thread::sleep(GLANCE);
        }
    }
}

impl Scene {
    /// A scene with so many servers, none of which runs yet.
    pub(super) fn new(
        binary: &Path,
        database: Option<String>,
        servers: usize,
        words: &[&str],
    ) -> Result<Self, Violation> {
        let directory = tempfile::Builder::new().prefix("cofferdam-crash-").tempdir()?;
        let model = Model::start()?;
        let mut nodes = Vec::new();
        for number in 0..servers {
            let data: PathBuf = directory.path().join(format!("data-{number}"));
            let watch = Watch::begin(&data)?;
            let launch = Launch {
                binary: binary.to_owned(),
                data,
                database: database.clone(),
                model: model.url(),
                log: directory.path().join(format!("log-{number}")),
                fail_at: None,
                words: ["--grace", "5s"].iter().chain(words).map(|word| (*word).into()).collect(),
            };
            nodes.push(Node {
                launch,
                server: None,
                reach: Arc::default(),
                watch,
                lives: VecDeque::new(),
                revived: true,
                deaths: 0,
                logged: 0,
            });
        }
        let (jobs, token) = (Vec::new(), String::new());
        Ok(Self { directory, model, nodes, jobs, token, made: 0 })
    }

    /// Plays in the scene. If that fails, what it used is kept and named.
    pub(super) fn play<T>(
        mut self,
        act: impl FnOnce(&mut Self) -> Result<T, Violation>,
    ) -> Result<T, Violation> {
        act(&mut self).map_err(|Violation(what)| {
            self.directory.disable_cleanup(true);
            Violation(format!("{what} (see {})", self.directory.path().display()))
        })
    }

    /// Starts a server of the scene.
    pub(super) fn start(&mut self, number: usize) -> Result<(), Violation> {
        let token = self.token.clone();
        let node = self.node(number)?;
        node.launch.fail_at = node.lives.pop_front();
        node.logged = std::fs::read(&node.launch.log).map_or(0, |log| log.len());
        let mut server = Server::start(&node.launch)?;
        let token = server.token.take().unwrap_or(token);
        node.reach.set(server.address, &token);
        node.server = Some(server);
        self.token = token;
        Ok(())
    }

    pub(super) fn node(&mut self, number: usize) -> Result<&mut Node, Violation> {
        let node = self.nodes.get_mut(number);
        node.ok_or_else(|| Violation(format!("there is no server {number}")))
    }

    /// Starts servers that have died again, if they are to be.
    pub(super) fn tend(&mut self) -> Result<(), Violation> {
        for number in 0..self.nodes.len() {
            let node = self.node(number)?;
            let Some(server) = &mut node.server else { continue };
            if !server.has_ended()? {
                continue;
            }
            let status = server.ends_within(Duration::ZERO)?;
            ensure(was_killed(status), || format!("a server ended with {status}"))?;
            node.deaths += 1;
            node.reach.set(None, "");
            node.server = None;
            // A token that was made and never shown is in a file.
            let kept = std::fs::read_to_string(node.launch.data.join("token"));
            let revived = node.revived;
            if self.token.is_empty() {
                self.token = kept.unwrap_or_default().trim().to_owned();
            }
            if revived {
                self.start(number)?;
            }
        }
        Ok(())
    }

    /// Kills a server, to be started again by whoever tends.
    pub(super) fn kill(&mut self, number: usize) -> Result<(), Violation> {
        match &mut self.node(number)?.server {
            Some(server) => server.kill(),
            None => Ok(()),
        }
    }

    /// Waits until something is so; dead servers are tended meanwhile.
    pub(super) fn until(
        &mut self,
        what: &str,
        patience: Duration,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, Violation>,
    ) -> Result<(), Violation> {
        let deadline = Instant::now() + patience;
        loop {
            self.tend()?;
            if is_so(self)? {
                return Ok(());
            }
            ensure(Instant::now() < deadline, || format!("in vain: {what}"))?;
            thread::sleep(GLANCE);
        }
    }

    /// A server that is there.
    pub(super) fn api(&self) -> Option<Api> {
        self.nodes.iter().find_map(|node| node.reach.api())
    }

    /// Asks until somebody answers with something else than "not now".
    pub(super) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer, Violation> {
        let mut found = None;
        self.until(&format!("an answer to {method} {path}"), OVER, |scene| {
            let apis: Vec<Api> = scene.nodes.iter().filter_map(|node| node.reach.api()).collect();
            for api in apis {
                let answer: io::Result<Answer> = api.ask(method, path, headers, body);
                found = answer.ok().filter(|answer| !matches!(answer.status, 429 | 503));
                if found.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        found.ok_or_else(|| Violation("no answer".to_owned()))
    }

    /// Submits a job under one key until it is acknowledged, and follows it.
    pub(super) fn submit(&mut self, plan: Plan, expected: Expected) -> Result<usize, Violation> {
        self.made += 1;
        let mark = format!("j{}", self.made);
        let key = format!("key-{mark}");
        let body = json!({ "task": plan.task(&mark), "checks": ["test -d /workspace"] });
        let headers = [("idempotency-key", key.as_str())];
        let answer = self.ask("POST", "/api/v1/jobs", &headers, Some(&body))?;
        ensure(answer.is_good(), || format!("a job was refused: {}", answer.text()))?;
        let id = answer.json()?.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let servers = self.nodes.iter().map(|node| Arc::clone(&node.reach)).collect();
        let follower = Some(Follower::start(id.clone(), servers));
        self.jobs.push(Job { mark, id, expected, follower });
        Ok(self.jobs.len() - 1)
    }

    /// What a job is at.
    pub(super) fn job(&mut self, number: usize) -> Result<Value, Violation> {
        let id = self.id(number)?;
        let answer = self.ask("GET", &format!("/api/v1/jobs/{id}"), &[], None)?;
        ensure(answer.status == 200, || format!("job {id} is gone: {}", answer.text()))?;
        Ok(answer.json()?)
    }

    pub(super) fn id(&self, number: usize) -> Result<String, Violation> {
        let job = self.jobs.get(number).map(|job| job.id.clone());
        job.ok_or_else(|| Violation(format!("there is no job {number}")))
    }

    /// The number of the last event of a job that its reader has seen.
    pub(super) fn seen(&self, number: usize) -> u64 {
        let follower = self.jobs.get(number).and_then(|job| job.follower.as_ref());
        follower.map_or(0, Follower::seen)
    }

    /// Tells a job something, until that is acknowledged.
    pub(super) fn order(&mut self, number: usize, order: &str) -> Result<(), Violation> {
        let id = self.id(number)?;
        let answer = self.ask("POST", &format!("/api/v1/jobs/{id}/{order}"), &[], None)?;
        // Asked again because the answer was lost, it may be done already.
        let done = answer.is_good() || answer.status == 409;
        ensure(done, || format!("{order} was refused: {}", answer.text()))
    }

    /// Waits until every reader of a job has seen an event of this kind.
    pub(super) fn all_reached(&mut self, kind: &str) -> Result<(), Violation> {
        let needle = format!(r#""event":"{kind}""#);
        for number in 0..self.jobs.len() {
            let id = self.id(number)?;
            self.until(&format!("{kind} in {id}"), OVER, |scene| {
                let Some(api) = scene.api() else { return Ok(false) };
                let lines = verify::lines(&api, &id).unwrap_or_default();
                Ok(lines.iter().any(|line| line.contains(&needle)))
            })?;
        }
        Ok(())
    }

    /// Waits until all jobs are over.
    pub(super) fn all_over(&mut self, patience: Duration) -> Result<(), Violation> {
        let deadline = Instant::now() + patience;
        for number in 0..self.jobs.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut last = Value::Null;
            let waited = self.until("the end of a job", left, |scene| {
                last = scene.job(number)?;
                Ok(is_over(&last))
            });
            waited.map_err(|Violation(what)| Violation(format!("{what}: {last}")))?;
        }
        Ok(())
    }

    /// Checks everything that must be true of the jobs that are over, and forgets
    /// them. How many there were.
    pub(super) fn verify(&mut self) -> Result<usize, Violation> {
        let jobs = std::mem::take(&mut self.jobs);
        let count = jobs.len();
        for mut job in jobs {
            let verified = self.verify_job(&mut job);
            verified.map_err(|Violation(what)| {
                Violation(format!("job {} ({}): {what}", job.id, job.mark))
            })?;
        }
        Ok(count)
    }

    fn verify_job(&mut self, job: &mut Job) -> Result<(), Violation> {
        let apis: Vec<Api> = self.nodes.iter().filter_map(|node| node.reach.api()).collect();
        let Some(api) = apis.first() else { return Err(Violation("no server runs".into())) };
        let followed = match job.follower.take() {
            Some(follower) => follower.finish(OVER)?,
            None => Vec::new(),
        };
        let lines = verify::lines(api, &job.id)?;
        ensure(followed == lines, || {
            "what was read over time is not, byte for byte, what is stored".to_owned()
        })?;
        let log = Log::read(&lines)?;
        log.ended_as(job.expected)?;
        log.calls(job, &self.model)?;
        log.questions(job, &self.model)?;
        if let [node] = &*self.nodes {
            let kept = node.launch.data.join(format!("blobs/blobs/jobs+/{}+", job.id));
            let kept = leftovers::names(&kept);
            let zips = kept.iter().filter(|name| name.ends_with("-output.zip")).count();
            let trails = kept.iter().filter(|name| name.contains("-audit-")).count();
            // One trail for each sandbox it has had.
            ensure(zips == 1 && trails > 0 && zips + trails == kept.len(), || {
                format!("instead of a ZIP and its trails there is {kept:?}")
            })?;
        }
        // An archive is on the disk of the server that has made it.
        let delivered: Vec<_> = apis.iter().map(|api| verify::delivered(api, &job.id)).collect();
        let counter = delivered.into_iter().reduce(|first, next| first.or(next));
        log.effects(&counter.unwrap_or_else(|| Err(Violation("no server runs".into())))?)
    }

    /// Stops a server in an orderly way; nothing may be left of it.
    pub(super) fn stop(&mut self, number: usize) -> Result<(), Violation> {
        let node = self.node(number)?;
        let Some(mut server) = node.server.take() else { return Ok(()) };
        node.reach.set(None, "");
        server.signal(Signal::TERM);
        let status = server.ends_within(STOPPING)?;
        ensure(status.success(), || format!("a server that was to stop ended with {status}"))?;
        node.watch.clean_within(CLEAN)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            drop(node.server.take());
            node.watch.end_all();
        }
    }
}

/// Whether nothing follows.
pub(super) fn is_over(job: &Value) -> bool {
    let status = job.get("status").and_then(Value::as_str).unwrap_or_default();
    matches!(status, "complete" | "error" | "cancelled")
}
