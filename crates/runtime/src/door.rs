//! The sandbox that a job works in, for others than the job: people who look at
//! its files, run a command, or open a terminal while it works.

use std::ops::Deref;
use std::sync::Arc;

use cofferdam_sandbox::Sandbox;
use cofferdam_tools::Hands;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio_util::sync::CancellationToken;

/// The way into a job's sandbox. Open while the job works in it.
#[derive(Clone, Default)]
pub struct Door {
    inside: Arc<RwLock<Option<Inside>>>,
    closing: CancellationToken,
}

/// What is behind it.
struct Inside {
    sandbox: Arc<Sandbox>,
    hands: Arc<Hands>,
}

impl Door {
    /// Goes in, if there is a sandbox and it is not about to close.
    #[must_use]
    pub fn enter(&self) -> Option<Visit> {
        if self.closing.is_cancelled() {
            return None;
        }
        let guard = Arc::clone(&self.inside).try_read_owned().ok()?;
        let inside = OwnedRwLockReadGuard::try_map(guard, Option::as_ref).ok()?;
        Some(Visit { inside, closing: self.closing.clone() })
    }

    /// Lets people in, to where these hands are on the desktop.
    pub(crate) async fn open(&self, sandbox: Arc<Sandbox>, hands: Arc<Hands>) {
        *self.inside.write().await = Some(Inside { sandbox, hands });
    }

    /// Lets nobody in any more, and tells those inside that it is over.
    pub(crate) fn shut(&self) {
        self.closing.cancel();
    }

    /// The same, and waits until all have left.
    pub(crate) async fn close(&self) {
        self.shut();
        self.inside.write().await.take();
    }
}

/// A stay in a job's sandbox. The sandbox closes when the last has ended.
pub struct Visit {
    inside: OwnedRwLockReadGuard<Option<Inside>, Inside>,
    closing: CancellationToken,
}

impl Visit {
    /// Waits until the sandbox is wanted back; the stay is to end then.
    pub async fn over(&self) {
        self.closing.cancelled().await;
    }

    /// Whether it is wanted back already.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Whose hands are on the desktop there.
    #[must_use]
    pub fn hands(&self) -> Arc<Hands> {
        Arc::clone(&self.inside.hands)
    }
}

impl Deref for Visit {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.inside.sandbox
    }
}
