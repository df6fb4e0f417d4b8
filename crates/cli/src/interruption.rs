//! Signals from outside: passed on to the command once, obeyed at once when
//! they come again.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How long a command has to end after it was asked to.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// How long we wait for our readers once there is nothing more to wait for.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

/// What was asked from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Ctrl-C.
    Interrupt,
    /// A polite request to end.
    Terminate,
    /// The terminal is gone.
    HangUp,
    /// The terminal has a new size.
    Resize,
}

impl Asked {
    fn kind(self) -> SignalKind {
        match self {
            Self::Interrupt => SignalKind::interrupt(),
            Self::Terminate => SignalKind::terminate(),
            Self::HangUp => SignalKind::hangup(),
            Self::Resize => SignalKind::window_change(),
        }
    }

    /// The signal's number.
    pub(crate) fn number(self) -> i32 {
        self.kind().as_raw_value()
    }

    /// The exit code of somebody whom this signal has ended.
    pub(crate) fn exit_code(self) -> u8 {
        u8::try_from(128 + self.number()).unwrap_or(u8::MAX)
    }
}

/// Listens for signals.
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
    resize: Option<Signal>,
    /// What asked us to end first, and when.
    first: Option<(Asked, Instant)>,
}

impl Signals {
    /// Listens for those that whoever started us does not want ignored.
    pub(crate) fn listen() -> io::Result<Self> {
        // Without /proc there is no sandbox either; nothing is ignored then.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let listen = |asked: Asked| match ignored(&status, asked.number()) {
            true => Ok(None),
            false => signal(asked.kind()).map(Some),
        };
        Ok(Self {
            interrupt: listen(Asked::Interrupt)?,
            terminate: listen(Asked::Terminate)?,
            hang_up: listen(Asked::HangUp)?,
            resize: listen(Asked::Resize)?,
            first: None,
        })
    }

    /// The next one. A call of this that is dropped loses nothing.
    pub(crate) async fn next(&mut self) -> Asked {
        let asked = tokio::select! {
            () = received(&mut self.interrupt) => Asked::Interrupt,
            () = received(&mut self.terminate) => Asked::Terminate,
            () = received(&mut self.hang_up) => Asked::HangUp,
            () = received(&mut self.resize) => return Asked::Resize,
        };
        self.first = self.first.or_else(|| Some((asked, Instant::now())));
        asked
    }

    /// What asked us to end first, if anything did.
    pub(crate) fn first(&self) -> Option<Asked> {
        self.first.map(|(asked, _)| asked)
    }

    /// The next one that asks us to end.
    pub(crate) async fn end(&mut self) -> Asked {
        loop {
            match self.next().await {
                Asked::Resize => {}
                asked => return asked,
            }
        }
    }

    /// Waits until nobody can be kept waiting any longer: for the next request to
    /// end, or until the first one is long ago, which is `None`. What has come by
    /// now has had its effect, or found nothing to end; our readers still have
    /// the time for a farewell.
    pub(crate) async fn insistence(&mut self) -> Option<Asked> {
        while self.has_come().await {}
        let farewell = Instant::now() + FAREWELL;
        let patience = self.first.map(|(_, at)| farewell.max(at + GRACE + FAREWELL));
        loop {
            let asked = match patience {
                Some(end) => tokio::time::timeout_at(end, self.next()).await.ok()?,
                None => self.next().await,
            };
            if asked != Asked::Resize {
                return Some(asked);
            }
        }
    }

    /// Takes one that need not be waited for, if there is one.
    async fn has_come(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.next() => true,
            () = std::future::ready(()) => false,
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    let came = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if came.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Whether a process with this `/proc/PID/status` ignores a signal.
fn ignored(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask.checked_shr(u32::try_from(number - 1).unwrap_or(u32::MAX))
        .is_some_and(|bits| bits & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_the_mask() {
        let status = "Name:\tx\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000000003\n";
        assert!(ignored(status, Asked::HangUp.number()));
        assert!(ignored(status, Asked::Interrupt.number()));
        assert!(!ignored(status, Asked::Terminate.number()));
        assert!(!ignored("", Asked::HangUp.number()));
        assert!(!ignored(status, 0));
    }
}
