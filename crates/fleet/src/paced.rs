//! Sandboxes are made a few at a time.
//!
//! Making one is work for a CPU. Begun by many jobs at once, it is done no sooner,
//! and whoever else wants the CPU, as the server's answers do, waits behind all of
//! them.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_sandbox::{
    Backend, Capabilities, Fact, OpenError, Reconciled, Room, RoomError, Spec,
};
use cofferdam_types::SandboxId;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Sandboxes that are made at once, for each CPU.
const FOR_EACH_CPU: usize = 2;

/// How long one waits for its turn at most. A sandbox whose directory is another's
/// takes its time, and must not keep everybody waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// Turns to make sandboxes, of all jobs together.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self(Arc::new(Semaphore::new(cpus * FOR_EACH_CPU)))
    }
}

/// A back end that waits for its turn.
pub(crate) struct Paced {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) turns: Turns,
}

impl Backend for Paced {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    fn examine(&self) -> Vec<Fact> {
        self.backend.examine()
    }

    fn open(&self, spec: Spec) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        Box::pin(async {
            let _turn = timeout(PATIENCE, self.turns.0.acquire()).await;
            self.backend.open(spec).await
        })
    }

    fn reattach(&self, id: SandboxId) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        self.backend.reattach(id)
    }

    fn reconcile(&self) -> BoxFuture<'_, Result<Reconciled, RoomError>> {
        self.backend.reconcile()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// One whose sandboxes take a second to fail.
    #[derive(Default)]
    struct Slow {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    impl Backend for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities::NONE
        }

        fn open(&self, _: Spec) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
            Box::pin(async {
                let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.now.fetch_sub(1, Ordering::SeqCst);
                Err(OpenError::Unusable { cause: "it is slow".into(), remedy: String::new() })
            })
        }

        fn reattach(&self, _: SandboxId) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
            self.open(Spec::scratch())
        }

        fn reconcile(&self) -> BoxFuture<'_, Result<Reconciled, RoomError>> {
            Box::pin(async { Ok(Reconciled::default()) })
        }
    }

    async fn open(turns: usize, sandboxes: usize) -> (usize, Duration) {
        let slow = Arc::new(Slow::default());
        let turns = Turns(Arc::new(Semaphore::new(turns)));
        let begun = tokio::time::Instant::now();
        let opening = (0..sandboxes).map(|_| {
            let paced = Paced { backend: slow.clone(), turns: turns.clone() };
            async move { paced.open(Spec::scratch()).await.map(drop).unwrap_err() }
        });
        futures_util::future::join_all(opening).await;
        (slow.most.load(Ordering::SeqCst), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_are_made_at_a_time() {
        assert_eq!(open(3, 9).await, (3, Duration::from_secs(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever_for_a_turn() {
        let (most, elapsed) = open(1, 20).await;
        assert!(most > 1, "the others went on without a turn");
        assert!(elapsed <= PATIENCE + Duration::from_secs(1), "{elapsed:?}");
    }
}
