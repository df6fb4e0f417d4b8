//! How long the proxy waits, and for how many at once.

use std::time::Duration;

/// The proxy's limits. The defaults suit package managers and API clients.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Connections served at once; those beyond it are told to come back.
    pub connections: usize,
    /// For a whole request head, or SOCKS negotiation.
    pub head_time_out: Duration,
    /// For the DNS to answer.
    pub resolve_time_out: Duration,
    /// For the host to accept, over all its addresses.
    pub connect_time_out: Duration,
    /// Without a byte in either direction, before an open connection is ended.
    pub idle_time_out: Duration,
    /// For the log to take the last records, after the stop.
    pub log_grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 256,
            head_time_out: Duration::from_secs(30),
            resolve_time_out: Duration::from_secs(10),
            connect_time_out: Duration::from_secs(15),
            idle_time_out: Duration::from_secs(600),
            log_grace: Duration::from_secs(5),
        }
    }
}
