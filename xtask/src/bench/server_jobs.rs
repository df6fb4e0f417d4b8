//! A server's jobs, as the benchmark handles them: submitted, counted, listed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::task::JoinSet;

use super::server_http::{Connection, Window};
use super::server_load::Times;
use super::server_process::Running;
use super::server_race::job_id;

/// The time between two looks at how many there are.
const LOOK: Duration = Duration::from_millis(50);

/// Jobs that were taken, and how long each answer took.
pub(super) struct Taken {
    pub(super) ids: Vec<String>,
    pub(super) times: Times,
    pub(super) elapsed: Duration,
}

/// Submits the same task so many times, by several connections at once.
pub(super) async fn submit(
    server: &Running,
    task: &str,
    count: usize,
    connections: usize,
) -> anyhow::Result<Taken> {
    let json = serde_json::json!({ "task": task }).to_string();
    let request = Arc::new(server.requests().post("/schedule", &json));
    let begun = Instant::now();
    let mut submitting = JoinSet::new();
    for number in 0..connections {
        let request = Arc::clone(&request);
        let address = server.address;
        let share = count / connections + usize::from(number < count % connections);
        submitting.spawn(async move {
            let mut connection = Connection::open(address, Window::Usual).await?;
            let mut taken = Vec::new();
            let mut body = Vec::new();
            for _ in 0..share {
                let sent = Instant::now();
                let status = connection.ask(&request, &mut body).await?;
                if status != 202 {
                    bail!("answered {status}: {}", String::from_utf8_lossy(&body));
                }
                taken.push((job_id(&body)?, sent.elapsed()));
            }
            Ok(taken)
        });
    }
    let mut taken = Taken { ids: Vec::new(), times: Times::default(), elapsed: Duration::ZERO };
    while let Some(done) = submitting.join_next().await {
        let (ids, times): (Vec<_>, Vec<_>) =
            done.context("a submitter broke")??.into_iter().unzip();
        taken.ids.extend(ids);
        taken.times.extend(times);
    }
    taken.elapsed = begun.elapsed();
    Ok(taken)
}

/// Waits until so many jobs have this status.
pub(super) async fn wait_for(
    server: &Running,
    status: &str,
    wanted: usize,
    patience: Duration,
) -> anyhow::Result<()> {
    let request = server.requests().get("/api/v1/metrics");
    let key = format!("cofferdam_jobs{{status=\"{status}\"}} ");
    let mut connection = Connection::open(server.address, Window::Usual).await?;
    let mut body = Vec::new();
    let deadline = Instant::now() + patience;
    loop {
        connection.ask(&request, &mut body).await?;
        let text = String::from_utf8_lossy(&body);
        let found: Option<usize> =
            text.lines().find_map(|line| line.strip_prefix(&key)?.parse().ok());
        if found.context("the server does not count its jobs")? >= wanted {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("{} jobs are {status}, not {wanted}", found.unwrap_or(0));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A job, as the server lists it.
pub(super) struct Listed {
    pub(super) status: String,
    pub(super) last_event: u64,
}

/// All jobs that the server lists, by their ids.
pub(super) async fn list(server: &Running) -> anyhow::Result<HashMap<String, Listed>> {
    let mut connection = Connection::open(server.address, Window::Usual).await?;
    let mut body = Vec::new();
    let mut jobs = HashMap::new();
    let mut cursor = String::new();
    loop {
        let request = server.requests().get(&format!("/api/v1/jobs?limit=200{cursor}"));
        connection.ask(&request, &mut body).await?;
        let page: Value = serde_json::from_slice(&body)?;
        for job in page.get("jobs").and_then(Value::as_array).context("no list of jobs")? {
            let text = |name| job.get(name).and_then(Value::as_str).map(str::to_owned);
            let listed = Listed {
                status: text("status").context("a job without a status")?,
                last_event: job.get("last_event").and_then(Value::as_u64).unwrap_or(0),
            };
            jobs.insert(text("id").context("a job without an id")?, listed);
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(jobs),
        }
    }
}
