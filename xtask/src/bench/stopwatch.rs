//! The stopwatch: a copy of this program that takes the times of another one in
//! a place where only a new process can be, without the time to get there.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::program::{self, Companion};

/// Take a program's time whenever a line is read
#[derive(Args)]
pub(super) struct Serve {
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

impl Serve {
    /// Answers each line of stdin with the time that the program took.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let (name, arguments) = self.program.split_first().context("no program")?;
        let mut command = program::command(name);
        command.args(arguments);
        let mut out = io::stdout().lock();
        for line in io::stdin().lock().lines() {
            line?;
            match program::time(&mut command) {
                Ok(time) => writeln!(out, "{}", time.as_nanos())?,
                Err(error) => writeln!(out, "{error:#}")?,
            }
            out.flush()?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The arguments by which this program becomes the stopwatch of another.
pub(super) const ARGUMENTS: [&str; 3] = ["bench", "stopwatch", "--"];

/// A stopwatch that runs.
pub(super) struct Stopwatch {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    _companion: Companion,
}

impl Stopwatch {
    /// Starts one; the command ends up in [`Serve::run`].
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut companion = Companion(child);
        let questions = companion.stdin.take().context("the stopwatch has no stdin")?;
        let answers = companion.stdout.take().context("the stopwatch has no stdout")?;
        Ok(Self { questions, answers: BufReader::new(answers), _companion: companion })
    }

    /// Takes the time once.
    pub(super) fn time(&mut self) -> anyhow::Result<Duration> {
        let mut answer = String::new();
        writeln!(self.questions).context("the stopwatch has stopped")?;
        self.answers.read_line(&mut answer)?;
        let answer = answer.trim();
        let time = answer.parse().map(Duration::from_nanos);
        time.map_err(|_| {
            anyhow::anyhow!("{}", if answer.is_empty() { "no answer" } else { answer })
        })
    }
}
