//! Signals from outside: passed on to the command once, obeyed at once when
//! they come again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
    /// The signal's number.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Interrupt => SignalKind::interrupt(),
            Self::Terminate => SignalKind::terminate(),
            Self::HangUp => SignalKind::hangup(),
            Self::Resize => SignalKind::window_change(),
        }
        .as_raw_value()
    }
}

/// Listens for signals.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    resize: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::Terminate,
            _ = self.hang_up.recv() => Asked::HangUp,
            _ = self.resize.recv() => Asked::Resize,
        }
    }
}
