//! Readers of a job's events that come back after every loss of the connection
//! with the number of the last event they have seen.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::api::Api;
use super::process::GLANCE;
use super::violation::{Violation, ensure};

/// Where a server is at the moment, if it is anywhere.
#[derive(Debug, Default)]
pub(super) struct Reach {
    api: Mutex<Option<Api>>,
    hidden: AtomicBool,
}

impl Reach {
    fn lock(&self) -> MutexGuard<'_, Option<Api>> {
        self.api.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, address: Option<SocketAddr>, token: &str) {
        *self.lock() = address.map(|address| Api { address, token: token.to_owned() });
    }

    pub(super) fn api(&self) -> Option<Api> {
        self.lock().clone().filter(|_| !self.hidden.load(Ordering::Relaxed))
    }

    /// Nobody asks it until it is shown again.
    pub(super) fn hide(&self) {
        self.hidden.store(true, Ordering::Relaxed);
    }

    pub(super) fn show(&self) {
        self.hidden.store(false, Ordering::Relaxed);
    }
}

/// A reader of one job, in a thread of its own.
pub(super) struct Follower {
    thread: Option<JoinHandle<Result<Vec<String>, Violation>>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    seen: AtomicU64,
}

impl Follower {
    /// Reads the events of a job from whichever of these servers is there.
    pub(super) fn start(job: String, servers: Vec<Arc<Reach>>) -> Self {
        let shared = Arc::<Shared>::default();
        let given = Arc::clone(&shared);
        let thread = thread::spawn(move || follow(&job, &servers, &given));
        Self { thread: Some(thread), shared }
    }

    /// The number of the last event that was seen.
    pub(super) fn seen(&self) -> u64 {
        self.shared.seen.load(Ordering::Relaxed)
    }

    /// The lines that were read, once the job's end is among them.
    pub(super) fn finish(mut self, patience: Duration) -> Result<Vec<String>, Violation> {
        let Some(thread) = self.thread.take() else { return Ok(Vec::new()) };
        let deadline = Instant::now() + patience;
        while !thread.is_finished() {
            ensure(Instant::now() < deadline, || {
                format!("a reader has not seen the end; its last event is {}", self.seen())
            })?;
            thread::sleep(GLANCE);
        }
        thread.join().unwrap_or_else(|_| Err(Violation("a reader broke".to_owned())))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

fn follow(job: &str, servers: &[Arc<Reach>], shared: &Shared) -> Result<Vec<String>, Violation> {
    let mut lines = Vec::new();
    for server in servers.iter().cycle() {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(api) = server.api() {
            match read(&api, job, &mut lines, shared) {
                Ok(()) if is_over(&lines) => return Ok(lines),
                // A broken connection is what the suite is about.
                Ok(()) | Err(Broken::Connection) => {}
                Err(Broken::Stream(violation)) => return Err(violation),
            }
        }
        thread::sleep(GLANCE);
    }
    Ok(lines)
}

fn is_over(lines: &[String]) -> bool {
    lines.last().is_some_and(|line| line.contains(r#""event":"ended""#))
}

enum Broken {
    Connection,
    Stream(Violation),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Connection
    }
}

/// Reads a stream until it ends.
fn read(api: &Api, job: &str, lines: &mut Vec<String>, shared: &Shared) -> Result<(), Broken> {
    let last = lines.len().to_string();
    let headers = [("accept", "text/event-stream"), ("last-event-id", last.as_str())];
    let (status, body) = api.begin("GET", &format!("/api/v1/jobs/{job}/events"), &headers, None)?;
    if status != 200 {
        return Err(Broken::Connection);
    }
    let mut id = None;
    let mut stream = BufReader::new(body);
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 || shared.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = line.trim_end_matches('\n');
        if let Some(number) = text.strip_prefix("id: ") {
            id = number.parse::<u64>().ok();
        } else if let Some(data) = text.strip_prefix("data: ") {
            let next = lines.len() as u64 + 1;
            if id != Some(next) {
                let what = format!("job {job}: after event {} came {id:?}", next - 1);
                return Err(Broken::Stream(Violation(what)));
            }
            lines.push(data.to_owned());
            shared.seen.store(next, Ordering::Relaxed);
        }
    }
}
