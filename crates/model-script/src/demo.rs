//! The built-in demo: a model that is a script.
//!
//! It carries out a few sample tasks with the real tools, says that it is a
//! script, and never claims what it has not seen: whatever a step did not expect
//! ends the task as failed, with the output that shows it.

mod command;
mod csv_filter;
mod health;
mod hello;
mod moment;
mod outputs;
mod player;
mod script;
mod task;
mod todo;

use std::time::Duration;

use cofferdam_model::{Delta, DeltaStream, Model, Request};
use cofferdam_types::ModelName;
use futures_util::{StreamExt, stream};

use crate::deltas::deltas;

/// A built-in script for a few sample tasks. It needs no key and no network.
#[derive(Clone, Debug)]
pub struct Demo {
    name: ModelName,
    pace: Duration,
}

impl Demo {
    /// Answers at once.
    #[must_use]
    pub fn new() -> Self {
        Self::paced(Duration::ZERO)
    }

    /// Waits this long before each word, so that people can read along.
    #[must_use]
    pub fn paced(pace: Duration) -> Self {
        Self { name: ModelName("demo".to_owned()), pace }
    }

    /// The tasks it knows, in words that it recognises.
    #[must_use]
    pub fn sample_tasks() -> Vec<&'static str> {
        task::SAMPLES.iter().map(|(words, _)| *words).collect()
    }
}

impl Default for Demo {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Demo {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn ask(&self, request: Request) -> DeltaStream {
        let pace = self.pace;
        let pieces = stream::iter(deltas(&player::answer(&request)));
        pieces
            .then(move |piece| async move {
                if matches!(piece, Delta::Text(_)) && !pace.is_zero() {
                    tokio::time::sleep(pace).await;
                }
                Ok(piece)
            })
            .boxed()
    }
}

#[cfg(test)]
#[path = "demo/workbench_tests.rs"]
mod workbench;

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "demo/programs_tests.rs"]
mod programs_tests;
