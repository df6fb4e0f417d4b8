//! Bench: how fast and how small the product is, beside what else there is.
//!
//! What is compared is measured in one run, in turns at random; the report says
//! on what machine. A tool that is missing is a row that says so. The numbers
//! are those of release builds: of the product, and of this program itself,
//! which takes part as the library's caller.

mod agent;
mod agent_contender;
mod agent_memory;
mod agent_tables;
mod agent_trial;
mod backends;
mod backends_memory;
mod backends_station;
mod containers;
mod context;
mod context_history;
mod context_memory;
mod context_prompt;
mod context_recall;
mod crowd;
mod desktop;
mod docker;
mod engines;
mod fork;
mod fresh;
mod host;
mod interruption;
mod leftovers;
mod library;
mod memory;
mod order;
mod podman;
mod process_table;
pub(crate) mod program;
mod race;
mod report;
mod running;
mod sample;
mod server;
mod server_alive;
mod server_burst;
mod server_health;
mod server_http;
mod server_jobs;
mod server_load;
mod server_peers;
mod server_process;
mod server_race;
mod server_readers;
mod server_tables;
mod stopwatch;
mod throughput;

use std::cell::RefCell;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};

use crate::build;
use engines::Engines;
use library::Library;
use order::Order;
use report::Table;

/// Measure the product.
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Sandboxes: time, memory, number, output, forks
    Sandbox(SandboxBench),
    /// The agent: start-up, shell turns, memory, the first request
    Agent(agent::AgentBench),
    /// The server: submissions, a burst of jobs, readers, memory
    Server(server::ServerBench),
    /// Context beyond the window: the next question, finding again, memory
    Context(context::ContextBench),
    /// Code cells and the desktop: start, screenshot, click, round trip, memory
    Desktop(desktop::DesktopBench),
    /// Back ends beside each other: start, command, files, memory
    Backends(backends::BackendsBench),
    #[command(hide = true)]
    Stopwatch(stopwatch::Serve),
}

#[derive(Args)]
struct SandboxBench {
    /// Turns of each contender
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = rounds)]
    rounds: usize,
    /// Less of everything: to see that it works, not for numbers to keep
    #[arg(long)]
    quick: bool,
    /// Measure this alone; can be given more than once
    #[arg(long, value_name = "SECTION")]
    only: Vec<Section>,
    /// The product's binary [default: it is built]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// `exec` as a program of its own [default: it is built]
    #[arg(long, value_name = "PATH")]
    exec: Option<PathBuf>,
    /// Write the report to this file as well
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Decides the order of turns [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    Fresh,
    Running,
    Memory,
    Crowd,
    Throughput,
    Fork,
}

/// How much of everything.
struct Scale {
    /// Sandboxes alive at once.
    crowd: usize,
    /// Sandboxes made and closed.
    turnover: usize,
    /// Bytes of output, and how often.
    output: u64,
    transfers: usize,
    /// Forks of each workspace.
    forks: usize,
}

const FULL: Scale = Scale { crowd: 200, turnover: 1000, output: 2 << 30, transfers: 5, forks: 20 };

const QUICK: Scale = Scale { crowd: 20, turnover: 20, output: 256 << 20, transfers: 3, forks: 5 };

/// Rounds of a quick run.
const QUICK_ROUNDS: usize = 8;

/// What all sections need.
struct Setting {
    /// The product's programs.
    binary: PathBuf,
    exec: PathBuf,
    /// For everything that is made meanwhile.
    directory: PathBuf,
    rounds: usize,
    scale: Scale,
    library: Library,
}

fn rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=100_000) => Ok(count),
        _ => Err("from 1 to 100000".to_owned()),
    }
}

/// The product's binary: the one that is named, or a new one.
fn product(root: &Path, named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(path) => fs::canonicalize(path).with_context(|| path.display().to_string()),
        None => build::release(root, "cofferdam"),
    }
}

/// A program as it is where somebody uses it, and as the others here are: copied there. What a
/// linker wrote lies in smaller pieces of the kernel's memory, and takes longer to start.
fn installed(program: &Path, directory: &Path) -> anyhow::Result<PathBuf> {
    let name = program.file_name().with_context(|| program.display().to_string())?;
    let copy = directory.join(name);
    fs::copy(program, &copy).with_context(|| format!("copy {}", program.display()))?;
    Ok(copy)
}

/// What decides the order of turns: what is given, or anything.
fn seed(given: Option<u64>) -> u64 {
    given.unwrap_or_else(|| RandomState::new().build_hasher().finish())
}

/// Prints a report, and keeps it where that is wanted.
fn publish(text: &str, out: Option<&Path>) -> anyhow::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())?;
    if let Some(path) = out {
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

impl Bench {
    /// Measures and prints the report.
    pub(crate) fn run(&self, root: &Path) -> anyhow::Result<ExitCode> {
        match &self.subject {
            Subject::Stopwatch(serve) => serve.run(),
            _ if cfg!(debug_assertions) => build::hand_over(root),
            Subject::Sandbox(bench) => bench.run(root),
            Subject::Agent(bench) => bench.run(root),
            Subject::Server(bench) => bench.run(root),
            Subject::Context(bench) => bench.run(root),
            Subject::Desktop(bench) => bench.run(),
            Subject::Backends(bench) => bench.run(),
        }
    }
}

impl SandboxBench {
    fn run(&self, root: &Path) -> anyhow::Result<ExitCode> {
        let binary = product(root, self.binary.as_deref())?;
        let exec = match &self.exec {
            Some(path) => path.clone(),
            None => build::exec(root)?,
        };
        // Before anything of ours runs.
        let machine = host::describe();
        allow_many_files();
        let directory = tempfile::Builder::new().prefix("cofferdam-bench-").tempdir()?;
        let setting = Setting {
            binary: installed(&binary, directory.path())?,
            exec: installed(&exec, directory.path())?,
            library: Library::new(&directory.path().join("library"))?,
            directory: directory.path().to_owned(),
            rounds: if self.quick { self.rounds.min(QUICK_ROUNDS) } else { self.rounds },
            scale: if self.quick { QUICK } else { FULL },
        };
        let seed = seed(self.seed);
        let versions = Engines::versions(&["bwrap", "crun", "runc", "docker"]);
        let mut text = format!("# Sandbox benchmark\n\n- {machine}\n- {versions}\n- seed {seed}");
        if self.quick {
            text += "\n- a quick run: its numbers are not to be kept";
        }
        let mut order = Order::new(seed);
        let mut well = true;
        for part in self.parts() {
            setting.library.go_on()?;
            match part.measure(&setting, &mut order) {
                Ok(measured) => {
                    well &= measured.well;
                    for table in &measured.tables {
                        text += &format!("\n\n{}", table.markdown().trim_end());
                    }
                }
                Err(error) => {
                    well = false;
                    text += &format!("\n\n## {}: failed\n\n- {error:#}", part.name());
                }
            }
        }
        text.push('\n');
        publish(&text, self.out.as_deref())?;
        Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// What is to be measured, in the order of the report.
    fn parts(&self) -> Vec<Part> {
        let wanted = |section: Section| self.only.is_empty() || self.only.contains(&section);
        let race = Part::Race { fresh: wanted(Section::Fresh), running: wanted(Section::Running) };
        let others = [
            (Section::Memory, Part::Memory),
            (Section::Crowd, Part::Crowd),
            (Section::Throughput, Part::Throughput),
            (Section::Fork, Part::Fork),
        ];
        let others = others.into_iter().filter(|(section, _)| wanted(*section));
        let race = [race].into_iter().filter(|race| *race != NO_RACE);
        race.chain(others.map(|(_, part)| part)).collect()
    }
}

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Race { fresh: bool, running: bool },
    Memory,
    Crowd,
    Throughput,
    Fork,
}

const NO_RACE: Part = Part::Race { fresh: false, running: false };

/// What a part came to.
struct Measured {
    tables: Vec<Table>,
    /// Nothing was found that must not be.
    well: bool,
}

impl From<Table> for Measured {
    fn from(table: Table) -> Self {
        Self { tables: vec![table], well: true }
    }
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Race { .. } => "1. and 2. Time",
            Self::Memory => "3. Idle memory",
            Self::Crowd => "4. A crowd",
            Self::Throughput => "5. Throughput",
            Self::Fork => "6. Workspace forks",
        }
    }

    fn measure(self, setting: &Setting, order: &mut Order) -> anyhow::Result<Measured> {
        writeln!(io::stderr(), "measuring: {}", self.name())?;
        match self {
            Self::Race { fresh, running } => race(setting, order, fresh, running),
            Self::Memory => memory::measure(setting).map(Measured::from),
            Self::Crowd => {
                let (table, well) = crowd::measure(setting)?;
                Ok(Measured { tables: vec![table], well })
            }
            Self::Throughput => throughput::measure(setting, order).map(Measured::from),
            Self::Fork => fork::measure(setting, order).map(Measured::from),
        }
    }
}

/// Sections 1 and 2 in one race, so that their numbers go together.
fn race(
    setting: &Setting,
    order: &mut Order,
    fresh: bool,
    running: bool,
) -> anyhow::Result<Measured> {
    let engines = Engines::prepare(&setting.directory.join("engines"));
    let parts = RefCell::default();
    let sandbox = setting.library.wait(setting.library.open())?;
    let mut contenders = Vec::new();
    if fresh {
        contenders.extend(fresh::contenders(setting, &engines, &parts));
    }
    let first_running = contenders.len();
    if running {
        contenders.extend(running::contenders(setting, &engines, &sandbox));
    }
    let mut finishes = race::run(contenders, order, || setting.library.go_on())?;
    let second = finishes.all.split_off(first_running);
    setting.library.wait(async { Ok(sandbox.close().await?) })?;
    let mut tables = Vec::new();
    if fresh {
        tables.push(fresh::table(&finishes.all, parts.into_inner()));
    }
    if running {
        tables.push(running::table(&second));
    }
    if let Some(table) = tables.last_mut() {
        table.note(format!(
            "{} turns in random order, {} of them while something else ran",
            finishes.turns, finishes.disturbed
        ));
    }
    Ok(Measured { tables, well: true })
}

/// Each sandbox takes a few descriptors of the process that holds it.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    // With fewer the crowd fails, and says so.
    program::ignore(setrlimit(
        Resource::Nofile,
        Rlimit { current: now.maximum, maximum: now.maximum },
    ));
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: SandboxBench,
    }

    fn parts(words: &[&str]) -> Vec<Part> {
        let line = Line::try_parse_from(["bench"].iter().chain(words)).unwrap();
        line.bench.parts()
    }

    #[test]
    fn everything_is_measured_unless_something_alone_is_wanted() {
        let all = Part::Race { fresh: true, running: true };
        assert_eq!(parts(&[]), [all, Part::Memory, Part::Crowd, Part::Throughput, Part::Fork]);
        assert_eq!(parts(&["--only", "crowd"]), [Part::Crowd]);
        let running = Part::Race { fresh: false, running: true };
        assert_eq!(parts(&["--only", "fork", "--only", "running"]), [running, Part::Fork]);
    }

    #[test]
    fn no_rounds_are_refused() {
        let line = |rounds| Line::try_parse_from(["bench", "--rounds", rounds]);
        assert!(line("0").is_err());
        assert_eq!(line("3").unwrap().bench.rounds, 3);
    }
}
