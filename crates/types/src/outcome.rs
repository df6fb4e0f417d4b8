//! How a command ended, and what it used.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a command ended. Each way is its own case; none stands in for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It ended by itself.
    Exited {
        /// Its exit code.
        exit_code: i32,
    },
    /// A signal ended it.
    Signaled {
        /// The number of the signal.
        signal: i32,
    },
    /// It was ended because its time was up.
    TimedOut,
    /// The kernel ended it because the sandbox's memory was used up.
    OutOfMemory,
    /// Its end is not known: the sandbox went away under it.
    Lost {
        /// What is known of the reason.
        reason: String,
    },
}

impl Outcome {
    /// The exit code that a shell would show: 128+N for signal N, 124 for a
    /// time-out, 137 for out of memory, 125 where the end is not known.
    #[must_use]
    pub fn shell_code(&self) -> u8 {
        match self {
            Self::Exited { exit_code } => u8::try_from(exit_code & 0xff).unwrap_or(u8::MAX),
            Self::Signaled { signal } => u8::try_from(128 + (signal & 0x7f)).unwrap_or(u8::MAX),
            Self::TimedOut => 124,
            Self::OutOfMemory => 137,
            Self::Lost { .. } => 125,
        }
    }

    /// Whether the command ended by itself with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        matches!(self, Self::Exited { exit_code: 0 })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { exit_code } => write!(formatter, "exit code: {exit_code}"),
            Self::Signaled { signal } => write!(formatter, "ended by signal {signal}"),
            Self::TimedOut => write!(formatter, "timed out"),
            Self::OutOfMemory => write!(formatter, "out of memory"),
            Self::Lost { reason } => write!(formatter, "its end is not known: {reason}"),
        }
    }
}

/// What a command used, its descendants that it or the guest waited for included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// From start to end.
    pub duration: Duration,
    /// CPU time, user and system together.
    pub cpu: Duration,
    /// The largest resident set of any one of its processes, in bytes.
    pub peak_memory: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_codes_tell_the_ways_to_end_apart() {
        assert_eq!(Outcome::Exited { exit_code: 7 }.shell_code(), 7);
        assert_eq!(Outcome::Signaled { signal: 15 }.shell_code(), 143);
        assert_eq!(Outcome::TimedOut.shell_code(), 124);
        assert_eq!(Outcome::OutOfMemory.shell_code(), 137);
        assert_eq!(Outcome::Lost { reason: String::new() }.shell_code(), 125);
    }

    #[test]
    fn the_json_form_names_the_outcome() {
        let json = serde_json::to_string(&Outcome::Exited { exit_code: 3 }).unwrap();
        assert_eq!(json, r#"{"outcome":"exited","exit_code":3}"#);
    }
}
