//! A command that runs: its monitor, its deadlines, its end.
//!
//! The monitor only tells what it sees. Whether it tells the truth in time,
//! late or never, the guest decides here when a command is asked to end, when it
//! is killed, and when the call is over.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use cofferdam_guest_protocol::{
    Control, Exec, ExecEnd, ExecReport, Leftovers, OutputMode, Program, PtySize, Stdin,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Rlimit};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::Winsize;

use crate::call::Channels;
use crate::channel::{InChannel, Kind, OutChannel, Watched, Writers};
use crate::monitor::{self, Descriptors};
use crate::report::{Ended, RECORD, Report, Step};
use crate::spare::{Order, Spare};
use crate::sys::{self, Forked};
use crate::tree;

/// Between two rounds of killing.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// Rounds of killing before the monitor itself is killed, once nothing but it is
/// left, and in all.
const PATIENCE: u32 = 50;
const MOST_ROUNDS: u32 = 1_000;

/// Signals kept for a command that has not started yet.
const MOST_PENDING: usize = 16;

/// A command.
pub(crate) struct Command {
    monitor: Option<Pid>,
    report: Option<Watched>,
    /// Part of a report.
    partial: Vec<u8>,
    names: Names,
    leftovers: Leftovers,
    grace: Duration,
    began: Instant,
    /// When its time is up.
    timeout_at: Option<Instant>,
    /// When it is killed after it was asked to end.
    kill_at: Option<Instant>,
    killing: Option<Killing>,
    /// Something could not be killed.
    gave_up: bool,
    verdict: Option<Verdict>,
    pending: Vec<i32>,
    started: Option<u32>,
    failed: Option<(i32, Step)>,
    ended: Option<(Ended, Instant)>,
    left_running: u32,
    /// How far the end has come.
    phase: Phase,
}

/// What error texts say of a command.
struct Names {
    cwd: String,
    program: String,
}

/// Why a command was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    TimedOut,
    Killed,
}

#[derive(Clone, Copy, Debug)]
struct Killing {
    rounds: u32,
    /// Rounds since only the monitor was left.
    alone: u32,
    next: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It runs, or is being killed.
    Running,
    /// It has ended; its last output is taken in.
    Draining,
    /// The reply is made.
    Over,
}

/// Where a command writes its stdout and its stderr without the guest: pipes of the host's.
pub(crate) type Outlets = (OwnedFd, OwnedFd);

/// Starts a command, with the spare monitor if there is one and it will do, and with the
/// outlets if there are any and nothing has to be kept of what it writes.
///
/// # Errors
/// When there are no descriptors or processes to be had. Whether the program can
/// be executed is not known yet.
pub(crate) fn start(
    call: u64,
    exec: &Exec,
    limit: &Rlimit,
    (spare, outlets): (&mut Option<Spare>, &mut Option<Outlets>),
    now: Instant,
) -> Result<(Command, Channels), Errno> {
    let streams = exec.pty.is_none() && exec.output == OutputMode::Stream;
    let outlets = if streams { outlets.take() } else { None };
    if outlets.is_none()
        && spare.is_some()
        && let Some(order) = Order::to_run(call, exec)
        && let Some((monitor, ends)) = spare.take().and_then(|spare| spare.employ(&order))
    {
        let channels = Channels {
            output: OutChannel::new(Some(ends.output), Kind::Pipe, exec.output),
            error: OutChannel::new(Some(ends.error), Kind::Pipe, exec.output),
            input: InChannel::new(None, Kind::Pipe),
        };
        return Ok((Command::new(monitor, ends.report, exec, now), channels));
    }
    let (report, report_end) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(&report)?;
    let plumbing = Plumbing::lay(exec, outlets)?;
    let [stdin, stdout, stderr] = &plumbing.theirs;
    let descriptors = Descriptors {
        standard: [stdin, stdout, stderr].map(|fd| fd.as_ref().map(AsFd::as_fd)),
        terminal: plumbing.terminal.as_deref(),
        report: report_end.as_fd(),
    };
    let monitor = match sys::fork()? {
        Forked::Child => monitor::run(call, exec, &descriptors, limit),
        Forked::Parent(pid) => pid,
    };
    Ok((Command::new(monitor, report, exec, now), plumbing.ours))
}

/// Both ends of a command's descriptors.
struct Plumbing {
    ours: Channels,
    theirs: [Option<OwnedFd>; 3],
    terminal: Option<CString>,
}

impl Plumbing {
    fn lay(exec: &Exec, outlets: Option<Outlets>) -> Result<Self, Errno> {
        match exec.pty {
            Some(size) => Self::lay_terminal(size, exec.output),
            None => Self::lay_pipes(exec, outlets),
        }
    }

    fn lay_pipes(exec: &Exec, outlets: Option<Outlets>) -> Result<Self, Errno> {
        let (output, error, stdout, stderr) = match outlets {
            Some((stdout, stderr)) => (None, None, stdout, stderr),
            None => {
                let (output, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
                let (error, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
                set_nonblocking(&output)?;
                set_nonblocking(&error)?;
                (Some(output), Some(error), stdout, stderr)
            }
        };
        let (mut stdin, mut input) = (None, None);
        if exec.stdin == Stdin::Piped {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            set_nonblocking(&writer)?;
            (stdin, input) = (Some(reader), Some(writer));
        }
        let theirs = [stdin, Some(stdout), Some(stderr)];
        let ours = Channels {
            output: OutChannel::new(output, Kind::Pipe, exec.output),
            error: OutChannel::new(error, Kind::Pipe, exec.output),
            input: InChannel::new(input, Kind::Pipe),
        };
        Ok(Self { ours, theirs, terminal: None })
    }

    fn lay_terminal(size: PtySize, mode: OutputMode) -> Result<Self, Errno> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&master)?;
        let terminal = ptsname(&master, Vec::new())?;
        rustix::termios::tcsetwinsize(&master, winsize(size))?;
        set_nonblocking(&master)?;
        let input = rustix::io::fcntl_dupfd_cloexec(&master, 0)?;
        let ours = Channels {
            output: OutChannel::new(Some(master), Kind::Terminal, mode),
            error: OutChannel::new(None, Kind::Terminal, mode),
            input: InChannel::new(Some(input), Kind::Terminal),
        };
        Ok(Self { ours, theirs: [None, None, None], terminal: Some(terminal) })
    }
}

fn winsize(size: PtySize) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Whether the kernel tells those at a terminal that it has another size. gVisor's keeps it to
/// itself; it is known by a call that it lacks and every kernel that sandboxes need has.
fn tells_of_sizes() -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::empty());
    opened.err() != Some(Errno::NOSYS)
}

pub(crate) fn set_nonblocking(fd: &OwnedFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)
}

impl Names {
    fn of(exec: &Exec) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(200).collect();
        let program = match &exec.program {
            Program::Argv(argv) => text(argv.first().map_or(b"".as_slice(), Vec::as_slice)),
            Program::Shell(_) => "/bin/sh".to_owned(),
        };
        Self { cwd: text(&exec.cwd), program }
    }

    fn failure(&self, errno: i32, step: Step) -> String {
        let cause = Errno::from_raw_os_error(errno);
        match step {
            Step::Prepare => format!("cannot prepare the command: {cause}"),
            Step::Directory => format!("cannot change to the directory {:?}: {cause}", self.cwd),
            Step::Program => format!("cannot execute {:?}: {cause}", self.program),
        }
    }
}

impl Command {
    fn new(monitor: Pid, report: OwnedFd, exec: &Exec, now: Instant) -> Self {
        Self {
            monitor: Some(monitor),
            report: Some(Watched::new(report)),
            partial: Vec::new(),
            names: Names::of(exec),
            leftovers: exec.leftovers,
            grace: Duration::from_millis(exec.grace_ms),
            began: now,
            timeout_at: exec.timeout_ms.and_then(|ms| now.checked_add(Duration::from_millis(ms))),
            kill_at: None,
            killing: None,
            gave_up: false,
            verdict: None,
            pending: Vec::new(),
            started: None,
            failed: None,
            ended: None,
            left_running: 0,
            phase: Phase::Running,
        }
    }

    pub(crate) fn monitor(&self) -> Option<Pid> {
        self.monitor
    }

    pub(crate) fn report(&mut self) -> Option<&mut Watched> {
        self.report.as_mut()
    }

    pub(crate) fn is_starting(&self) -> bool {
        self.monitor.is_some() && self.started.is_none() && self.failed.is_none()
    }

    pub(crate) fn started(&self) -> Option<u32> {
        self.started
    }

    /// When it has to be looked at, whatever happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let killing = self.killing.map(|killing| killing.next);
        [self.timeout_at, self.kill_at, killing].into_iter().flatten().min()
    }

    /// Takes in what the monitor has told.
    pub(crate) fn read_report(&mut self) {
        while let Some(report) = &mut self.report
            && report.ready
        {
            let mut bytes = [0; 2 * RECORD];
            match rustix::io::read(&report.fd, &mut bytes) {
                Ok(0) => self.report = None,
                Ok(count) => self.partial.extend(bytes.iter().take(count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => report.ready = false,
                Err(_) => self.report = None,
            }
            while let Some((record, rest)) = self.partial.split_first_chunk::<RECORD>() {
                let told = Report::from_bytes(record);
                self.partial = rest.to_vec();
                match told {
                    Some(Report::Started { pid }) => self.has_started(pid),
                    Some(Report::Failed { errno, step }) => self.failed = Some((errno, step)),
                    Some(Report::Ended(ended)) => self.ended = Some((ended, Instant::now())),
                    None => {}
                }
            }
        }
    }

    fn has_started(&mut self, pid: u32) {
        self.started = Some(pid);
        for signal in std::mem::take(&mut self.pending) {
            self.signal(signal);
        }
    }

    /// The monitor is gone, whatever ended it. What it told before counts.
    pub(crate) fn monitor_ended(&mut self) {
        if let Some(report) = &mut self.report {
            report.ready = true;
        }
        self.read_report();
        self.monitor = None;
    }

    pub(crate) fn control(&mut self, control: Control, channels: &Channels, now: Instant) {
        match control {
            Control::Signal(signal) if self.started.is_some() => self.signal(signal),
            Control::Signal(signal) => {
                if self.pending.len() < MOST_PENDING {
                    self.pending.push(signal);
                }
            }
            Control::Kill => {
                self.verdict.get_or_insert(Verdict::Killed);
                self.kill(now);
            }
            Control::Resize(size) => {
                if let Some(terminal) = &channels.output.source {
                    // On what is no terminal this does nothing.
                    rustix::termios::tcsetwinsize(&terminal.fd, winsize(size)).ok();
                    if !tells_of_sizes() {
                        self.signal(libc::SIGWINCH);
                    }
                }
            }
        }
    }

    fn signal(&self, signal: i32) {
        if let Some(monitor) = self.monitor
            && (1..=64).contains(&signal)
        {
            tree::signal(monitor, signal);
        }
    }

    fn kill(&mut self, now: Instant) {
        self.timeout_at = None;
        self.kill_at = None;
        if self.killing.is_none() && self.monitor.is_some() && !self.gave_up {
            self.killing = Some(Killing { rounds: 0, alone: 0, next: now });
        }
    }

    /// Goes on as far as it can; the reply when it is over.
    pub(crate) fn advance(
        &mut self,
        channels: &mut Channels,
        now: Instant,
        more: &mut bool,
    ) -> Option<ExecReport> {
        self.keep_time(now);
        if self.phase == Phase::Running && self.has_settled(now) {
            self.timeout_at = None;
            self.kill_at = None;
            self.phase = Phase::Draining;
            channels.input.close();
            channels.output.writer_ended(now);
            channels.error.writer_ended(now);
            *more = true;
        }
        if self.phase != Phase::Draining || !channels.are_taken() {
            return None;
        }
        self.phase = Phase::Over;
        let writers = if self.left_running > 0 { Writers::GoOn } else { Writers::Gone };
        channels.output.finish(writers);
        channels.error.finish(writers);
        Some(self.reply(channels, now))
    }

    fn keep_time(&mut self, now: Instant) {
        if self.timeout_at.is_some_and(|at| now >= at) {
            self.timeout_at = None;
            if self.ended.is_none() && self.failed.is_none() {
                self.verdict.get_or_insert(Verdict::TimedOut);
                self.signal(libc::SIGTERM);
                self.kill_at = now.checked_add(self.grace);
            }
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill(now);
        }
        if let Some(killing) = self.killing
            && now >= killing.next
        {
            self.killing = self.kill_round(killing, now);
        }
    }

    fn kill_round(&mut self, mut killing: Killing, now: Instant) -> Option<Killing> {
        let monitor = self.monitor?;
        killing.rounds += 1;
        killing.next = now + KILL_PAUSE;
        let found = tree::kill(|processes| tree::descendants(processes, monitor));
        if found == Ok(0) {
            if self.ended.is_some() || self.failed.is_some() {
                return None;
            }
            // Only its report is missing. It may be stopped.
            killing.alone += 1;
            tree::send(monitor, libc::SIGCONT);
        }
        if killing.alone > PATIENCE || killing.rounds > MOST_ROUNDS {
            tree::send(monitor, libc::SIGKILL);
            killing.alone = 0;
        }
        self.gave_up = killing.rounds > 2 * MOST_ROUNDS;
        (!self.gave_up).then_some(killing)
    }

    /// Whether the command has ended and nothing more is to be done about what
    /// it left behind.
    fn has_settled(&mut self, now: Instant) -> bool {
        let Some(monitor) = self.monitor else { return true };
        if self.failed.is_some() {
            return true;
        }
        let Some((ended, _)) = self.ended else { return self.gave_up };
        if self.killing.is_some() {
            return false;
        }
        if !ended.children {
            return true;
        }
        // After a time-out what is left has the rest of the grace.
        if self.kill_at.is_some() {
            return false;
        }
        // Where nobody can look, the monitor's word counts: there is somebody.
        let left = tree::living(monitor).map_or(1, |living| living.len());
        if left > 0 && self.leftovers == Leftovers::Kill && !self.gave_up {
            self.kill(now);
            return false;
        }
        self.left_running = u32::try_from(left).unwrap_or(u32::MAX);
        true
    }

    fn reply(&self, channels: &Channels, now: Instant) -> ExecReport {
        let end = match (self.verdict, self.failed, self.ended) {
            (Some(Verdict::TimedOut), ..) => ExecEnd::TimedOut,
            (_, Some((errno, step)), _) => {
                ExecEnd::NotStarted(errno, self.names.failure(errno, step))
            }
            (_, _, Some((ended, _))) => exec_end(ended.status),
            (Some(Verdict::Killed), ..) => ExecEnd::Signaled(libc::SIGKILL),
            (None, None, None) => ExecEnd::Lost,
        };
        let (ended, at) = match self.ended {
            Some((ended, at)) => (Some(ended), at),
            None => (None, now),
        };
        let duration = at.saturating_duration_since(self.began);
        ExecReport {
            end,
            output: channels.output.buffer.counts(),
            error: channels.error.buffer.counts(),
            duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            cpu_us: ended.map_or(0, |ended| ended.cpu_us),
            peak_memory: ended.map_or(0, |ended| ended.peak_memory),
            left_running: self.left_running,
        }
    }
}

fn exec_end(status: i32) -> ExecEnd {
    if libc::WIFSIGNALED(status) {
        ExecEnd::Signaled(libc::WTERMSIG(status))
    } else {
        ExecEnd::Exited(libc::WEXITSTATUS(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_code_or_a_signal() {
        assert_eq!(exec_end(0), ExecEnd::Exited(0));
        assert_eq!(exec_end(0x7f00), ExecEnd::Exited(127));
        assert_eq!(exec_end(9), ExecEnd::Signaled(9));
        assert_eq!(exec_end(0x80 | 11), ExecEnd::Signaled(11));
    }
}
