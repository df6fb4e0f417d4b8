//! Readers: many that follow jobs live, and some among them that ask and then read
//! nothing.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::server_health::Asker;
use super::server_http::{Connection, Window};
use super::server_jobs;
use super::server_load::Times;
use super::server_process::{Running, Usage};

/// A task with many events: files are written, tests fail, are repaired and pass.
const TASK: &str = "Write a CSV filter with sample data and tests";

/// Readers of each job; the first of them reads nothing.
pub(super) const READERS: usize = 10;

const PATIENCE: Duration = Duration::from_secs(300);

/// What following came to.
pub(super) struct Followed {
    pub(super) jobs: usize,
    pub(super) readers: usize,
    pub(super) slow: usize,
    /// Readers that got every event in order, to the end.
    pub(super) whole: usize,
    pub(super) events: usize,
    /// From an event's time to its arrival, for those that came live.
    pub(super) lags: Times,
    pub(super) before: Usage,
    pub(super) after: Usage,
    pub(super) health: Times,
}

/// What one reader got.
struct Got {
    job: String,
    numbers: Vec<u64>,
    lags: Vec<Duration>,
}

pub(super) fn follow(
    runtime: &Runtime,
    (binary, directory): (&Path, &Path),
    jobs: usize,
) -> anyhow::Result<Followed> {
    let server = Running::product(binary, directory, "readers", &[])?;
    let before = server.usage();
    let health = Asker::start(&server)?;
    let (got, slow) = runtime.block_on(read_all(&server, jobs))?;
    let after = server.usage();
    let health = health.stop()?;
    let listed = runtime.block_on(server_jobs::list(&server))?;
    let ends: HashMap<&str, u64> =
        listed.iter().map(|(id, job)| (id.as_str(), job.last_event)).collect();
    let whole = got.iter().filter(|got| got.is_whole(ends.get(got.job.as_str()).copied())).count();
    let mut lags = Times::default();
    for got in &got {
        lags.extend(got.lags.iter().copied());
    }
    let followed = Followed {
        jobs,
        readers: got.len() + slow.len(),
        slow: slow.len(),
        whole,
        events: got.iter().map(|got| got.numbers.len()).sum(),
        lags,
        before,
        after,
        health,
    };
    drop(slow);
    server.stop()?;
    Ok(followed)
}

/// Follows all jobs to their ends. The slow ones are returned as they are.
async fn read_all(server: &Running, jobs: usize) -> anyhow::Result<(Vec<Got>, Vec<Connection>)> {
    let taken = server_jobs::submit(server, TASK, jobs, 8).await?;
    let mut reading = JoinSet::new();
    let mut slow = Vec::new();
    for id in taken.ids {
        let request = server.requests().events(&format!("/api/v1/jobs/{id}/events"));
        for number in 0..READERS {
            let (id, request, address) = (id.clone(), request.clone(), server.address);
            if number == 0 {
                let mut connection = Connection::open(address, Window::Narrow).await?;
                connection.begin(&request).await?;
                slow.push(connection);
                continue;
            }
            reading.spawn(async move {
                let connection = Connection::open(address, Window::Usual).await?;
                let reading = read(connection, id, &request);
                tokio::time::timeout(PATIENCE, reading).await.context("a stream does not end")?
            });
        }
    }
    let mut got = Vec::new();
    while let Some(done) = reading.join_next().await {
        got.push(done.context("a reader broke")??);
    }
    Ok((got, slow))
}

async fn read(mut connection: Connection, job: String, request: &[u8]) -> anyhow::Result<Got> {
    let head = connection.begin(request).await?;
    if head.status != 200 {
        bail!("events of {job}: answered {}", head.status);
    }
    // Events from before are replayed; they are not late.
    let since = now();
    let mut got = Got { job, numbers: Vec::new(), lags: Vec::new() };
    let mut text = Vec::new();
    while connection.chunk(&mut text).await? {
        let received = now();
        let whole = text.windows(2).rposition(|part| part == b"\n\n").map_or(0, |end| end + 2);
        for frame in String::from_utf8_lossy(text.get(..whole).unwrap_or_default()).split("\n\n") {
            let Some((number, at)) = event(frame) else { continue };
            got.numbers.push(number);
            if at >= since {
                got.lags.push(received.saturating_sub(at));
            }
        }
        text.drain(..whole);
    }
    Ok(got)
}

/// The number and the time of an event in a frame; `None` for a sign of life.
fn event(frame: &str) -> Option<(u64, Duration)> {
    let number = frame.lines().find_map(|line| line.strip_prefix("id: "))?.parse().ok()?;
    let (_, at) = frame.split_once("\"at\":")?;
    let at = at.split(',').next()?.parse().ok()?;
    Some((number, Duration::from_millis(at)))
}

impl Got {
    fn is_whole(&self, end: Option<u64>) -> bool {
        end.is_some_and(|end| self.numbers.iter().copied().eq(1..=end))
    }
}

#[expect(clippy::disallowed_methods, reason = "events carry the time of the clock on the wall")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_a_number_and_a_time() {
        let frame =
            "id: 7\nevent: paused\ndata: {\"v\":1,\"seq\":7,\"at\":1500,\"event\":\"paused\"}";
        assert_eq!(event(frame), Some((7, Duration::from_millis(1500))));
        assert_eq!(event(":"), None);
        assert_eq!(event("retry: 2000"), None);
    }

    #[test]
    fn a_gap_is_noticed() {
        let got = |numbers: &[u64]| Got {
            job: String::new(),
            numbers: numbers.to_vec(),
            lags: Vec::new(),
        };
        assert!(got(&[1, 2, 3]).is_whole(Some(3)));
        assert!(!got(&[1, 3]).is_whole(Some(3)));
        assert!(!got(&[1, 2]).is_whole(Some(3)), "it ended early");
        assert!(!got(&[1, 2, 2, 3]).is_whole(Some(3)));
        assert!(!got(&[1]).is_whole(None));
    }
}
