//! The crash suite: servers are killed in every state of a job, and what must be
//! true afterwards is checked from outside, over HTTP and on the machine.
//!
//! Every acknowledged job is there and comes to one end. Its events have no gap and
//! never change. No command runs twice, none that is told as done is without effect,
//! and what is not known is told. No answer is paid for twice once it was stored.
//! What was delivered is whole. Of sandboxes nothing is left: no process, mount,
//! control group or directory.

mod violation;

mod api;
mod follow;
mod leftovers;
mod model;
mod process;

mod verify;

mod scene;

mod dice;
mod states;
mod trials;
mod two_servers;

use std::path::PathBuf;
use std::sync::Arc;

pub use violation::Violation;

use crate::postgres::Postgres;
use scene::Scene;
use states::{STATES, State};

/// How often something was tried without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rounds.
    pub rounds: u32,
    /// Jobs in them.
    pub jobs: usize,
}

/// The suite, for one program and one store.
#[derive(Debug)]
pub struct CrashSuite {
    /// The product's binary, a debug build: others have no fail points.
    pub binary: PathBuf,
    /// Where jobs are kept; in SQLite, if it is nowhere.
    pub postgres: Option<Arc<Postgres>>,
    /// Decides what is random.
    pub seed: u64,
}

impl CrashSuite {
    /// The names of the states that servers are killed in.
    pub fn states() -> impl Iterator<Item = &'static str> {
        STATES.iter().map(|state| state.name)
    }

    fn scene(&self, servers: usize, words: &[&str]) -> Result<Scene, Violation> {
        let database = self.postgres.as_ref().map(|postgres| postgres.database());
        Scene::new(&self.binary, database, servers, words)
    }

    /// Kills servers in a state, in rounds that have the same data directory.
    ///
    /// # Errors
    /// The first violation. What it was found in is kept.
    pub fn state(&self, name: &str, rounds: std::ops::Range<u32>) -> Result<Tally, Violation> {
        let state = State::of(name).ok_or_else(|| Violation(format!("no such state: {name}")))?;
        let mut tally = Tally::default();
        self.scene(1, state.words())?.play(|scene| {
            for round in rounds {
                let found = state.round(scene, round);
                tally.jobs += found.map_err(|Violation(what)| {
                    Violation(format!("{name}, round {round}: {what}"))
                })?;
                tally.rounds += 1;
            }
            Ok(tally)
        })
    }
}
