//! The sandbox that a job works in, for others than the job: people who look at
//! its files, run a command, or open a terminal while it works.

use std::ops::Deref;
use std::sync::Arc;

use cofferdam_sandbox::Sandbox;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio_util::sync::CancellationToken;

/// The way into a job's sandbox. Open while the job works in it.
#[derive(Clone, Default)]
pub struct Door {
    sandbox: Arc<RwLock<Option<Arc<Sandbox>>>>,
    closing: CancellationToken,
}

impl Door {
    /// Goes in, if there is a sandbox and it is not about to close.
    #[must_use]
    pub fn enter(&self) -> Option<Visit> {
        if self.closing.is_cancelled() {
            return None;
        }
        let guard = Arc::clone(&self.sandbox).try_read_owned().ok()?;
        let sandbox = OwnedRwLockReadGuard::try_map(guard, Option::as_ref).ok()?;
        Some(Visit { sandbox, closing: self.closing.clone() })
    }

    /// Lets people in.
    pub(crate) async fn open(&self, sandbox: Arc<Sandbox>) {
        *self.sandbox.write().await = Some(sandbox);
    }

    /// Lets nobody in any more, and waits until all have left.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.sandbox.write().await.take();
    }
}

/// A stay in a job's sandbox. The sandbox closes when the last has ended.
pub struct Visit {
    sandbox: OwnedRwLockReadGuard<Option<Arc<Sandbox>>, Arc<Sandbox>>,
    closing: CancellationToken,
}

impl Visit {
    /// Waits until the sandbox is wanted back; the stay is to end then.
    pub async fn over(&self) {
        self.closing.cancelled().await;
    }
}

impl Deref for Visit {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}
