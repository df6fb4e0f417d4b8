//! How a command ended, in words.

use cofferdam_types::{Outcome, ToolStatus};

use crate::cut::Shown;

/// What is known of a command that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    /// How many of its processes still run.
    pub(crate) left_running: u32,
}

impl Ending {
    pub(crate) fn status(&self) -> ToolStatus {
        match &self.outcome {
            Outcome::Exited { exit_code: 0 } => ToolStatus::Done,
            Outcome::Lost { .. } => ToolStatus::Unknown,
            _ => ToolStatus::Failed,
        }
    }

    /// A line, without its end. The time is what the command was given.
    pub(crate) fn text(&self, seconds: Option<u64>) -> String {
        let code = self.outcome.shell_code();
        let mut text = match &self.outcome {
            Outcome::Exited { exit_code } => format!("exit code: {exit_code}"),
            Outcome::Signaled { signal } => {
                format!("exit code: {code} (ended by signal {signal}{})", signal_name(*signal))
            }
            Outcome::TimedOut => {
                let after = seconds.map_or(String::new(), |seconds| format!(" after {seconds} s"));
                format!(
                    "exit code: {code} (timed out{after} and was ended; the output is what came \
                     until then. For a longer time set `timeout`, for a server `background`)"
                )
            }
            Outcome::OutOfMemory => {
                format!("exit code: {code} (ended because the sandbox's memory was used up)")
            }
            Outcome::Lost { reason } => {
                format!("exit code: not known ({reason}); the command may or may not have run")
            }
        };
        match self.left_running {
            0 => {}
            1 => text.push_str("\n[1 process that it started is still running]"),
            count => {
                text.push_str(&format!("\n[{count} processes that it started are still running]"));
            }
        }
        text
    }
}

/// The name of a signal, where it says something.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => ", SIGHUP",
        2 => ", SIGINT",
        3 => ", SIGQUIT",
        4 => ", SIGILL",
        6 => ", SIGABRT",
        7 => ", SIGBUS",
        8 => ", SIGFPE",
        9 => ", SIGKILL",
        11 => ", SIGSEGV",
        13 => ", SIGPIPE",
        15 => ", SIGTERM",
        31 => ", SIGSYS",
        _ => "",
    }
}

/// The output with a last line under it.
pub(crate) fn under(shown: &Shown, last: &str) -> String {
    let output = &shown.text;
    let line_break = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
    let note = if output.contains('\u{fffd}') {
        "[bytes that are not UTF-8 are shown as \u{fffd}]\n"
    } else {
        ""
    };
    format!("{output}{line_break}{note}{last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_end_has_an_exit_code_and_its_reason() {
        let text = |outcome| Ending { outcome, left_running: 0 }.text(Some(5));
        assert_eq!(text(Outcome::Exited { exit_code: 3 }), "exit code: 3");
        assert!(
            text(Outcome::Signaled { signal: 11 }).contains("139 (ended by signal 11, SIGSEGV")
        );
        assert!(text(Outcome::TimedOut).contains("124 (timed out after 5 s"));
        assert!(text(Outcome::OutOfMemory).contains("memory"));
        assert!(text(Outcome::Lost { reason: "gone".into() }).contains("not known (gone)"));
        let left = Ending { outcome: Outcome::Exited { exit_code: 0 }, left_running: 2 };
        assert!(left.text(None).ends_with("[2 processes that it started are still running]"));
    }

    #[test]
    fn the_last_line_stands_on_its_own() {
        let shown = |text: &str| Shown { text: text.to_owned(), rest: None };
        assert_eq!(under(&shown(""), "exit code: 0"), "exit code: 0");
        assert_eq!(under(&shown("a"), "exit code: 0"), "a\nexit code: 0");
        assert_eq!(under(&shown("a\n"), "exit code: 0"), "a\nexit code: 0");
    }
}
