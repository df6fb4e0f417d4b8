//! The burst: many jobs at once, each one command in a sandbox of its own; and many
//! that wait.

use std::io::{Cursor, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::runtime::Runtime;

use super::server_health::Asker;
use super::server_http::{Connection, Window};
use super::server_jobs;
use super::server_load::{Times, count};
use super::server_process::{Running, Usage, cpu_of_machine};
use super::server_race::{QUEUE, block};

/// Connections that submit.
const CONNECTIONS: usize = 8;

/// The smallest job that leaves something behind.
const TASK: &str = "Run: echo hi > out.txt";

/// Archives that are looked into.
const LOOKS: usize = 20;

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a burst came to.
pub(super) struct Burst {
    /// How many at once, if not as many as the server takes by itself.
    pub(super) places: Option<String>,
    pub(super) jobs: usize,
    /// Jobs that were acknowledged and are not complete.
    pub(super) lost: usize,
    /// Archives that were looked into, all good.
    pub(super) archives: usize,
    /// Until the last was taken, and until it had ended.
    pub(super) submitting: Duration,
    pub(super) submit: Times,
    pub(super) whole: Duration,
    pub(super) usage: Usage,
    /// CPU time of the machine meanwhile.
    pub(super) machine: Duration,
    pub(super) health: Times,
}

impl Burst {
    /// How many at once, in words.
    pub(super) fn at_once(&self) -> &str {
        self.places.as_deref().unwrap_or("as usual")
    }

    pub(super) fn a_second(&self) -> f64 {
        count(self.jobs) / self.whole.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Has so many jobs done; `places` is how many at once, if not as many as usual.
pub(super) fn burst(
    runtime: &Runtime,
    (binary, directory): (&Path, &Path),
    (round, jobs): (usize, usize),
    places: Option<&str>,
) -> anyhow::Result<Burst> {
    let mut options = QUEUE.to_vec();
    options.extend(places.iter().flat_map(|places| ["--jobs", places]));
    let name = format!("burst-{}-{round}", places.unwrap_or("default"));
    let server = Running::product(binary, directory, &name, &options)?;
    // One beforehand: the first sandbox copies the programs that it needs.
    runtime.block_on(async {
        server_jobs::submit(&server, TASK, 1, 1).await?;
        server_jobs::wait_for(&server, "complete", 1, PATIENCE).await
    })?;
    let health = Asker::start(&server)?;
    let (machine, before) = (cpu_of_machine(), server.usage().cpu);
    let begun = Instant::now();
    let taken = runtime.block_on(server_jobs::submit(&server, TASK, jobs, CONNECTIONS))?;
    runtime.block_on(server_jobs::wait_for(&server, "complete", jobs + 1, PATIENCE))?;
    let whole = begun.elapsed();
    let machine = cpu_of_machine().saturating_sub(machine);
    let mut usage = server.usage();
    usage.cpu = usage.cpu.saturating_sub(before);
    let health = health.stop()?;
    let listed = runtime.block_on(server_jobs::list(&server))?;
    let complete = |id: &&String| listed.get(*id).is_some_and(|job| job.status == "complete");
    let lost = taken.ids.len() - taken.ids.iter().filter(complete).count();
    let step = (taken.ids.len() / LOOKS).max(1);
    let looked: Vec<&String> = taken.ids.iter().step_by(step).take(LOOKS).collect();
    for id in &looked {
        let archive = runtime.block_on(archive(&server, id));
        check(&archive?).with_context(|| format!("the archive of {id}"))?;
    }
    let burst = Burst {
        places: places.map(str::to_owned),
        jobs,
        lost,
        archives: looked.len(),
        submitting: taken.elapsed,
        submit: taken.times,
        whole,
        usage,
        machine,
        health,
    };
    server.stop()?;
    Ok(burst)
}

async fn archive(server: &Running, id: &str) -> anyhow::Result<Vec<u8>> {
    let mut connection = Connection::open(server.address, Window::Usual).await?;
    let mut body = Vec::new();
    let request = server.requests().get(&format!("/jobs/{id}/output.zip"));
    match connection.ask(&request, &mut body).await? {
        200 => Ok(body),
        status => bail!("answered {status}"),
    }
}

/// Whether the archive has what the command wrote. Reading checks the sums.
fn check(bytes: &[u8]) -> anyhow::Result<()> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes))?;
    let names = archive.file_names().map(|name| name.map(String::from));
    let names = names.collect::<Result<Vec<String>, _>>()?;
    let name = names.iter().find(|name| name.rsplit('/').next() == Some("out.txt"));
    let name = name.with_context(|| format!("no out.txt among {names:?}"))?;
    let mut text = String::new();
    archive.by_name(name)?.read_to_string(&mut text)?;
    if text != "hi\n" || !names.iter().any(|name| name.ends_with("MANIFEST.json")) {
        bail!("out.txt is {text:?}, among {names:?}");
    }
    Ok(())
}

/// What a server with many waiting jobs came to.
pub(super) struct Queued {
    pub(super) jobs: usize,
    pub(super) usage: Usage,
    /// Before there were any.
    pub(super) empty: Usage,
    pub(super) health: Times,
}

/// Has so many jobs wait, behind one that does nothing.
pub(super) fn queued(
    runtime: &Runtime,
    (binary, directory): (&Path, &Path),
    jobs: usize,
) -> anyhow::Result<Queued> {
    let server = Running::product(binary, directory, "queued", &["--jobs", "1"])?;
    let empty = server.usage();
    runtime.block_on(block(&server, 1))?;
    let health = Asker::start(&server)?;
    let taken = runtime.block_on(server_jobs::submit(&server, TASK, jobs, CONNECTIONS))?;
    runtime.block_on(server_jobs::wait_for(&server, "pending", jobs, PATIENCE))?;
    let usage = server.usage();
    let health = health.stop()?;
    server.stop()?;
    Ok(Queued { jobs: taken.ids.len(), usage, empty, health })
}
