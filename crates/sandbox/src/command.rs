//! A command to run, complete: what it is given is all it gets.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_guest_protocol::{Exec, Leftovers, OutputMode, Program, PtySize, Stdin};
use cofferdam_types::Limits;

use crate::backend::WORKSPACE;

/// The home directory of the user inside every sandbox.
pub const HOME: &str = "/home/agent";

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Between asking a command to end and ending it.
const GRACE: Duration = Duration::from_secs(2);

/// Bytes that [`crate::Sandbox::run`] keeps of each stream at most.
const KEEP: u64 = 64 << 20;

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What the guest is asked.
    pub exec: Exec,
    /// What [`crate::Sandbox::run`] sends to its stdin.
    pub input: Bytes,
    /// Bytes that [`crate::Sandbox::run`] keeps of each stream at most: half
    /// from its beginning, half from its end.
    pub keep: u64,
}

impl Command {
    /// A command in the workspace with a plain environment, no stdin, and the
    /// time and output that the limits allow.
    #[must_use]
    pub fn new(program: Program, limits: &Limits) -> Self {
        let env = [
            ("PATH", PATH),
            ("HOME", HOME),
            ("USER", "agent"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
        ];
        let exec = Exec {
            program,
            cwd: WORKSPACE.into(),
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            stdin: Stdin::Null,
            pty: None,
            timeout_ms: limits.wall_time.map(milliseconds),
            grace_ms: milliseconds(GRACE),
            output: limits.output.map_or(OutputMode::Stream, |limit| OutputMode::Capture { limit }),
            leftovers: Leftovers::Keep,
        };
        Self { exec, input: Bytes::new(), keep: KEEP }
    }

    /// A script for `/bin/sh`.
    #[must_use]
    pub fn shell(script: impl Into<Vec<u8>>, limits: &Limits) -> Self {
        Self::new(Program::Shell(script.into()), limits)
    }

    /// A program and its arguments.
    #[must_use]
    pub fn argv<Words>(words: Words, limits: &Limits) -> Self
    where
        Words: IntoIterator,
        Words::Item: Into<Vec<u8>>,
    {
        Self::new(Program::Argv(words.into_iter().map(Into::into).collect()), limits)
    }

    /// Runs it in another directory.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<Vec<u8>>) -> Self {
        self.exec.cwd = path.into();
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        let name = name.into();
        self.exec.env.retain(|(other, _)| *other != name);
        self.exec.env.push((name, value.into()));
        self
    }

    /// Takes every variable away.
    #[must_use]
    pub fn clear_env(mut self) -> Self {
        self.exec.env.clear();
        self
    }

    /// Gives it a stdin that the caller writes to.
    #[must_use]
    pub fn piped(mut self) -> Self {
        self.exec.stdin = Stdin::Piped;
        self
    }

    /// Gives it this stdin, when it is run by [`crate::Sandbox::run`].
    #[must_use]
    pub fn input(mut self, input: impl Into<Bytes>) -> Self {
        self.input = input.into();
        self.piped()
    }

    /// Gives it a terminal, which is then also its stdin.
    #[must_use]
    pub fn pty(mut self, size: PtySize) -> Self {
        self.exec.pty = Some(size);
        self.piped().env("TERM", "xterm-256color")
    }

    /// Ends it after this time; `None` never does.
    #[must_use]
    pub fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.exec.timeout_ms = timeout.map(milliseconds);
        self
    }

    /// How long it may take, with the time to end after it was asked to.
    pub(crate) fn longest(&self) -> Option<Duration> {
        let allowed = Duration::from_millis(self.exec.timeout_ms?);
        Some(allowed.saturating_add(Duration::from_millis(self.exec.grace_ms)))
    }

    /// Waits this long between asking it to end and ending it.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.exec.grace_ms = milliseconds(grace);
        self
    }

    /// What becomes of its output when nobody reads.
    #[must_use]
    pub fn output(mut self, output: OutputMode) -> Self {
        self.exec.output = output;
        self
    }

    /// What becomes of processes it leaves behind.
    #[must_use]
    pub fn leftovers(mut self, leftovers: Leftovers) -> Self {
        self.exec.leftovers = leftovers;
        self
    }

    /// How many bytes [`crate::Sandbox::run`] keeps of each stream.
    #[must_use]
    pub fn keep(mut self, bytes: u64) -> Self {
        self.keep = bytes;
        self
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_the_sandbox_are_those_of_a_command() {
        let limits = Limits {
            wall_time: Some(Duration::from_secs(3)),
            output: Some(1000),
            ..Limits::default()
        };
        let command = Command::shell("true", &limits);
        assert_eq!(command.exec.timeout_ms, Some(3000));
        assert_eq!(command.exec.output, OutputMode::Capture { limit: 1000 });

        let command = Command::shell("true", &Limits::default());
        assert_eq!(command.exec.timeout_ms, None);
        assert_eq!(command.exec.output, OutputMode::Stream);
    }

    #[test]
    fn a_variable_is_set_once() {
        let command = Command::argv(["env"], &Limits::default()).clear_env();
        let command = command.env("A", "1").env("B", "2").env("A", "3");
        assert_eq!(command.exec.env, [(b"B".into(), b"2".into()), (b"A".into(), b"3".into())]);
    }
}
