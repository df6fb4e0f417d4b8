//! Crash: servers are killed in every state of a job, at random, and beside each
//! other; what must be true afterwards is checked. The suite itself is in the test
//! kit, where the tests run a part of it.
//!
//! What is killed is a debug build: a release has no fail points.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use cofferdam_testkit::{CrashSuite, Postgres, Tally, Violation};

/// Kill servers in every state of a job, and see that nothing is lost.
#[derive(Args)]
pub(crate) struct Crash {
    /// Rounds of each state
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Only this state or trial; can be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only with this store
    #[arg(long, value_name = "STORE")]
    store: Option<StoreName>,
    /// So many jobs under random kills, and nothing else unless it is asked for too
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    random: Option<u32>,
    /// Two servers on one PostgreSQL, one of them killed, and nothing else unless it
    /// is asked for too
    #[arg(long)]
    two_servers: bool,
    /// The product's binary, a debug build [default: it is built]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Decides what is random [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreName {
    Sqlite,
    Postgres,
}

impl StoreName {
    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

impl Crash {
    pub(crate) fn run(self, root: &Path) -> anyhow::Result<ExitCode> {
        let binary = match &self.binary {
            Some(binary) => std::path::absolute(binary)?,
            None => build(root)?,
        };
        let seed = self.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let mut out = Report { failures: 0 };
        out.say(&format!("seed {seed}"))?;
        out.say("| state | store | rounds | jobs | time | passed |")?;
        out.say("| --- | --- | --- | --- | --- | --- |")?;
        let stores = [StoreName::Sqlite, StoreName::Postgres];
        for store in stores.into_iter().filter(|store| self.store.is_none_or(|it| it == *store)) {
            let postgres = (store == StoreName::Postgres).then(|| Arc::new(Postgres::start()));
            let suite = CrashSuite { binary: binary.clone(), postgres, seed };
            self.try_all(&suite, store, &mut out)?;
        }
        if out.failures == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        out.say(&format!("{} failed; the seed was {seed}", out.failures))?;
        Ok(ExitCode::FAILURE)
    }

    fn try_all(
        &self,
        suite: &CrashSuite,
        store: StoreName,
        out: &mut Report,
    ) -> anyhow::Result<()> {
        let special = self.random.is_some() || self.two_servers;
        let wanted = |name: &str| match self.only.is_empty() {
            true => !special,
            false => self.only.iter().any(|only| only == name),
        };
        for name in CrashSuite::states().filter(|name| wanted(name)) {
            out.row(name, store, || suite.state(name, 0..self.rounds))?;
        }
        for name in CrashSuite::trials().filter(|name| wanted(name)) {
            out.row(name, store, || suite.trial(name, self.rounds))?;
        }
        if let Some(jobs) = self.random {
            out.row("random", store, || suite.random(jobs as usize))?;
        }
        if self.two_servers && store == StoreName::Postgres {
            out.row("two-servers", store, || suite.two_servers(self.rounds))?;
        }
        Ok(())
    }
}

struct Report {
    failures: u32,
}

impl Report {
    fn say(&self, line: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }

    fn row(
        &mut self,
        name: &str,
        store: StoreName,
        attempt: impl FnOnce() -> Result<Tally, Violation>,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        let tried = attempt();
        let took = seconds(begun.elapsed());
        let store = store.name();
        match tried {
            Ok(Tally { rounds, jobs }) => {
                self.say(&format!("| {name} | {store} | {rounds} | {jobs} | {took} | yes |"))
            }
            Err(violation) => {
                self.failures += 1;
                self.say(&format!("| {name} | {store} | | | {took} | NO: {violation} |"))
            }
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Builds the product beside this program; returns where it is.
#[expect(clippy::disallowed_methods, reason = "the product is built on the host")]
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--package", "cofferdam", "--manifest-path"]);
    let status = command.arg(root.join("Cargo.toml")).status().context("start cargo")?;
    if !status.success() {
        bail!("cargo build ended with {status}");
    }
    let own = std::env::current_exe()?;
    let binary = own.with_file_name("cofferdam");
    if !binary.is_file() || cfg!(not(debug_assertions)) {
        bail!("there is no debug build beside {}: name one by --binary", own.display());
    }
    Ok(binary)
}
