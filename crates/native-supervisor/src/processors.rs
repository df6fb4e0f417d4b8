//! On which processors the processes of a sandbox begin.
//!
//! Two that are to work side by side are of no use to each other on one processor. The
//! kernel takes a message for a sign that its sender is about to sleep, and leaves whoever
//! is woken by it where the sender is, to wait.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

/// Keeps a process off the processor that this one is on, of those that are `allowed`. Not
/// where that is the only one: then nothing has changed, and the answer is `false`.
pub fn keep_off_ours(process: Pid, allowed: &CpuSet) -> bool {
    let mut others = *allowed;
    others.unset(sched_getcpu());
    others.count() > 0 && sched_setaffinity(Some(process), &others).is_ok()
}
