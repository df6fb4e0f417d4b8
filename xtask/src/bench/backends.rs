//! Back ends beside each other: how soon a sandbox runs its first command, cold and from the
//! pool, how fast commands and files are in one that runs, and what memory it costs, with
//! what the engines' own commands take for the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Args;
use cofferdam_sandbox::Sandbox;
use cofferdam_sandbox_oci::Kind;

use super::backends_memory::{self as memory, Share};
use super::backends_station::{self as station, Station};
use super::containers::Containers as _;
use super::docker::Docker;
use super::engines::Engines;
use super::library::Library;
use super::order::Order;
use super::podman::Podman;
use super::race::{self, Contender, Finish};
use super::report::{Table, digits, kibibytes, milliseconds};
use super::sample::Samples;
use super::{host, program, publish, rounds, seed};

/// A start from the pool takes less.
const POOL_GOAL: Duration = Duration::from_millis(5);

/// A command in a running sandbox is so many times faster than `docker exec`.
const COMMAND_GOAL: f64 = 30.0;

/// Short turns: so many for each of the long ones.
const MORE: usize = 5;

/// The file in an engine's own container.
const THEIR_FILE: &str = "/tmp/file";

const FROM_THE_POOL: &str = "from the pool";

/// The back ends.
const NAMES: [&str; 6] = ["native", "docker", "podman", "crun", "runc", "runsc"];

#[derive(Args)]
pub(super) struct BackendsBench {
    /// Turns of each contender
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rounds)]
    rounds: usize,
    /// Measure this back end alone; can be given more than once
    #[arg(long, value_name = "NAME", value_parser = NAMES)]
    only: Vec<String>,
    /// Write the report to this file as well
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Decides the order of turns [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl BackendsBench {
    /// Measures and prints the report.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        // Before anything of ours runs.
        let machine = host::describe();
        let directory = tempfile::Builder::new().prefix("cofferdam-bench-").tempdir()?;
        let library = Library::new(&directory.path().join("library"))?;
        let neighbours = Neighbours::prepare(&directory.path().join("engines"))?;
        let mut bench = Measuring {
            backends: self.backends(directory.path(), &neighbours, &library),
            library: &library,
            neighbours: &neighbours,
            rounds: self.rounds,
        };
        let seed = seed(self.seed);
        let mut text = format!(
            "# Back ends benchmark\n\n- {machine}\n- {}\n- seed {seed}",
            Engines::versions(&["docker", "podman", "crun", "runc", "runsc"])
        );
        let mut tables = bench.times(&mut Order::new(seed))?;
        tables.push(bench.memory()?);
        for table in tables {
            text += &format!("\n\n{}", table.markdown().trim_end());
        }
        text.push('\n');
        publish(&text, self.out.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Those that are wanted; what does not work says why.
    fn backends(
        &self,
        directory: &Path,
        neighbours: &Neighbours,
        library: &Library,
    ) -> Vec<Candidate> {
        let all = [None].into_iter().chain(Kind::ALL.map(Some));
        let wanted = all.map(|kind| (kind, kind.map_or("native", Kind::name)));
        let wanted = wanted
            .filter(|(_, name)| self.only.is_empty() || self.only.iter().any(|one| one == name));
        wanted
            .map(|(kind, name)| {
                let station = neighbours.environment(kind).and_then(|environment| {
                    Station::open(kind, directory.join(name), environment, library)
                });
                Candidate { name, station: station.map_err(|error| format!("{error:#}")) }
            })
            .collect()
    }
}

/// The engines with their own containers, of the host's `true`.
struct Neighbours {
    engines: Engines,
    podman: anyhow::Result<Podman>,
    /// A file on the host, and another name for it.
    file: String,
    copy: String,
}

impl Neighbours {
    fn prepare(directory: &Path) -> anyhow::Result<Self> {
        let engines = Engines::prepare(directory);
        let podman = match &engines.bundle {
            Ok(bundle) => Podman::prepare(&directory.join("podman"), &bundle.join("rootfs")),
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        let path = |name: &str| directory.join(name).display().to_string();
        let neighbours = Self { engines, podman, file: path("file"), copy: path("copy") };
        fs::write(&neighbours.file, station::content())?;
        Ok(neighbours)
    }

    /// The variables for an engine's programs.
    fn environment(&self, kind: Option<Kind>) -> anyhow::Result<Vec<(String, String)>> {
        let given = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
        let mut environment: Vec<_> = ["PATH", "HOME"].into_iter().filter_map(given).collect();
        match kind {
            Some(Kind::Docker) => match self.docker()?.address() {
                Some(address) => environment.push(("DOCKER_HOST".to_owned(), address)),
                None => environment
                    .extend(["DOCKER_HOST", "DOCKER_CONTEXT"].into_iter().filter_map(given)),
            },
            Some(Kind::Podman) => environment = self.podman()?.environment(),
            _ => {}
        }
        Ok(environment)
    }

    fn docker(&self) -> anyhow::Result<&Docker> {
        self.engines.docker.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))
    }

    fn podman(&self) -> anyhow::Result<&Podman> {
        self.podman.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))
    }

    /// Asks an engine that can be asked.
    fn client(&self, kind: Option<Kind>) -> Option<Command> {
        match kind {
            Some(Kind::Docker) => self.docker().ok().map(Docker::client),
            Some(Kind::Podman) => self.podman().ok().map(Podman::client),
            _ => None,
        }
    }
}

/// A back end, if it works.
struct Candidate {
    name: &'static str,
    station: Result<Station, String>,
}

impl Candidate {
    fn station(&self) -> anyhow::Result<&Station> {
        self.station.as_ref().map_err(|reason| anyhow::anyhow!("{reason}"))
    }
}

struct Measuring<'a> {
    backends: Vec<Candidate>,
    library: &'a Library,
    neighbours: &'a Neighbours,
    rounds: usize,
}

/// A turn of a program of the host's.
fn timed(
    command: anyhow::Result<Command>,
) -> anyhow::Result<impl FnMut() -> anyhow::Result<Duration>> {
    let mut command = command?;
    // It says why it does not work, where it does not.
    program::output(&mut command)?;
    Ok(move || program::time(&mut command))
}

impl Measuring<'_> {
    /// All times in one race, so that their numbers go together.
    fn times(&self, order: &mut Order) -> anyhow::Result<Vec<Table>> {
        let running: Vec<(&str, anyhow::Result<Sandbox>)> = self
            .backends
            .iter()
            .map(|backend| {
                let sandbox = backend.station().and_then(|station| station.sandbox(self.library));
                (backend.name, sandbox)
            })
            .collect();
        let mut contenders = self.starts();
        let starts = contenders.len();
        contenders.extend(self.commands(&running));
        let commands = contenders.len() - starts;
        contenders.extend(self.files(&running));
        let mut finishes = race::run(contenders, order, || self.library.go_on())?;
        let mut commanded = finishes.all.split_off(starts);
        let filed = commanded.split_off(commands);
        for sandbox in running.into_iter().filter_map(|(_, sandbox)| sandbox.ok()) {
            self.library.wait(async { Ok(sandbox.close().await?) })?;
        }
        let mut filed_table = file_table(&filed);
        filed_table.note(format!(
            "{} turns in random order, {} of them while something else ran",
            finishes.turns, finishes.disturbed
        ));
        Ok(vec![self.start_table(&finishes.all), command_table(&commanded), filed_table])
    }

    fn starts(&self) -> Vec<Contender<'_>> {
        let mut contenders = Vec::new();
        for backend in &self.backends {
            let pool = match backend.name {
                // There is nothing but a supervisor that could wait.
                name @ ("native" | "runsc") => format!("{name}, its supervisor ready"),
                name => format!("{name}, {FROM_THE_POOL}"),
            };
            let cold = backend.station().map(|station| || station.fresh(self.library));
            let pooled = backend.station().map(|station| || station.pooled(self.library));
            let name = format!("{}, cold", backend.name);
            contenders.push(Contender::prepared(name, self.rounds, cold));
            contenders.push(Contender::prepared(pool, self.rounds, pooled));
        }
        let docker = self.neighbours.docker().map(Docker::fresh);
        let podman = self.neighbours.podman().map(Podman::fresh);
        contenders.push(Contender::prepared("docker run --rm", self.rounds, timed(docker)));
        contenders.push(Contender::prepared("podman run --rm", self.rounds, timed(podman)));
        contenders
    }

    fn commands<'a>(
        &'a self,
        running: &'a [(&str, anyhow::Result<Sandbox>)],
    ) -> Vec<Contender<'a>> {
        let mut contenders: Vec<_> = running
            .iter()
            .map(|(name, sandbox)| {
                let turn = held(sandbox).map(|held| || station::command(self.library, held));
                Contender::prepared(*name, self.rounds * MORE, turn)
            })
            .collect();
        let docker = self.neighbours.docker().map(Docker::running);
        let podman = self.neighbours.podman().map(Podman::running);
        contenders.push(Contender::prepared("docker exec", self.rounds, timed(docker)));
        contenders.push(Contender::prepared("podman exec", self.rounds, timed(podman)));
        contenders
    }

    fn files<'a>(&'a self, running: &'a [(&str, anyhow::Result<Sandbox>)]) -> Vec<Contender<'a>> {
        let mut contenders = Vec::new();
        for (name, sandbox) in running {
            let write = held(sandbox).map(|held| || station::write(self.library, held));
            let read = held(sandbox).map(|held| || station::read(self.library, held));
            let turns = self.rounds * MORE;
            contenders.push(Contender::prepared(format!("{name}, write"), turns, write));
            contenders.push(Contender::prepared(format!("{name}, read"), turns, read));
        }
        let Neighbours { file, copy, .. } = self.neighbours;
        let docker = |inwards: bool| {
            let docker = self.neighbours.docker()?;
            let there = format!("{}:{THEIR_FILE}", docker.name());
            Ok(if inwards { docker.copy(file, &there) } else { docker.copy(&there, copy) })
        };
        let podman = |inwards: bool| {
            let podman = self.neighbours.podman()?;
            let there = format!("{}:{THEIR_FILE}", podman.name());
            Ok(if inwards { podman.copy(file, &there) } else { podman.copy(&there, copy) })
        };
        for (name, inwards) in [("write", true), ("read", false)] {
            let turn = timed(docker(inwards));
            contenders.push(Contender::prepared(format!("docker cp, {name}"), self.rounds, turn));
            let turn = timed(podman(inwards));
            contenders.push(Contender::prepared(format!("podman cp, {name}"), self.rounds, turn));
        }
        contenders
    }

    fn start_table(&self, finishes: &[Finish]) -> Table {
        let mut table = time_table(
            "1. Start to the end of the first command",
            "a new sandbox and `true`",
            finishes,
            |_| "docker run --rm",
            |finish, times, _| {
                finish.name.ends_with(FROM_THE_POOL).then(|| times.median() < POOL_GOAL)
            },
        );
        for station in self.backends.iter().filter_map(|backend| backend.station.as_ref().ok()) {
            let (open, run): (Vec<_>, Vec<_>) = station.parts.borrow().iter().copied().unzip();
            if let (Some(open), Some(run)) = (Samples::of(open), Samples::of(run)) {
                table.note(format!(
                    "{} when one waits, the medians of the parts: open {} ms, `true` {} ms",
                    station.name,
                    milliseconds(open.median()),
                    milliseconds(run.median()),
                ));
            }
        }
        table.note(format!(
            "goal: below {} ms from the pool; the engine starts the next container meanwhile; \
             closing is not measured, but is part of `run --rm`",
            milliseconds(POOL_GOAL)
        ));
        table
    }

    fn memory(&mut self) -> anyhow::Result<Table> {
        let columns = [
            "one that has nothing to do",
            "processes",
            "supervisor",
            "inside",
            "shim",
            "KiB in all",
        ];
        let mut table = Table::new("4. Memory", &columns);
        let some = |bytes: f64| if bytes > 0.0 { kibibytes(bytes) } else { String::new() };
        let mut row = |name: &str, share: anyhow::Result<Share>| match share {
            Ok(share) => table.row([
                name.to_owned(),
                share.processes.to_string(),
                some(share.supervisor),
                some(share.inside),
                some(share.keeper),
                kibibytes(share.sum()),
            ]),
            Err(error) => table.absent(name, &format!("{error:#}")),
        };
        for backend in &mut self.backends {
            if let Ok(station) = &mut backend.station {
                station.end_pool()?;
            }
        }
        for backend in &self.backends {
            self.library.go_on()?;
            let share = backend.station().and_then(|station| {
                memory::of_sandbox(station, self.neighbours.client(station.kind), self.library)
            });
            row(backend.name, share);
        }
        let docker = self.neighbours.docker();
        row(
            "`sleep` by docker run",
            docker.and_then(|docker| memory::of_container(docker.client(), docker.name())),
        );
        let podman = self.neighbours.podman();
        row(
            "`sleep` by podman run",
            podman.and_then(|podman| memory::of_container(podman.client(), podman.name())),
        );
        if let Some(daemons) = self.neighbours.docker().ok().and_then(Docker::daemon_memory) {
            table.note(format!(
                "dockerd and containerd have {} KiB besides, once for all",
                kibibytes(daemons)
            ));
        }
        table.note("PSS by smaps_rollup, after three seconds of idleness; shim: or conmon");
        Ok(table)
    }
}

fn held(sandbox: &anyhow::Result<Sandbox>) -> anyhow::Result<&Sandbox> {
    sandbox.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))
}

fn command_table(finishes: &[Finish]) -> Table {
    let is_ours = |finish: &Finish| !finish.name.ends_with("exec");
    let mut table = time_table(
        "2. A command in a running sandbox",
        "`true`",
        finishes,
        |_| "docker exec",
        |finish, times, base| {
            base.filter(|_| is_ours(finish)).map(|base| base.times(times) >= COMMAND_GOAL)
        },
    );
    table.note(format!("goal: {COMMAND_GOAL} times faster than `docker exec`"));
    table
}

fn file_table(finishes: &[Finish]) -> Table {
    let base = |finish: &Finish| {
        if finish.name.ends_with("write") { "docker cp, write" } else { "docker cp, read" }
    };
    let mut table = time_table("3. Files", "1 MiB", finishes, base, |_, _, _| None);
    table.note("ours through the guest, into memory; `cp` to a file of the host's");
    table
}

/// A table of times, with how many times as long the base takes, and whether a goal is met.
fn time_table(
    title: &str,
    subject: &str,
    finishes: &[Finish],
    base: impl Fn(&Finish) -> &'static str,
    goal: impl Fn(&Finish, &Samples, Option<&Samples>) -> Option<bool>,
) -> Table {
    let base_of = |finish: &Finish| {
        let name = base(finish);
        finishes.iter().find(|other| other.name == name)?.times.as_ref().ok()
    };
    let columns = [subject, "min ms", "median ms", "p95 ms", "samples", "x faster", "goal"];
    let goals: Vec<Option<bool>> = finishes
        .iter()
        .map(|finish| goal(finish, finish.times.as_ref().ok()?, base_of(finish)))
        .collect();
    let has_goal = goals.iter().any(Option::is_some);
    let columns = columns.get(..columns.len() - usize::from(!has_goal)).unwrap_or(&columns);
    let mut table = Table::new(title, columns);
    for (finish, goal) in finishes.iter().zip(goals) {
        match &finish.times {
            Ok(times) => table.row([
                finish.name.clone(),
                milliseconds(times.min()),
                milliseconds(times.median()),
                milliseconds(times.p95()),
                times.count().to_string(),
                base_of(finish).map(|base| digits(base.times(times))).unwrap_or_default(),
                goal.map(|met| if met { "met" } else { "missed" }).unwrap_or_default().to_owned(),
            ]),
            Err(reason) => table.absent(&finish.name, reason),
        }
    }
    if let Some(base) = finishes.first().map(base) {
        let (command, _) = base.split_once(',').unwrap_or((base, ""));
        table.note(format!("x faster: than `{command}`, by the medians"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(name: &str, milliseconds: u64) -> Finish {
        let times = Samples::of(vec![Duration::from_millis(milliseconds)]);
        Finish { name: name.to_owned(), times: times.ok_or_else(|| "absent".to_owned()) }
    }

    #[test]
    fn goals_are_those_of_our_rows_alone() {
        let table = command_table(&[
            finish("native", 2),
            finish("runc", 4),
            finish("docker exec", 90),
            finish("podman exec", 300),
        ]);
        let rows: Vec<_> = table
            .markdown()
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            rows,
            [
                " `true` min ms median ms p95 ms samples x faster goal ",
                " native 2.00 2.00 2.00 1 45.0 met ",
                " runc 4.00 4.00 4.00 1 22.5 missed ",
                " docker exec 90.0 90.0 90.0 1 1.00  ",
                " podman exec 300 300 300 1 0.30  ",
            ]
        );
    }

    #[test]
    fn files_are_compared_with_the_same_direction() {
        let table = file_table(&[
            finish("native, write", 1),
            finish("native, read", 2),
            finish("docker cp, write", 100),
            finish("docker cp, read", 50),
        ]);
        let text = table.markdown();
        let ratio = |name: &str| {
            let line = text.lines().find(|line| line.contains(name))?;
            line.split('|').nth(6).map(|cell| cell.trim().to_owned())
        };
        assert_eq!(ratio("native, write").as_deref(), Some("100"));
        assert_eq!(ratio("native, read").as_deref(), Some("25.0"));
        assert!(text.contains("than `docker cp`"), "{text}");
    }
}
