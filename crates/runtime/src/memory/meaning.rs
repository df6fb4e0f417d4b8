//! Who is asked what texts mean, and for how long.
//!
//! It is an opinion besides: nobody waits long for it, and whoever does not give it is
//! left alone for a while.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cofferdam_recall::{Embed, RecallError};
use cofferdam_types::error_chain;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout};

/// How long an answer may take: with reading the workspace's files it is less than a
/// recall may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// For how long nobody is asked after a failure.
pub(super) const REST: Duration = Duration::from_secs(60);

/// An embedder that never holds a recall up.
pub(super) struct Meaning {
    embedder: Arc<dyn Embed>,
    rests_until: Mutex<Option<Instant>>,
}

impl Meaning {
    pub(super) fn new(embedder: Arc<dyn Embed>) -> Self {
        Self { embedder, rests_until: Mutex::default() }
    }

    fn rests(&self) -> bool {
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn rest(&self) {
        let until = Instant::now() + REST;
        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }
}

impl Embed for Meaning {
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, RecallError>> {
        Box::pin(async move {
            if self.rests() {
                let cause = "it has just failed and is not asked again yet";
                return Err(RecallError::Embedder(cause.to_owned()));
            }
            let answer = timeout(PATIENCE, self.embedder.embed(texts)).await;
            let answer = answer.unwrap_or_else(|_| {
                let cause = format!("no answer within {} s", PATIENCE.as_secs());
                Err(RecallError::Embedder(cause))
            });
            if let Err(error) = &answer {
                tracing::warn!(
                    error = error_chain(error),
                    "what a job recalls is ordered by its words alone"
                );
                self.rest();
            }
            answer
        })
    }
}

#[cfg(test)]
#[path = "meaning_tests.rs"]
mod tests;
