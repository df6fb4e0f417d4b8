//! The guest's own children: reaping them, and killing those that nobody knows.

use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, getpid};

use super::Server;
use crate::spare::Spare;
use crate::tree;

/// Between two looks for processes that nobody looks after, and how many.
const SWEEP_PAUSE: Duration = Duration::from_millis(10);
const MOST_SWEEPS: u32 = 100;

/// Commands after which one more is likely. What is opened for one command has nothing of
/// a spare monitor but the cost.
const MORE_TO_COME: u64 = 2;

impl Server {
    /// Has a monitor ready for the next command, if there is likely to be one.
    pub(super) fn keep_spare(&mut self) {
        // While a command starts, what starts it needs the processor.
        if !self.spare_due || self.calls.iter().any(|(_, call)| call.is_starting()) {
            return;
        }
        // Tried once a command: whatever keeps it from being made, or kills it, goes on doing so.
        self.spare_due = false;
        if self.spare.is_none() {
            // Without one, the command forks its own.
            self.spare = Spare::make(&self.open_files).ok();
        }
    }

    /// One more command was asked for.
    pub(crate) fn count_command(&mut self) {
        self.commands = self.commands.saturating_add(1);
        self.spare_due = self.commands >= MORE_TO_COME;
    }

    pub(super) fn reap(&mut self) {
        let mut pending = [0; 1024];
        while rustix::io::read(&self.children, &mut pending).is_ok_and(|count| count > 0) {}
        let mut suspicious = false;
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while let Ok(Some((pid, status))) = rustix::process::wait(options) {
            let slot = self.calls.slot_of_child(pid);
            let spare = self.spare.as_ref().is_some_and(|spare| spare.pid() == pid);
            let ours = slot.is_some() || spare;
            if status.stopped() {
                // Nothing has a reason to stop one of ours.
                tree::send(pid, if ours { libc::SIGCONT } else { libc::SIGKILL });
                continue;
            }
            suspicious |= !ours || status.signaled();
            if spare {
                self.spare = None;
            }
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
        let working = self.calls.iter().filter_map(|(_, call)| call.child());
        let known: Vec<_> = working.chain(self.spare.as_ref().map(Spare::pid)).collect();
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
        let again = found != Ok(0) && sweeps < MOST_SWEEPS;
        self.sweep = again.then(|| (sweeps, Instant::now() + SWEEP_PAUSE));
    }
}
