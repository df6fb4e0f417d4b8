//! Starting supervisors, and the one that waits for its plan.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cofferdam_sandbox::OpenError;

use crate::explain::in_step;
use crate::reaper::{Reaped, Reaper};
use crate::{launch, program};

/// A supervisor that was started: the way to it, and what looks after its process.
pub(crate) type Started = (OwnedFd, Reaped);

/// Starts supervisors. All copies of one are one.
#[derive(Clone)]
pub(crate) struct Starter(Arc<Parts>);

struct Parts {
    /// Where a copy of the supervisor's program is kept.
    home: PathBuf,
    program: OnceLock<OwnedFd>,
    reaper: Reaper,
    waiting: Mutex<Waiting>,
}

/// The one that waits for its plan.
#[derive(Default)]
enum Waiting {
    #[default]
    Nobody,
    /// It is being started.
    Soon,
    Ready(Started),
}

impl Starter {
    pub(crate) fn new(home: PathBuf) -> Self {
        let (program, reaper) = (OnceLock::new(), Reaper::default());
        Self(Arc::new(Parts { home, program, reaper, waiting: Mutex::default() }))
    }

    /// Takes leave of those that have ended meanwhile.
    pub(crate) fn reap(&self) {
        self.0.reaper.reap();
    }

    /// Starts one.
    ///
    /// # Errors
    /// When the host has no memory or no process for it.
    pub(crate) fn spawn(&self) -> Result<Started, OpenError> {
        self.start(launch::spawn).map_err(in_step("start the supervisor"))
    }

    /// Starts one that waits, unless there is one or will be. What keeps it from being started
    /// is told when one is needed.
    pub(crate) fn prepare(&self) {
        {
            let mut waiting = self.waiting();
            if !matches!(*waiting, Waiting::Nobody) {
                return;
            }
            *waiting = Waiting::Soon;
        }
        let started = self.spawn();
        *self.waiting() = started.map_or(Waiting::Nobody, Waiting::Ready);
    }

    /// The same by a fork of this process, where it can be forked.
    pub(crate) fn prepare_by_fork(&self) {
        match self.start(launch::fork) {
            Ok(started) => *self.waiting() = Waiting::Ready(started),
            Err(_) => self.prepare(),
        }
    }

    /// Takes the one that waits, unless it was killed meanwhile.
    pub(crate) fn take_ready(&self) -> Option<Started> {
        let (socket, mut child) = {
            let mut waiting = self.waiting();
            match std::mem::take(&mut *waiting) {
                Waiting::Ready(started) => started,
                other => {
                    *waiting = other;
                    return None;
                }
            }
        };
        child.runs().then_some((socket, child))
    }

    fn start(
        &self,
        launch: impl FnOnce(&OwnedFd) -> io::Result<launch::Launched>,
    ) -> io::Result<Started> {
        let program = match self.0.program.get() {
            Some(program) => program,
            None => {
                let found = program::find(&self.0.home)?;
                self.0.program.get_or_init(|| found)
            }
        };
        let (socket, pid) = launch(program)?;
        Ok((socket, self.0.reaper.watch(pid)))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process that waits.
    #[cfg(test)]
    pub(crate) fn ready(&self) -> Option<rustix::process::Pid> {
        match &*self.waiting() {
            Waiting::Ready((_, child)) => child.pid(),
            Waiting::Nobody | Waiting::Soon => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_wants_one_to_wait_while_one_is_started_starts_none() {
        let home = tempfile::tempdir().unwrap();
        let starter = Starter::new(home.path().to_owned());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| starter.prepare());
            }
        });
        assert!(starter.ready().is_some());
        assert_eq!(starter.0.reaper.dropped(), 0);
    }
}
