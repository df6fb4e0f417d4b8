//! `cofferdam exec`: one command in a fresh sandbox.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use cofferdam_guest_protocol::ExecReport;
use cofferdam_sandbox::{Backend, CallError, Command, Offsets, Sandbox, StdinWriter};
use cofferdam_types::Outcome;
use tokio::time::Instant;

use crate::arguments::ExecArguments;
use crate::image::task;
use crate::interruption::{Asked, FAREWELL, GRACE, Signals};
use crate::problem::Problem;
use crate::show::Show;
use crate::streams::{self, Wanted, Writer};
use crate::taps::Taps;
use crate::terminal::RawTerminal;
use crate::trail::{self, Trail};

/// The exit code when the sandbox could not be made, or did not end well.
pub(crate) const NO_SANDBOX: u8 = 125;
/// The exit code when the command could not be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The exit code when there is no such command.
const NOT_FOUND: u8 = 127;
/// The exit code when our stdout takes no more: its reader has gone, as a rule.
const NO_READER: u8 = 141;

/// A failure with the exit code that goes with it.
type Failed = (Problem, u8);

/// How a command ended, with what it used and wrote.
type Ended = (Outcome, ExecReport, Offsets);

/// Why there is no such end.
enum Unended {
    Call(CallError),
    /// It was told to end, and nobody says that it did.
    Interrupted(Asked),
    /// It was killed, for what it had read of its input was not all.
    Input(io::Error),
}

impl From<CallError> for Unended {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// Runs the command; returns the exit code.
pub(crate) async fn run(
    backends: &[Arc<dyn Backend>],
    home: &Path,
    arguments: ExecArguments,
) -> ExitCode {
    let mut show = Show::new(arguments.json);
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            show.failed(&Problem::runtime(&error)).await;
            show.finish().await;
            return ExitCode::from(NO_SANDBOX);
        }
    };
    let result = attempt((backends, home), arguments, &mut show, &mut signals).await;
    let code = match &result {
        Ok((outcome, ..)) => outcome.shell_code(),
        Err((_, code)) => *code,
    };
    let is_missing = show.has_dropped();
    let told = async {
        match &result {
            Ok((outcome, report, offsets)) => show.ended(outcome, report, *offsets).await,
            Err((problem, _)) => show.failed(problem).await,
        }
        show.finish().await
    };
    // The sandbox is gone by now. Only readers of ours can still keep us.
    let told = tokio::select! {
        biased;
        told = told => Some(told),
        _ = signals.insistence() => None,
    };
    ExitCode::from(match (told, signals.first()) {
        (Some(false), _) => NO_READER,
        (Some(true), _) if !is_missing => code,
        // What was asked of us is why something is missing, whatever the command said.
        (_, Some(asked)) => {
            tell_dropped(asked).await;
            asked.exit_code()
        }
        (_, None) => code,
    })
}

/// Says that not everything was shown, to whoever still listens.
async fn tell_dropped(asked: Asked) {
    let number = asked.number();
    let line =
        format!("cofferdam: signal {number} came; output that nobody had read was dropped\n");
    let mut stderr = Writer::stderr();
    let written = async {
        stderr.write(line.into()).await;
        stderr.finish().await
    };
    tokio::time::timeout(FAREWELL, written).await.ok();
}

async fn attempt(
    (backends, home): (&[Arc<dyn Backend>], &Path),
    arguments: ExecArguments,
    show: &mut Show,
    signals: &mut Signals,
) -> Result<Ended, Failed> {
    let usage_error = |cause: String| (Problem::option(cause), 2);
    let required = arguments.sandbox.required();
    let backend = crate::backend(backends, arguments.sandbox.backend(), required);
    let backend = backend.map_err(|problem| (problem, 2))?;
    let variables = arguments.sandbox.variables(|name| std::env::var_os(name));
    let variables = variables.map_err(usage_error)?;
    streams::check_stdin().map_err(|error| (Problem::input(&error), NO_SANDBOX))?;
    let mut spec = arguments.spec();
    let mut taps = Taps::default();
    // What is shown as it is needs nobody to look at it.
    if backend.capabilities().outlets && !arguments.json && arguments.output.is_none() {
        let (ours, outlets) =
            Taps::lay().map_err(|error| (Problem::runtime(&error), NO_SANDBOX))?;
        taps = ours;
        spec.outlets = Some(outlets);
    }
    let trail = match &arguments.audit {
        Some(path) => Some(open_trail(path, arguments.workspace.as_deref())?),
        None => None,
    };
    // What an earlier life left behind is removed by whoever comes next. That it
    // cannot be removed is no reason not to run, but one to be told.
    let reconciled = tokio::select! {
        reconciled = backend.reconcile() => reconciled,
        asked = signals.end() => {
            return Err((Problem::not_begun(asked.number()), asked.exit_code()));
        }
    };
    if let Some(problem) = Problem::remains_of(&reconciled) {
        streams::tell(&problem.to_string());
    }
    task::settle(home, &mut spec, signals, NO_SANDBOX).await?;

    // Another sandbox may be at work on the directory, and take its time.
    let sandbox = tokio::select! {
        opened = Sandbox::open(backend.as_ref(), spec) => opened,
        asked = signals.end() => {
            return Err((Problem::not_begun(asked.number()), asked.exit_code()));
        }
    };
    let sandbox = sandbox.map_err(|error| (Problem::open(&error), NO_SANDBOX))?;
    show.opened(&sandbox).await;

    let name = arguments.command.first().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let words = arguments.command.into_iter().map(OsStringExt::into_vec).collect();
    let mut command = sandbox.command(cofferdam_guest_protocol::Program::Argv(words));
    let terminal = if arguments.json { None } else { RawTerminal::take() };
    command = match terminal {
        Some(_) => in_terminal(command),
        None if streams::stdin_is_empty() => command,
        None => command.piped(),
    };
    for (name, value) in variables {
        command = command.env(name, value);
    }
    let ended = drive(&sandbox, command, (show, &mut taps), signals, terminal).await;
    let written = match trail {
        Some(trail) => write_trail(&sandbox, trail).await,
        None => Ok(()),
    };
    let closed = sandbox.close().await.map_err(|error| (Problem::close(&error), NO_SANDBOX));
    // Nobody writes any more. Whether somebody reads is not waited for yet.
    for (piece, rest) in taps.rest() {
        tokio::select! {
            biased;
            _ = show.output(piece, rest) => {}
            _ = signals.insistence() => show.drop_output(),
        }
    }
    let ended = ended.map_err(|unended| {
        let error = match unended {
            Unended::Call(error) => error,
            Unended::Interrupted(asked) => {
                return (Problem::not_seen_to_end(asked.number()), asked.exit_code());
            }
            Unended::Input(error) => return (Problem::input(&error), NO_SANDBOX),
        };
        let code = match error {
            CallError::NotStarted { errno, .. } => {
                let missing = rustix::io::Errno::NOENT.raw_os_error() == errno;
                if missing { NOT_FOUND } else { NOT_EXECUTABLE }
            }
            CallError::Encode(_) | CallError::Refused(_) => NOT_EXECUTABLE,
            _ => NO_SANDBOX,
        };
        (Problem::call(&error, &name), code)
    });
    // What went wrong first decides; what did after that is not kept back.
    let after = [closed.err(), written.err()].into_iter().flatten();
    after.fold(ended, |before, (problem, code)| {
        Err(match before {
            Ok(_) => (problem, code),
            Err((first, code)) => (first.and_then(&problem), code),
        })
    })
}

fn in_terminal(command: Command) -> Command {
    let kind = std::env::var_os("TERM").unwrap_or_else(|| "xterm-256color".into());
    command.pty(RawTerminal::size()).env("TERM", kind.into_vec())
}

/// Opens the file of `--audit`, unless it is where commands may change what leads to it.
fn open_trail(path: &Path, workspace: Option<&Path>) -> Result<Trail, Failed> {
    let within = || {
        let cause = format!("--audit {} is in the directory of --workspace", path.display());
        (Problem::option(cause), 2)
    };
    if workspace.is_some_and(|workspace| trail::is_within(path, workspace)) {
        return Err(within());
    }
    let trail = Trail::open(path).map_err(|problem| (problem, NO_SANDBOX))?;
    // A link leads elsewhere than its name says, also to where nothing was yet.
    if workspace.is_some_and(|workspace| trail.leads_into(workspace)) {
        trail.withdraw();
        return Err(within());
    }
    Ok(trail)
}

/// Runs the command to its end, with our input, to our output. It is killed when stdout takes no
/// more of that; a stderr that nobody reads is not its affair.
async fn drive(
    sandbox: &Sandbox,
    command: Command,
    (show, taps): (&mut Show, &mut Taps),
    signals: &mut Signals,
    terminal: Option<RawTerminal>,
) -> Result<Ended, Unended> {
    let mut process = sandbox.start(sandbox.next_call_id(), command).await?;
    // One future for all rounds: dropped halfway, it would lose what it holds.
    let input = feed(process.take_stdin());
    tokio::pin!(input);
    let mut fed = false;
    let mut unread = None;
    let mut ending = Ending::default();
    let mut has_reader = true;
    loop {
        let ready = async {
            show.ready().await;
            tokio::select! {
                chunk = process.next_output() => chunk.map(|chunk| (chunk, None)),
                tapped = taps.next() => Some(tapped),
            }
        };
        let step = tokio::select! {
            output = ready => match output {
                Some((chunk, rest)) => {
                    let taken = show.output(chunk, rest).await;
                    if taken || !std::mem::take(&mut has_reader) {
                        continue;
                    }
                    ending.leave_no_choice()
                }
                None => break,
            },
            () = show.reader_gone(), if has_reader => {
                has_reader = false;
                ending.leave_no_choice()
            }
            asked = signals.next() => match asked {
                Asked::Resize => {
                    process.resize(RawTerminal::size());
                    continue;
                }
                asked => ending.press(Some(asked)),
            },
            () = ending.patience() => ending.press(None),
            read = &mut input, if !fed => {
                fed = true;
                match read {
                    Ok(()) => continue,
                    Err(error) => unread = Some(error),
                }
                ending.leave_no_choice()
            }
        };
        match step {
            Step::Signal(number) => process.signal(number),
            Step::Kill => process.kill(),
            Step::Abandon => show.abandon(),
            Step::Leave => return Err(ending.unended()),
        }
    }
    let offsets = process.offsets();
    if terminal.is_some() {
        // What it wrote for a raw terminal is to be shown on one.
        tokio::time::timeout(FAREWELL, show.flush()).await.ok();
    }
    drop(terminal);
    let report = process.wait().await?;
    if let Some(error) = unread {
        return Err(Unended::Input(error));
    }
    let outcome = sandbox.outcome(&process, &report).await?;
    Ok((outcome, report, offsets))
}

/// How far we have gone in ending the command.
#[derive(Default)]
struct Ending {
    pressed: u32,
    next: Option<Instant>,
    /// What was asked of us first.
    asked: Option<Asked>,
}

/// One step further in ending the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// What we were asked is passed on.
    Signal(i32),
    /// It has no choice.
    Kill,
    /// Not even those are waited for who should read the output.
    Abandon,
    /// Nor is the guest: the command ends with the sandbox.
    Leave,
}

impl Ending {
    /// Waits until the next step is due.
    async fn patience(&self) {
        match self.next {
            Some(next) => tokio::time::sleep_until(next).await,
            None => std::future::pending().await,
        }
    }

    /// Nobody reads the output, or its input is lost: the command has no choice, if it still
    /// had one.
    fn leave_no_choice(&mut self) -> Step {
        if self.pressed < 2 { self.press(None) } else { Step::Kill }
    }

    /// The next step: because we were asked again, or because the one before was of no use.
    fn press(&mut self, asked: Option<Asked>) -> Step {
        self.asked = self.asked.or(asked);
        let (pressed, step, patience) = match (self.pressed, asked) {
            (0, Some(asked)) => (1, Step::Signal(asked.number()), GRACE),
            // Nobody asked: who reads stderr has the time that a command would have.
            (0, None) => (2, Step::Kill, GRACE),
            (1, _) => (2, Step::Kill, FAREWELL),
            // What was large takes the kernel a while.
            (2, _) => (3, Step::Abandon, GRACE),
            _ => (4, Step::Leave, FAREWELL),
        };
        self.pressed = pressed;
        self.next = Some(Instant::now() + patience);
        step
    }

    /// Why there is no end to tell of, after the last step.
    fn unended(&self) -> Unended {
        match self.asked {
            Some(asked) => Unended::Interrupted(asked),
            None => {
                let reason = "the guest did not say that the command was killed".to_owned();
                Unended::Call(CallError::ConnectionLost { reason })
            }
        }
    }
}

/// Passes our input on until there is none, or nobody takes it. Input that cannot be read has
/// not ended.
async fn feed(writer: Option<StdinWriter>) -> io::Result<()> {
    let Some(mut writer) = writer else { return Ok(()) };
    let mut pieces = streams::read_stdin(Wanted::Perhaps);
    while let Some(piece) = pieces.recv().await {
        if writer.write(piece?).await.is_err() {
            return Ok(());
        }
    }
    writer.close();
    Ok(())
}

async fn write_trail(sandbox: &Sandbox, trail: Trail) -> Result<(), Failed> {
    // What is still connected is recorded when it ends.
    sandbox.end_egress().await;
    let records = sandbox.audit().await.map_err(|error| (Problem::close(&error), NO_SANDBOX))?;
    trail.write(&records).map_err(|problem| (problem, NO_SANDBOX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_guest_that_does_nothing_is_left_after_the_last_step() {
        let mut ending = Ending::default();
        let begun = Instant::now();
        assert_eq!(ending.press(Some(Asked::Interrupt)), Step::Signal(2));
        for step in [Step::Kill, Step::Abandon, Step::Leave, Step::Leave] {
            assert!(ending.next.is_some_and(|next| next <= begun + GRACE + FAREWELL));
            assert_eq!(ending.press(None), step);
        }
        assert!(matches!(ending.unended(), Unended::Interrupted(Asked::Interrupt)));
    }

    #[tokio::test]
    async fn a_command_without_a_reader_is_killed_and_not_waited_for_without_an_end() {
        let mut ending = Ending::default();
        assert_eq!(ending.leave_no_choice(), Step::Kill);
        assert_eq!(ending.leave_no_choice(), Step::Kill);
        for step in [Step::Abandon, Step::Leave] {
            assert!(ending.next.is_some());
            assert_eq!(ending.press(None), step);
        }
        assert!(matches!(ending.unended(), Unended::Call(CallError::ConnectionLost { .. })));
    }
}
