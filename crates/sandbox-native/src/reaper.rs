//! Supervisors that this process started, and has to wait for once they end.

use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};

/// Those whose room was dropped before they ended.
#[derive(Clone, Default)]
pub(crate) struct Reaper(Arc<Mutex<Vec<Child>>>);

impl Reaper {
    /// Watches over a supervisor.
    pub(crate) fn watch(&self, child: Child) -> Reaped {
        Reaped { child: Some(child), reaper: self.clone() }
    }

    /// Takes leave of those that have ended meanwhile.
    pub(crate) fn reap(&self) {
        let mut children = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}

/// One supervisor. Whoever drops it leaves the waiting to the reaper.
pub(crate) struct Reaped {
    child: Option<Child>,
    reaper: Reaper,
}

impl Reaped {
    /// Waits for a supervisor that is just ending.
    pub(crate) fn wait(mut self) {
        if let Some(mut child) = self.child.take() {
            // It is a child of this process and nobody else waits for it.
            drop(child.wait());
        }
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            self.reaper.0.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        }
    }
}
