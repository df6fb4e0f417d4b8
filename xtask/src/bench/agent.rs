//! The agent without its model: start-up, turns, memory, the first request.
//!
//! A scripted server in this process stands in for the model and answers at
//! once, so that all the time there is belongs to the agent.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use cofferdam_testkit::Dialect;
use tokio::runtime::Runtime;

use super::agent_contender::{Agent, OTHERS, why_not};
use super::agent_trial::{Ground, Look, Memory, Script, Trial};
use super::interruption::Interruption;
use super::order::Order;
use super::race::{self, Contender};
use super::report::{Table, digits, milliseconds};
use super::sample::Samples;
use super::{build, host, product, publish, rounds, seed};

/// Shell turns of the long script.
const SHELL_TURNS: u32 = 50;

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
struct Seen {
    start: Vec<Trial>,
    shell: Vec<Trial>,
    sleeps: Vec<Trial>,
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

/// An agent that takes part, with what is seen of it; or one that cannot, and why.
struct Participant {
    name: &'static str,
    agent: Result<Agent, String>,
    seen: RefCell<Seen>,
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
        let mut text = format!("# Agent benchmark\n\n- {machine}\n- seed {seed}");
        if self.quick {
            text += "\n- a quick run: its numbers are not to be kept";
        }
        let rounds = if self.quick { self.rounds.min(QUICK_ROUNDS) } else { self.rounds };
        let go_on = || interruption.check(&runtime);
        let tables = measure(&ground, &binary, rounds, &mut Order::new(seed), go_on)?;
        for table in tables {
            text += &format!("\n\n{}", table.markdown().trim_end());
        }
        text.push('\n');
        publish(&text, self.out.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }
}
