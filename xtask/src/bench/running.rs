//! A command in a sandbox that runs already, as the library's caller sees it.

use std::time::{Duration, Instant};

use anyhow::bail;
use cofferdam_sandbox::Sandbox;

use super::Setting;
use super::containers::Containers as _;
use super::engines::Engines;
use super::library::{Library, run_true};
use super::program::{self, Companion};
use super::race::{Contender, Finish};
use super::report::{Table, digits, microseconds};

/// What everything is compared with.
const BARE: &str = "bare spawn and wait";

/// These turns are short and their differences small: so many for each of the
/// long ones.
const MORE: usize = 10;

/// Those who take part.
pub(super) fn contenders<'a>(
    setting: &'a Setting,
    engines: &'a Engines,
    sandbox: &'a Sandbox,
) -> Vec<Contender<'a>> {
    let turns = setting.rounds;
    let library = &setting.library;
    let docker = engines.docker.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"));
    let docker = docker.map(|docker| {
        let mut command = docker.running();
        move || program::time(&mut command)
    });
    vec![
        Contender::new(BARE, turns * MORE, bare),
        Contender::new("cofferdam, Sandbox::run", turns * MORE, || inside(library, sandbox)),
        Contender::prepared("docker exec", turns, docker),
    ]
}

fn bare() -> anyhow::Result<Duration> {
    let mut command = program::command("/bin/true");
    let start = Instant::now();
    let mut child = Companion(command.spawn()?);
    let status = child.wait()?;
    let taken = start.elapsed();
    if !status.success() {
        bail!("/bin/true ended with {status}");
    }
    Ok(taken)
}

fn inside(library: &Library, sandbox: &Sandbox) -> anyhow::Result<Duration> {
    library.wait(async {
        let start = Instant::now();
        run_true(sandbox).await?;
        Ok(start.elapsed())
    })
}

/// What was measured.
pub(super) fn table(finishes: &[Finish]) -> Table {
    let columns = [
        "`true` in a running sandbox",
        "min µs",
        "median µs",
        "p95 µs",
        "more µs",
        "x bare",
        "samples",
    ];
    let mut table = Table::new("2. A command in a running sandbox", &columns);
    let bare = finishes.iter().find(|finish| finish.name == BARE);
    let bare = bare.and_then(|finish| finish.times.as_ref().ok());
    for finish in finishes {
        match &finish.times {
            Ok(times) => {
                let more = bare.map(|bare| {
                    let difference = times.median().as_secs_f64() - bare.median().as_secs_f64();
                    (format!("{:.0}", difference * 1e6), digits(times.times(bare)))
                });
                let (more, ratio) = more.unwrap_or_default();
                table.row([
                    finish.name.clone(),
                    microseconds(times.min()),
                    microseconds(times.median()),
                    microseconds(times.p95()),
                    more,
                    ratio,
                    times.count().to_string(),
                ]);
            }
            Err(reason) => table.absent(&finish.name, reason),
        }
    }
    table
}
