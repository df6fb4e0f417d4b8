//! How long anything may take, and how often it is tried.

use std::time::Duration;

/// The bounds of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A connection, with name resolution and TLS.
    pub connect: Duration,
    /// Until the head of an answer has come, after the last byte of the request.
    pub head: Duration,
    /// Between two pieces of a body. The server says something every 15 seconds.
    pub silence: Duration,
    /// All of an answer in JSON.
    pub whole: Duration,
    /// How long a stream may stay open after the job's end was told.
    pub farewell: Duration,
    /// How often a request is sent in all.
    pub tries: u32,
    /// How often a stream of events is taken up again without anything new coming.
    pub reconnects: u32,
    /// The wait before the second try; it doubles.
    pub first_wait: Duration,
    /// No wait is longer, whatever the server asks for.
    pub longest_wait: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            head: Duration::from_secs(60),
            silence: Duration::from_secs(60),
            whole: Duration::from_secs(300),
            farewell: Duration::from_secs(2),
            tries: 5,
            reconnects: 10,
            first_wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(15),
        }
    }
}

impl Patience {
    /// The wait after so many failures, of which there is at least one.
    pub(crate) fn wait(&self, failures: u32, asked: Option<Duration>) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        let own = self.first_wait.saturating_mul(doubled);
        own.max(asked.unwrap_or_default()).min(self.longest_wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_growing_whatever_the_server_asks_for() {
        let patience = Patience::default();
        let waits: Vec<_> = (1..=9).map(|failures| patience.wait(failures, None)).collect();
        assert!(waits.is_sorted());
        assert_eq!(waits[0], patience.first_wait);
        assert_eq!(waits[8], patience.longest_wait);
        assert_eq!(patience.wait(u32::MAX, None), patience.longest_wait);
        let asked = Some(Duration::from_secs(3));
        assert_eq!(patience.wait(1, asked), Duration::from_secs(3));
        assert_eq!(patience.wait(1, Some(Duration::MAX)), patience.longest_wait);
    }
}
