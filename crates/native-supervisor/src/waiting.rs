//! Waits that end, by the clock at the latest.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// Whether a descriptor has something to be read within this time.
pub(crate) fn readable_within(descriptor: &OwnedFd, patience: Duration) -> bool {
    let wait = timespec(patience);
    let mut watched = [PollFd::new(descriptor, PollFlags::IN)];
    matches!(rustix::io::retry_on_intr(|| poll(&mut watched, Some(&wait))), Ok(1))
}

/// Whether a process, and be it no child of ours, ends within this time.
pub(crate) fn ends_within(process: &OwnedFd, patience: Duration) -> bool {
    // The kernel's word for it.
    readable_within(process, patience)
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
