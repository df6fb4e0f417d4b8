//! On which processors the processes of a sandbox begin, and how many there are.
//!
//! Two that are to work side by side are of no use to each other on one processor. The
//! kernel takes a message for a sign that its sender is about to sleep, and leaves whoever
//! is woken by it where the sender is, to wait.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::failure::ignore;
use crate::procfs;

/// How many the machine has, whichever of them this process may use; more than any machine has
/// where that is not told.
#[must_use]
pub fn of_the_machine() -> u32 {
    procfs::read_line("/sys/devices/system/cpu/online")
        .ok()
        .and_then(|online| count(online.trim()))
        .unwrap_or(u32::MAX)
}

/// The numbers in a list of ranges: `0-2,5` has four.
fn count(ranges: &str) -> Option<u32> {
    let of_range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    ranges.split(',').map(of_range).try_fold(0_u32, |sum, number| sum.checked_add(number?))
}

/// Keeps a process off the processor that this one is on, of those that are `allowed`, and says
/// which that is. Not where it is the only one: then nothing has changed.
pub fn keep_off_ours(process: Pid, allowed: &CpuSet) -> Option<usize> {
    let ours = sched_getcpu();
    let mut others = *allowed;
    others.unset(ours);
    let is_kept_off = others.count() > 0 && sched_setaffinity(Some(process), &others).is_ok();
    is_kept_off.then_some(ours)
}

/// Keeps this process, and those that it makes meanwhile, on one processor until this is dropped.
pub(crate) struct Stay {
    anywhere: CpuSet,
}

impl Stay {
    /// On this one, if it is there: to move takes longer than it gains.
    pub(crate) fn on(processor: usize) -> Option<Self> {
        if sched_getcpu() != processor {
            return None;
        }
        let anywhere = sched_getaffinity(None).ok()?;
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only).ok()?;
        Some(Self { anywhere })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        ignore(sched_setaffinity(None, &self.anywhere));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted() {
        assert_eq!(count("0-1"), Some(2));
        assert_eq!(count("0-2,5,8-9"), Some(6));
        assert_eq!(count("0"), Some(1));
        for nonsense in ["", "2-1", "a-b", "0-4294967295", "0,"] {
            assert_eq!(count(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn the_machine_has_more_than_one_may_use() {
        let own = rustix::thread::sched_getaffinity(None).unwrap();
        assert!(of_the_machine() >= own.count());
        assert_ne!(of_the_machine(), u32::MAX);
    }
}
