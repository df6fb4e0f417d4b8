//! A fresh sandbox: from nothing to the end of `true`, and to nothing again.

use std::cell::RefCell;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Setting;
use super::containers::Containers as _;
use super::engines::{self, Engines};
use super::library::{Library, run_true};
use super::program;
use super::race::{Contender, Finish};
use super::report::{Table, digits, milliseconds};
use super::sample::Samples;

/// What everything is compared with.
const RAW: &str = "raw fork+exec";

/// What bwrap is asked for: a place with nothing in it but a read-only host.
const BWRAP: [&str; 9] = [
    "--ro-bind",
    "/",
    "/",
    "--unshare-all",
    "--die-with-parent",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
];

/// The parts of a turn of the library.
#[derive(Default)]
pub(super) struct Parts {
    open: Vec<Duration>,
    run: Vec<Duration>,
    close: Vec<Duration>,
}

/// Those who take part.
pub(super) fn contenders<'a>(
    setting: &'a Setting,
    engines: &'a Engines,
    parts: &'a RefCell<Parts>,
) -> Vec<Contender<'a>> {
    let turns = setting.rounds;
    let home = setting.directory.join("product");
    let mut product = program::command(&setting.binary);
    product.env("COFFERDAM_HOME", &home).args(["exec", "--", "true"]);
    let mut exec = program::command(&setting.exec);
    exec.env("COFFERDAM_HOME", &home).args(["--", "true"]);
    let bwrap = program::find("bwrap").map(|path| {
        let mut command = program::command(path);
        command.args(BWRAP).arg("/bin/true");
        command
    });
    let docker = engines.docker.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"));
    let mut raw = program::command("/bin/true");
    vec![
        Contender::new(RAW, turns, move || program::time(&mut raw)),
        Contender::new("cofferdam, in one process", turns, || {
            in_process(&setting.library, &mut parts.borrow_mut())
        }),
        Contender::new("cofferdam, in one process, its supervisor ready", turns, || {
            setting.library.prepare();
            in_process(&setting.library, &mut Parts::default())
        }),
        Contender::prepared("cofferdam exec", turns, tried(Ok(product))),
        Contender::prepared("cofferdam-exec, the small program", turns, tried(Ok(exec))),
        Contender::prepared("bwrap, no system-call filter", turns, tried(bwrap)),
        crun(engines, turns),
        Contender::prepared("runc run", turns, tried(engines.runtime("runc"))),
        Contender::prepared("docker run", turns, tried(docker.map(|docker| docker.fresh()))),
    ]
}

/// A turn of a program that was seen to work.
fn tried(
    command: anyhow::Result<Command>,
) -> anyhow::Result<impl FnMut() -> anyhow::Result<Duration>> {
    let mut command = command?;
    program::output(&mut command)?;
    Ok(move || program::time(&mut command))
}

fn crun(engines: &Engines, turns: usize) -> Contender<'_> {
    let name = "crun run";
    let command = match engines.runtime("crun") {
        Ok(command) => command,
        Err(error) => return Contender::prepared(name, turns, Err::<fn() -> _, _>(error)),
    };
    let Err(refusal) = tried(engines.runtime("crun")) else {
        return Contender::prepared(name, turns, tried(Ok(command)));
    };
    let elsewhere = engines::without_unified_groups(&command).and_then(|mut stopwatch| {
        let first = stopwatch.time();
        first
            .map(|_| move || stopwatch.time())
            .map_err(|error| refusal.context(format!("{error:#}")))
    });
    Contender::prepared(format!("{name}, without version 2 groups"), turns, elsewhere)
}

fn in_process(library: &Library, parts: &mut Parts) -> anyhow::Result<Duration> {
    library.wait(async {
        let start = Instant::now();
        let sandbox = library.open().await?;
        let opened = start.elapsed();
        run_true(&sandbox).await?;
        let ran = start.elapsed();
        sandbox.close().await?;
        let closed = start.elapsed();
        parts.open.push(opened);
        parts.run.push(ran - opened);
        parts.close.push(closed - ran);
        Ok(closed)
    })
}

/// What was measured.
pub(super) fn table(finishes: &[Finish], parts: Parts) -> Table {
    let columns = ["start to end of `true`", "min ms", "median ms", "p95 ms", "x raw", "samples"];
    let mut table = Table::new("1. A fresh sandbox", &columns);
    let raw = finishes.iter().find(|finish| finish.name == RAW);
    let raw = raw.and_then(|finish| finish.times.as_ref().ok());
    for finish in finishes {
        match &finish.times {
            Ok(times) => table.row([
                finish.name.clone(),
                milliseconds(times.min()),
                milliseconds(times.median()),
                milliseconds(times.p95()),
                raw.map_or_else(String::new, |raw| digits(times.times(raw))),
                times.count().to_string(),
            ]),
            Err(reason) => table.absent(&finish.name, reason),
        }
    }
    let median = |times: Vec<Duration>| {
        Samples::of(times).map_or_else(|| "-".to_owned(), |times| milliseconds(times.median()))
    };
    table.note(format!(
        "in one process, the medians of the parts: open {} ms, run {} ms, close {} ms",
        median(parts.open),
        median(parts.run),
        median(parts.close),
    ));
    table
}
