//! The guest's own children: reaping them, and killing those that nobody knows.

use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, getpid};

use super::Server;
use crate::tree;

/// Between two looks for processes that nobody looks after, and how many.
const SWEEP_PAUSE: Duration = Duration::from_millis(10);
const MOST_SWEEPS: u32 = 100;

impl Server {
    pub(super) fn reap(&mut self) {
        let mut pending = [0; 1024];
        while rustix::io::read(&self.children, &mut pending).is_ok_and(|count| count > 0) {}
        let mut suspicious = false;
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while let Ok(Some((pid, status))) = rustix::process::wait(options) {
            let slot = self.calls.slot_of_child(pid);
            if status.stopped() {
                // Nothing has a reason to stop one of ours.
                tree::send(pid, if slot.is_some() { libc::SIGCONT } else { libc::SIGKILL });
                continue;
            }
            suspicious |= slot.is_none() || status.signaled();
            if let Some(slot) = slot {
                if let Some(call) = self.calls.get(slot) {
                    call.child_ended(status);
                }
                self.give_turn(slot);
            }
        }
        if suspicious {
            self.sweep = Some((0, Instant::now()));
            self.sweep_strays();
        }
    }

    /// Kills children of the guest that no call knows: a murdered monitor has
    /// left them.
    pub(super) fn sweep_strays(&mut self) {
        let me = getpid();
        let known: Vec<_> = self.calls.iter().filter_map(|(_, call)| call.child()).collect();
        let found = tree::kill(|processes| {
            let mut strays = Vec::new();
            for process in processes {
                let ours = process.parent == me.as_raw_nonzero().get();
                if ours && !known.contains(&process.pid) {
                    strays.push(*process);
                    strays.extend(tree::descendants(processes, process.pid));
                }
            }
            strays
        });
        let sweeps = self.sweep.map_or(0, |(sweeps, _)| sweeps) + 1;
        let again = found > 0 && sweeps < MOST_SWEEPS;
        self.sweep = again.then(|| (sweeps, Instant::now() + SWEEP_PAUSE));
    }
}
