//! The caller's terminal, given over to a command inside for a while.

use cofferdam_guest_protocol::PtySize;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// Until everything is shown it would wait for whoever looks at the terminal, and for our own
/// thread that waits for the same: for ever, and deaf to signals.
const WITHOUT_WAITING: OptionalActions = OptionalActions::Now;

/// The caller's terminal in raw mode: every key goes to the command. Dropping
/// this gives the terminal back as it was.
pub(crate) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Takes over the terminal, if stdin and stdout are one.
    pub(crate) fn take() -> Option<Self> {
        let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
        if !isatty(stdin) || !isatty(stdout) {
            return None;
        }
        let before = tcgetattr(stdin).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin, WITHOUT_WAITING, &raw).ok()?;
        Some(Self { before })
    }

    /// Its size now.
    pub(crate) fn size() -> PtySize {
        match tcgetwinsize(rustix::stdio::stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
                PtySize { rows: size.ws_row, cols: size.ws_col }
            }
            _ => PtySize { rows: 24, cols: 80 },
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that has gone away needs no restoring.
        tcsetattr(rustix::stdio::stdin(), WITHOUT_WAITING, &self.before).ok();
    }
}
