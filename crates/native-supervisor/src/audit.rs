//! The audit trail: what a sandbox does, written down.
//!
//! What is kept, and how much of it, is the same wherever it comes from ([`trail`]). Of
//! processes of the host the filter's notifications tell it ([`notified`]), of those in a
//! kernel that is a program that kernel does ([`told`]).

mod notified;
mod told;
mod trail;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cofferdam_types::CallId;
use rustix::event::{PollFd, PollFlags, poll};

use self::notified::Notified;
pub(crate) use self::told::CALLS;
use self::told::Told;
use self::trail::Trail;
use crate::processes::GUEST_NAME;
use crate::waiting::timespec;

/// How often at most what waits now is attended to, before somebody else is.
const AT_ONCE: usize = 1000;

/// Where acts come from.
trait Source: std::fmt::Debug {
    /// Where something arrives, as long as something may.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Writes down what has arrived, if something has; else it may wait for it.
    fn attend(&mut self, trail: &mut Trail);

    /// How long more may arrive before it is attended to again.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// What has gone wrong there.
    fn complaint(&self) -> &str {
        ""
    }
}

/// Writes down what a sandbox does.
#[derive(Debug)]
pub struct Auditor {
    source: Box<dyn Source>,
    trail: Trail,
    /// Until then nothing is attended to.
    rests_until: Option<Instant>,
}

impl Auditor {
    /// Begins a trail of the calls that arrive at this listener, of the sandbox whose first
    /// process is `init`. The file at `path` is made when there is more than can be held.
    #[must_use]
    pub fn of_notifications(listener: OwnedFd, init: u32, path: PathBuf) -> Self {
        Self::new(Box::new(Notified::new(listener, init)), path)
    }

    /// Begins a trail of what gVisor's kernel tells, at the other end of this pipe.
    #[must_use]
    pub fn of_sentry(log: OwnedFd, path: PathBuf) -> Self {
        Self::new(Box::new(Told::new(log)), path)
    }

    fn new(source: Box<dyn Source>, path: PathBuf) -> Self {
        Self { source, trail: Trail::new(path), rests_until: None }
    }

    /// Where something arrives that is to be attended to now.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.source.descriptor().filter(|_| self.look_again().is_none())
    }

    /// When there is such a place again, if there is none now.
    #[must_use]
    pub fn look_again(&self) -> Option<Instant> {
        self.rests_until.filter(|until| Instant::now() < *until)
    }

    /// Writes down what has arrived.
    pub fn attend(&mut self) {
        self.source.attend(&mut self.trail);
        let pause = self.source.pause();
        self.rests_until = (!pause.is_zero()).then(|| Instant::now() + pause);
    }

    /// Attends to everything that has arrived by now.
    pub fn catch_up(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(descriptor) = self.source.descriptor() else { return };
            let mut watched = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
            if !matches!(poll(&mut watched, Some(&timespec(Duration::ZERO))), Ok(1)) {
                return;
            }
            self.attend();
        }
    }

    /// What has gone wrong where acts come from, if it was told.
    #[must_use]
    pub fn complaint(&self) -> &str {
        self.source.complaint()
    }

    /// Forgets what was written down, and goes on; returns whether something was.
    pub fn begin_anew(&mut self) -> bool {
        let was_told = self.trail() != (0, &[]);
        self.trail.forget();
        was_told
    }

    /// The trail so far: so many bytes of the file, and then these.
    #[must_use]
    pub fn trail(&self) -> (u64, &[u8]) {
        self.trail.so_far()
    }
}

/// The call that a process works for, as its name tells where the guest gave it that. The
/// guest's own name would be that of a call, too.
fn call_named(name: &str) -> Option<CallId> {
    if name == GUEST_NAME {
        return None;
    }
    let digits = name.strip_prefix('c')?;
    u64::from_str_radix(digits, 36).ok().map(CallId)
}

/// Microseconds since 1970.
#[must_use]
pub fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000
        + u64::try_from(now.tv_nsec).unwrap_or(0) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_is_named_after_its_call() {
        assert_eq!(call_named("c1z"), Some(CallId(71)));
        assert_eq!(call_named("cat"), Some(CallId(389)));
        assert_eq!(call_named("no name"), None);
        assert_eq!(call_named("cofferdam"), None, "it has no call yet");
    }
}
