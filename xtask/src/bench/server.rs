//! The server with its model taken out: how many jobs it takes, tells of and does,
//! beside minimal orchestrators, and what it needs for that.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::runtime::Runtime;

use super::interruption::Interruption;
use super::order::Order;
use super::server_alive::{self, Alive};
use super::server_burst::{self, Burst, Queued};
use super::server_race::{self, Participant, Rounds};
use super::server_readers::{self, Followed};
use super::{allow_many_files, host, product, publish, rounds, seed, server_peers, server_tables};

#[derive(Args)]
pub(super) struct ServerBench {
    /// Turns of each contender
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = rounds)]
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
    /// Write the report to this file as well
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Decides the order of turns [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    Race,
    Burst,
    Queued,
    Readers,
    Alive,
}

/// How much of everything.
struct Scale {
    /// How long a turn of the race takes.
    span: Duration,
    /// Jobs of the burst, and jobs that wait.
    jobs: usize,
    /// Jobs that are followed.
    followed: usize,
    /// Jobs that are alive together.
    alive: usize,
}

const FULL: Scale =
    Scale { span: Duration::from_millis(2500), jobs: 1000, followed: 50, alive: 100 };

const QUICK: Scale = Scale { span: Duration::from_millis(300), jobs: 100, followed: 5, alive: 10 };

/// Rounds of a quick run.
const QUICK_ROUNDS: usize = 2;

/// How many jobs are done at once in every other burst: as many as keep two CPUs
/// busy.
const FEW_PLACES: &str = "8";

/// What was measured; why not, where it failed; nothing, where it was not asked for.
pub(super) type Outcome<Measured> = Option<Result<Measured, String>>;

/// Everything that was measured.
pub(super) struct Results {
    pub(super) race: Outcome<Vec<Participant>>,
    pub(super) bursts: Vec<Result<Burst, String>>,
    pub(super) queued: Outcome<Queued>,
    pub(super) followed: Outcome<Followed>,
    pub(super) alive: Outcome<Alive>,
}

impl ServerBench {
    /// Measures and prints the report.
    pub(super) fn run(&self, root: &Path) -> anyhow::Result<ExitCode> {
        let binary = product(root, self.binary.as_deref())?;
        // Before anything of ours runs.
        let machine = host::describe();
        allow_many_files();
        let directory = tempfile::Builder::new().prefix("cofferdam-bench-").tempdir()?;
        // One thread: whoever asks is the same for all, and takes no more than one CPU.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let seed = seed(self.seed);
        let results = self.measure(&runtime, (&binary, root, directory.path()), seed)?;
        let mut text = format!(
            "# Server benchmark\n\n- {machine}\n- {}\n- {}\n- seed {seed}",
            server_peers::versions(),
            binary.display()
        );
        if self.quick {
            text += "\n- a quick run: its numbers are not to be kept";
        }
        for table in server_tables::all(&results) {
            text += &format!("\n\n{}", table.markdown().trim_end());
        }
        text.push('\n');
        publish(&text, self.out.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(
        &self,
        runtime: &Runtime,
        (binary, root, directory): (&Path, &Path, &Path),
        seed: u64,
    ) -> anyhow::Result<Results> {
        let scale = if self.quick { QUICK } else { FULL };
        let count = if self.quick { self.rounds.min(QUICK_ROUNDS) } else { self.rounds };
        let interruption = Interruption::listen(runtime)?;
        let go_on = || interruption.check(runtime);
        let here = (binary, directory);
        let race = self.part(Section::Race, "the race", &go_on, || {
            let rounds = Rounds { count, span: scale.span };
            let places = (binary, root, directory);
            server_race::run(runtime, places, rounds, &mut Order::new(seed), &go_on)
        })?;
        let mut bursts = Vec::new();
        for round in 0..count {
            for places in [None, Some(FEW_PLACES)] {
                bursts.extend(self.part(Section::Burst, "a burst", &go_on, || {
                    server_burst::burst(runtime, here, (round, scale.jobs), places)
                })?);
            }
        }
        let queued = self.part(Section::Queued, "waiting jobs", &go_on, || {
            server_burst::queued(runtime, here, scale.jobs)
        })?;
        let followed = self.part(Section::Readers, "readers", &go_on, || {
            server_readers::follow(runtime, here, scale.followed)
        })?;
        let alive = self.part(Section::Alive, "jobs alive", &go_on, || {
            server_alive::alive(runtime, here, scale.alive)
        })?;
        Ok(Results { race, bursts, queued, followed, alive })
    }

    /// Measures one part, if it is wanted. What fails is told in its place.
    fn part<Measured>(
        &self,
        section: Section,
        name: &str,
        go_on: &dyn Fn() -> anyhow::Result<()>,
        measure: impl FnOnce() -> anyhow::Result<Measured>,
    ) -> anyhow::Result<Outcome<Measured>> {
        if !self.only.is_empty() && !self.only.contains(&section) {
            return Ok(None);
        }
        go_on()?;
        writeln!(io::stderr(), "measuring: {name}")?;
        let measured = measure();
        // Whoever was interrupted has failed for that reason alone.
        go_on()?;
        Ok(Some(measured.map_err(|error| format!("{error:#}"))))
    }
}
