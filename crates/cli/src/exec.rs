//! `cofferdam exec`: one command in a fresh sandbox.

use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_guest_protocol::ExecReport;
use cofferdam_sandbox::{
    CallError, Command, Offsets, OutputChunk, Process, Sandbox, StdinWriter, usage,
};
use cofferdam_types::{AuditRecord, Outcome};
use tokio::sync::mpsc;

use crate::Product;
use crate::arguments::ExecArguments;
use crate::events::{Cutter, Event};
use crate::interruption::{Asked, Signals};
use crate::problem::Problem;
use crate::streams::{self, Writer};
use crate::terminal::RawTerminal;

/// The exit code when the sandbox could not be made, or did not end well.
const NO_SANDBOX: u8 = 125;
/// The exit code when the command could not be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The exit code when there is no such command.
const NOT_FOUND: u8 = 127;
/// The exit code when nobody reads our output any more.
const NO_READER: u8 = 141;

/// How long a command has to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// A failure with the exit code that goes with it.
type Failed = (Problem, u8);

/// Runs the command; returns the exit code.
pub(crate) async fn run(product: &Product, arguments: ExecArguments) -> ExitCode {
    let mut show = Show::new(arguments.json);
    let code = match attempt(product, arguments, &mut show).await {
        Ok(code) => code,
        Err((problem, code)) => {
            show.failed(&problem).await;
            code
        }
    };
    ExitCode::from(if show.finish().await { code } else { NO_READER })
}

async fn attempt(
    product: &Product,
    arguments: ExecArguments,
    show: &mut Show,
) -> Result<u8, Failed> {
    let usage_error = |cause: String| (Problem::option(cause), 2);
    let backend = product.backend(&arguments.sandbox.sandbox).map_err(|problem| (problem, 2))?;
    let variables =
        arguments.sandbox.variables(|name| std::env::var(name).ok()).map_err(usage_error)?;
    let mut signals = Signals::listen().map_err(|error| (Problem::runtime(&error), NO_SANDBOX))?;
    // What an earlier life left behind is removed by whoever comes next. That it
    // cannot be removed is no reason not to run.
    drop(backend.reconcile().await);

    let spec = arguments.sandbox.spec(arguments.output);
    let sandbox = Sandbox::open(backend.as_ref(), spec)
        .await
        .map_err(|error| (Problem::open(&error), NO_SANDBOX))?;
    show.opened(&sandbox).await;

    let name = arguments.command.first().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let words = arguments.command.into_iter().map(OsStringExt::into_vec).collect();
    let mut command = sandbox.command(cofferdam_guest_protocol::Program::Argv(words));
    for (name, value) in variables {
        command = command.env(name, value);
    }
    let terminal = if arguments.json { None } else { RawTerminal::take() };
    let command = match terminal {
        Some(_) => in_terminal(command),
        None => command.piped(),
    };
    let ended = drive(&sandbox, command, show, &mut signals, terminal).await;
    let trail = match &arguments.audit {
        Some(path) => write_trail(&sandbox, path).await,
        None => Ok(()),
    };
    let closed = sandbox.close().await.map_err(|error| (Problem::close(&error), NO_SANDBOX));
    let (outcome, report, offsets) = ended.map_err(|error| {
        let code = match error {
            CallError::NotStarted { errno, .. } => {
                let missing = rustix::io::Errno::NOENT.raw_os_error() == errno;
                if missing { NOT_FOUND } else { NOT_EXECUTABLE }
            }
            _ => NO_SANDBOX,
        };
        (Problem::call(&error, &name), code)
    })?;
    closed?;
    trail?;
    show.ended(&outcome, &report, offsets).await;
    Ok(outcome.shell_code())
}

fn in_terminal(command: Command) -> Command {
    let kind = std::env::var("TERM").unwrap_or_else(|_| "xterm-256color".to_owned());
    command.pty(RawTerminal::size()).env("TERM", kind)
}

/// Runs the command to its end, with our input, to our output.
async fn drive(
    sandbox: &Sandbox,
    command: Command,
    show: &mut Show,
    signals: &mut Signals,
    terminal: Option<RawTerminal>,
) -> Result<(Outcome, ExecReport, Offsets), CallError> {
    let mut process = sandbox.start(sandbox.next_call_id(), command).await?;
    let mut input = process.take_stdin().map(Input::new);
    let mut asked_before = false;
    let mut deadline: Option<tokio::time::Instant> = None;
    loop {
        let feed = async {
            match &mut input {
                Some(input) => input.feed().await,
                None => std::future::pending().await,
            }
        };
        let patience = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            chunk = process.next_output() => match chunk {
                Some(chunk) => if !show.output(chunk).await {
                    process.kill().await;
                },
                None => break,
            },
            asked = signals.next() => {
                if asked == Asked::Resize {
                    process.resize(RawTerminal::size()).await;
                } else {
                    end(&process, asked, asked_before).await;
                    asked_before = true;
                    deadline = Some(tokio::time::Instant::now() + GRACE);
                }
            },
            () = patience => {
                process.kill().await;
                deadline = None;
            },
            () = feed => input = None,
        }
    }
    let offsets = process.offsets();
    let report = process.wait().await?;
    drop(terminal);
    let outcome = sandbox.outcome(&process, &report).await?;
    Ok((outcome, report, offsets))
}

/// Passes a signal on; the second one leaves no choice.
async fn end(process: &Process, asked: Asked, asked_before: bool) {
    if asked_before {
        process.kill().await;
    } else {
        process.signal(asked.number()).await;
    }
}

/// Our stdin on its way to the command's.
struct Input {
    pieces: Option<mpsc::Receiver<Bytes>>,
    writer: StdinWriter,
}

impl Input {
    fn new(writer: StdinWriter) -> Self {
        Self { pieces: None, writer }
    }

    /// Passes input on until there is none, or nobody takes it.
    async fn feed(&mut self) {
        let pieces = self.pieces.get_or_insert_with(streams::read_stdin);
        while let Some(piece) = pieces.recv().await {
            if self.writer.write(piece).await.is_err() {
                return;
            }
        }
    }
}

async fn write_trail(sandbox: &Sandbox, path: &Path) -> Result<(), Failed> {
    let records = sandbox.audit().await.map_err(|error| (Problem::close(&error), NO_SANDBOX))?;
    std::fs::write(path, lines(&records)).map_err(|error| (Problem::file(path, &error), NO_SANDBOX))
}

fn lines(records: &[AuditRecord]) -> Vec<u8> {
    let mut lines = Vec::new();
    for record in records {
        // Every record has a JSON form.
        lines.extend(serde_json::to_vec(record).unwrap_or_default());
        lines.push(b'\n');
    }
    lines
}

/// Where everything is shown: plain, or as events.
struct Show {
    json: bool,
    stdout: Writer,
    stderr: Writer,
    cutters: [Cutter; 2],
}

impl Show {
    fn new(json: bool) -> Self {
        let cutters = [Cutter::default(), Cutter::default()];
        Self { json, stdout: Writer::stdout(), stderr: Writer::stderr(), cutters }
    }

    async fn opened(&mut self, sandbox: &Sandbox) {
        if self.json {
            let event = Event::opened(sandbox.id(), sandbox.isolation());
            self.stdout.write(event.line()).await;
        }
    }

    /// Shows a piece of output. `false` when nobody reads any more.
    async fn output(&mut self, chunk: OutputChunk) -> bool {
        if self.json {
            return self.output_event(chunk).await;
        }
        match chunk {
            OutputChunk::Stdout(bytes) => self.stdout.write(bytes).await,
            OutputChunk::Stderr(bytes) => self.stderr.write(bytes).await,
            OutputChunk::StdoutGap(bytes) => self.stdout.write(dropped(bytes)).await,
            OutputChunk::StderrGap(bytes) => self.stderr.write(dropped(bytes)).await,
        }
    }

    async fn output_event(&mut self, chunk: OutputChunk) -> bool {
        let [out, err] = &mut self.cutters;
        let event = match chunk {
            OutputChunk::Stdout(bytes) => out.push(&bytes).map(Event::Stdout),
            OutputChunk::Stderr(bytes) => err.push(&bytes).map(Event::Stderr),
            OutputChunk::StdoutGap(bytes) => Some(Event::StdoutDropped { bytes }),
            OutputChunk::StderrGap(bytes) => Some(Event::StderrDropped { bytes }),
        };
        match event {
            Some(event) => self.stdout.write(event.line()).await,
            None => true,
        }
    }

    async fn ended(&mut self, outcome: &Outcome, report: &ExecReport, offsets: Offsets) {
        let dropped = report.output.1 + report.error.1;
        if !self.json {
            if let Some(remark) = remark(outcome) {
                streams::tell(&remark);
            }
            return;
        }
        self.rest().await;
        let used = usage(report);
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let event = Event::Ended {
            outcome,
            duration_us: micros(used.duration),
            cpu_us: micros(used.cpu),
            peak_memory: used.peak_memory,
            stdout_bytes: offsets.stdout,
            stderr_bytes: offsets.stderr,
            truncated: dropped > 0,
            left_running: report.left_running,
        };
        self.stdout.write(event.line()).await;
    }

    async fn failed(&mut self, problem: &Problem) {
        if self.json {
            self.rest().await;
            self.stdout.write(Event::Failed { problem }.line()).await;
        } else {
            streams::tell(&problem.to_string());
        }
    }

    /// What was held back because it might have been half a character.
    async fn rest(&mut self) {
        let [out, err] = &mut self.cutters;
        let rest = [out.finish().map(Event::Stdout), err.finish().map(Event::Stderr)];
        for event in rest.into_iter().flatten() {
            self.stdout.write(event.line()).await;
        }
    }

    /// Waits until everything is written. `false` when nobody reads any more.
    async fn finish(self) -> bool {
        let stdout = self.stdout.finish().await;
        self.stderr.finish().await;
        stdout
    }
}

fn dropped(bytes: u64) -> Bytes {
    Bytes::from(format!("\n[cofferdam: {bytes} bytes dropped here]\n"))
}

/// What a person should know that the exit code does not tell.
fn remark(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::TimedOut => Some("cofferdam: the command's time was up".to_owned()),
        Outcome::OutOfMemory => {
            Some("cofferdam: the sandbox's memory was used up (see --memory)".to_owned())
        }
        Outcome::Lost { reason } => Some(format!("cofferdam: the command was lost: {reason}")),
        Outcome::Exited { .. } | Outcome::Signaled { .. } => None,
    }
}
