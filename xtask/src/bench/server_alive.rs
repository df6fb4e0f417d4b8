//! Alive: many jobs whose commands all run at the same time.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use tokio::runtime::Runtime;

use super::process_table;
use super::server_health::Asker;
use super::server_jobs;
use super::server_load::Times;
use super::server_process::{Running, Usage};

/// What each command is, apart from the number, which no other program has.
const SECONDS: &str = "25.015625";

const PATIENCE: Duration = Duration::from_secs(300);

/// The pause between two looks at the commands.
const LOOK: Duration = Duration::from_millis(50);

/// What being alive together came to.
pub(super) struct Alive {
    pub(super) jobs: usize,
    /// The most commands that ran at one look.
    pub(super) most: usize,
    /// Until all of them ran, from the first submission.
    pub(super) until_all: Option<Duration>,
    pub(super) complete: usize,
    pub(super) usage: Usage,
    pub(super) health: Times,
}

pub(super) fn alive(
    runtime: &Runtime,
    (binary, directory): (&Path, &Path),
    jobs: usize,
) -> anyhow::Result<Alive> {
    let places = jobs.to_string();
    let server = Running::product(binary, directory, "alive", &["--jobs", &places])?;
    let health = Asker::start(&server)?;
    let begun = Instant::now();
    let task = format!("Run: sleep {SECONDS}");
    let taken = runtime.block_on(server_jobs::submit(&server, &task, jobs, 8))?;
    let (mut most, mut until_all, mut usage) = (0, None, server.usage());
    while until_all.is_none() {
        let now = commands();
        most = most.max(now);
        usage = server.usage();
        if now >= jobs {
            until_all = Some(begun.elapsed());
        }
        // Those that began first have ended by now.
        if begun.elapsed() > Duration::from_secs(25) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    runtime.block_on(server_jobs::wait_for(&server, "complete", jobs, PATIENCE))?;
    let health = health.stop()?;
    let listed = runtime.block_on(server_jobs::list(&server))?;
    let complete = taken.ids.iter().filter_map(|id| listed.get(id));
    let complete = complete.filter(|job| job.status == "complete").count();
    usage.most = server.usage().most;
    server.stop()?;
    if complete == 0 {
        bail!("no job is complete");
    }
    Ok(Alive { jobs, most, until_all, complete, usage, health })
}

/// How many of the commands run, as the host sees them.
fn commands() -> usize {
    let wanted = format!("sleep\0{SECONDS}\0");
    let all = process_table::all();
    let lines = all
        .iter()
        .filter_map(|entry| fs::read_to_string(format!("/proc/{}/cmdline", entry.process)).ok());
    lines.filter(|line| line.ends_with(&wanted)).count()
}
