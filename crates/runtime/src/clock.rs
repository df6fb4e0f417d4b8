//! The time, for the log.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cofferdam_types::Timestamp;

/// This moment, by the machine's clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the edge where time comes in")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The time of one drive. It begins with the machine's clock and then only goes
/// forward, at the pace of time: whoever sets the clock moves no deadline.
#[derive(Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    begun: Instant,
}

impl Clock {
    /// A clock that shows nothing earlier than the last event.
    pub(crate) fn start(last_event: Timestamp) -> Self {
        Self { wall: now().max(last_event), begun: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.wall.after(self.begun.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_begins_no_earlier_than_the_log_ends() {
        let later = Timestamp(u64::MAX / 2);
        assert!(Clock::start(later).now() >= later);
        assert!(Clock::start(Timestamp(0)).now() >= Timestamp(1_700_000_000_000));
    }
}
