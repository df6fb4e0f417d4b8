//! Supervisors that this process started, and has to wait for once they end.

use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use rustix::time::Timespec;

/// How long a supervisor that has nothing left to do may take to end.
const ENDING: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

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

    /// Waits for a supervisor that is just ending. One that takes longer than that is left
    /// to the reaper.
    pub(crate) fn wait(mut self) {
        let Some(child) = self.child else { return };
        // It is a child of this process and nobody else waits for it.
        if let Ok(process) = pidfd_open(child, PidfdFlags::empty()) {
            let mut watched = [PollFd::new(&process, PollFlags::IN)];
            while let Err(Errno::INTR) = poll(&mut watched, Some(&ENDING)) {}
        }
        self.runs();
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            self.reaper.0.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use rustix::process::{Signal, kill_process};

    use super::*;

    #[expect(
        clippy::disallowed_methods,
        clippy::zombie_processes,
        reason = "a child to be waited for by the reaper"
    )]
    fn started(program: &str) -> Pid {
        let child = Command::new(program).arg("1000").spawn().unwrap();
        Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
    }

    #[test]
    fn one_that_does_not_end_is_left_to_the_reaper() {
        let reaper = Reaper::default();
        let ending = started("true");
        let process = pidfd_open(ending, PidfdFlags::empty()).unwrap();
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&minute)).unwrap();
        reaper.watch(ending).wait();
        assert_eq!(reaper.dropped(), 0);

        let staying = started("sleep");
        let begun = Instant::now();
        reaper.watch(staying).wait();
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert_eq!(reaper.dropped(), 1);
        kill_process(staying, Signal::KILL).unwrap();
        while reaper.dropped() > 0 {
            reaper.reap();
        }
    }
}
