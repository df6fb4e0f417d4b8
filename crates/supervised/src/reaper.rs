//! Supervisors that this process started, and has to wait for once they end.

use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

/// Those whose room was dropped before they ended.
#[derive(Clone, Default)]
pub(crate) struct Reaper(Arc<Mutex<Vec<Pid>>>);

impl Reaper {
    /// Watches over a supervisor.
    pub(crate) fn watch(&self, child: Pid) -> Reaped {
        Reaped { child: Some(child), reaper: self.clone() }
    }

    /// Takes leave of those that have ended meanwhile.
    pub(crate) fn reap(&self) {
        let mut children = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain(|child| matches!(waitpid(Some(*child), WaitOptions::NOHANG), Ok(None)));
    }

    /// How many it still has to take leave of.
    #[cfg(test)]
    pub(crate) fn dropped(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// One supervisor. Whoever drops it leaves the waiting to the reaper.
pub(crate) struct Reaped {
    child: Option<Pid>,
    reaper: Reaper,
}

impl Reaped {
    /// Which process it is.
    #[cfg(test)]
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.child
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        let Some(child) = self.child else { return false };
        let runs = matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None));
        if !runs {
            self.child = None;
        }
        runs
    }

    /// Waits for a supervisor that is just ending.
    pub(crate) fn wait(mut self) {
        if let Some(child) = self.child.take() {
            // It is a child of this process and nobody else waits for it.
            while let Err(Errno::INTR) = waitpid(Some(child), WaitOptions::empty()) {}
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
