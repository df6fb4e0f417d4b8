//! The agent without its model: start-up, turns, memory, the first request.
//!
//! A scripted server in this process stands in for the model and answers at
//! once, so that all the time there is belongs to the agent.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use cofferdam_testkit::Dialect;

use super::agent_contender::Agent;
use super::agent_tables;
use super::agent_trial::{Ground, Look, Script, Trial};
use super::interruption::Interruption;
use super::order::Order;
use super::race::{self, Contender, Finishes};
use super::sample::Samples;
use super::{host, product, publish, rounds, seed};

/// Shell turns of the long script.
pub(super) const SHELL_TURNS: u32 = 50;

/// One in so many rounds sleeps as well, which takes seconds.
const ROUNDS_FOR_A_SLEEP: usize = 5;

/// How often the memory is looked at through a whole script.
const MEMORY_TRIALS: usize = 3;

/// Rounds of a quick run.
const QUICK_ROUNDS: usize = 3;

#[derive(Args)]
pub(super) struct AgentBench {
    /// Turns of each contender
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rounds)]
    rounds: usize,
    /// Less of everything: to see that it works, not for numbers to keep
    #[arg(long)]
    quick: bool,
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

/// What was seen of one agent.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) start: Vec<Trial>,
    pub(super) shell: Vec<Trial>,
    pub(super) sleeps: Vec<Trial>,
    /// With a look at the memory; their times do not count.
    pub(super) memory: Vec<Trial>,
}

/// An agent with what is seen of it, or why it cannot take part.
pub(super) struct Participant {
    pub(super) name: &'static str,
    pub(super) agent: Result<Agent, String>,
    pub(super) seen: RefCell<Seen>,
}

/// Everything that was measured.
pub(super) struct Results {
    pub(super) participants: Vec<Participant>,
    pub(super) finishes: Finishes,
    /// The bytes of the product's first request, for each wire.
    pub(super) openings: Vec<(Dialect, usize)>,
    /// What the server takes for a turn by itself.
    pub(super) server: Option<Samples>,
}

impl AgentBench {
    /// Measures and prints the report.
    pub(super) fn run(&self, root: &Path) -> anyhow::Result<ExitCode> {
        let binary = product(root, self.binary.as_deref())?;
        // Before anything of ours runs.
        let machine = host::describe();
        let directory = tempfile::Builder::new().prefix("cofferdam-bench-").tempdir()?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let interruption = Interruption::listen(&runtime)?;
        let ground = Ground { runtime: &runtime, directory: directory.path() };
        let seed = seed(self.seed);
        let rounds = if self.quick { self.rounds.min(QUICK_ROUNDS) } else { self.rounds };
        let go_on = || interruption.check(&runtime);
        let results = measure(&ground, &binary, rounds, &mut Order::new(seed), go_on)?;
        let mut text = format!("# Agent benchmark\n\n- {machine}\n- seed {seed}");
        if self.quick {
            text += "\n- a quick run: its numbers are not to be kept";
        }
        for table in agent_tables::all(&results) {
            text += &format!("\n\n{}", table.markdown().trim_end());
        }
        text.push('\n');
        publish(&text, self.out.as_deref())?;
        Ok(if results.finishes.all.iter().all(|finish| finish.times.is_ok()) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn measure(
    ground: &Ground<'_>,
    binary: &Path,
    rounds: usize,
    order: &mut Order,
    go_on: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<Results> {
    let product = Agent::product(binary, ground.directory);
    // Without the product there is nothing to compare.
    ground.rehearse(&product)?;
    let mut openings = Vec::new();
    for dialect in Dialect::ALL {
        let trial = ground.trial(&product, dialect, Script::Start, Look::Away)?;
        openings.push((dialect, trial.opening.len()));
    }
    let floor = Agent::floor(ground.directory);
    let floor = floor.and_then(|floor| ground.rehearse(&floor).map(|()| floor));
    let participants = vec![Participant::new(Ok(product)), Participant::new(floor)];

    writeln!(io::stderr(), "measuring: time")?;
    let scripts = [
        (Script::Start, rounds),
        (Script::Shell(SHELL_TURNS), rounds),
        (Script::Sleeps, rounds.div_ceil(ROUNDS_FOR_A_SLEEP)),
    ];
    let each = participants.iter().filter(|participant| participant.agent.is_ok());
    let contenders = each.flat_map(|participant| {
        scripts.iter().map(|(script, turns)| participant.contender(ground, *script, *turns))
    });
    let finishes = race::run(contenders.collect(), order, &go_on)?;

    writeln!(io::stderr(), "measuring: memory")?;
    let mut closing = None;
    for Participant { agent, seen, .. } in &participants {
        let Ok(agent) = agent else { continue };
        for _ in 0..MEMORY_TRIALS {
            go_on()?;
            let shell = Script::Shell(SHELL_TURNS);
            let trial = ground.trial(agent, Dialect::Messages, shell, Look::AtMemory)?;
            closing.get_or_insert_with(|| trial.closing.clone());
            seen.borrow_mut().memory.push(trial);
        }
    }
    let closing = closing.context("no memory was looked at")?;
    let server = Samples::of(ground.server_alone(&closing, SHELL_TURNS)?);
    Ok(Results { participants, finishes, openings, server })
}

impl Participant {
    fn new(agent: anyhow::Result<Agent>) -> Self {
        let name = agent.as_ref().map_or(Agent::FLOOR, Agent::name);
        let agent = agent.map_err(|error| format!("{error:#}"));
        Self { name, agent, seen: RefCell::default() }
    }

    /// Its part in the race, with one script.
    fn contender<'a>(
        &'a self,
        ground: &'a Ground<'_>,
        script: Script,
        turns: usize,
    ) -> Contender<'a> {
        let mut warm = false;
        Contender::new(format!("{}: {script:?}", self.name), turns, move || {
            let agent = self.agent.as_ref().map_err(|reason| anyhow::anyhow!("{reason}"))?;
            let trial = ground.trial(agent, Dialect::Messages, script, Look::Away)?;
            let whole = trial.whole;
            // The race does not count the first turn either.
            if std::mem::replace(&mut warm, true) {
                self.seen.borrow_mut().of(script).push(trial);
            }
            Ok(whole)
        })
    }
}

impl Seen {
    fn of(&mut self, script: Script) -> &mut Vec<Trial> {
        match script {
            Script::Start => &mut self.start,
            Script::Shell(_) => &mut self.shell,
            Script::Sleeps => &mut self.sleeps,
        }
    }
}
