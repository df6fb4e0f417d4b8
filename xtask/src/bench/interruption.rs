//! Interruption: whoever is asked to end first ends what it has started. That
//! is done where things go out of scope, so all it takes is to return.

use std::cell::{Cell, RefCell};

use anyhow::bail;
use futures_util::FutureExt as _;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask for the end.
pub(super) struct Interruption {
    signals: RefCell<Vec<Signal>>,
    asked: Cell<bool>,
}

impl Interruption {
    /// Listens. From now on these signals do not end this process.
    pub(super) fn listen(runtime: &Runtime) -> anyhow::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let signals = runtime
            .block_on(async { kinds.into_iter().map(signal).collect::<Result<Vec<_>, _>>() })?;
        Ok(Self { signals: RefCell::new(signals), asked: Cell::new(false) })
    }

    /// Fails once the end was asked for.
    pub(super) fn check(&self, runtime: &Runtime) -> anyhow::Result<()> {
        let mut signals = self.signals.borrow_mut();
        let came = runtime.block_on(async {
            // Gives the runtime the occasion to notice.
            tokio::task::yield_now().await;
            signals.iter_mut().any(|signal| signal.recv().now_or_never().is_some())
        });
        if came {
            self.asked.set(true);
        }
        if self.asked.get() {
            bail!("interrupted");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal as Number, getpid, kill_process};

    use super::*;

    #[test]
    fn a_signal_is_noticed_and_not_forgotten() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let interruption = Interruption::listen(&runtime).unwrap();
        interruption.check(&runtime).unwrap();
        kill_process(getpid(), Number::HUP).unwrap();
        // The signal may be handled by another thread, a little later.
        let noticed = (0..3000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            interruption.check(&runtime).is_err()
        });
        assert!(noticed);
        assert!(interruption.check(&runtime).is_err(), "still");
    }
}
