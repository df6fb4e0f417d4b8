//! The signals that ask to stop.

use tokio::signal::unix::{self, SignalKind};

/// SIGTERM and SIGINT.
pub(super) struct Stop {
    terminate: unix::Signal,
    interrupt: unix::Signal,
}

impl Stop {
    /// Listens for them from now on.
    pub(super) fn new() -> Result<Self, String> {
        let listen = |kind| {
            unix::signal(kind).map_err(|error| format!("cannot listen for signals: {error}"))
        };
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: listen(terminate)?, interrupt: listen(interrupt)? })
    }

    /// Waits until somebody asks.
    pub(super) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
