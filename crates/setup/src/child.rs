//! Programs that install something: each in a group of its own, within its time, line by line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How often it is looked whether somebody wants a stop.
const TICK: Duration = Duration::from_millis(100);

/// How long output is read after its program has ended: something it left behind may hold it.
const AFTERWARDS: Duration = Duration::from_millis(300);

/// How long a program may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(3);

/// Starts a program whose files others may read and nobody else may write, whatever the user's mask
/// is. What we have started ends when we do, even if we are killed: a watcher in its group looks
/// whether we are there. It holds nothing of what the program holds.
const START: &str = "umask 022; parent=$PPID; \
    (while kill -0 \"$parent\" 2>/dev/null; do sleep 1; done; kill -KILL 0) \
    </dev/null >/dev/null 2>&1 & exec \"$@\"";

/// Bytes of a line that are kept, and lines.
const LINE: usize = 2_000;
const LINES: usize = 60;

/// A program with its arguments.
#[derive(Debug)]
pub struct Order<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: Vec<&'a str>,
    /// Its working directory.
    pub directory: &'a Path,
    /// Variables that it gets, or does not get, apart from those of this process.
    pub variables: Vec<(OsString, Option<OsString>)>,
    /// How long it may take.
    pub limit: Duration,
    /// What the program holds as long as it lives: its standard input, which is empty.
    pub lock: &'a File,
    /// Where its standard output goes, if that is no lines.
    pub output: Option<&'a File>,
}

impl Order<'_> {
    /// As one would type it.
    #[must_use]
    pub fn text(&self) -> String {
        let program = self.program.display().to_string();
        let words = std::iter::once(program.as_str()).chain(self.arguments.iter().copied());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// How a program ended, and the last that it said.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// The last lines.
    pub said: Vec<String>,
}

/// How a program ended.
#[derive(Debug)]
pub enum End {
    /// By itself.
    Exited(ExitStatus),
    /// It took too long.
    TooLong,
    /// Somebody wanted a stop.
    Stopped,
}

/// An exit status in words.
#[must_use]
pub fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Runs a program to its end, or ends it when its time is over or `stop` is set. Nothing that it
/// started in its own group is left.
///
/// # Errors
/// When it cannot be started or listened to.
pub fn run(order: &Order<'_>, stop: &AtomicBool, hear: &mut dyn FnMut(&str)) -> io::Result<Ran> {
    let (reader, writer) = io::pipe()?;
    let group = Group::start(order, writer)?;
    follow(group, reader, order.limit, stop, hear)
}

fn follow(
    group: Group,
    mut reader: io::PipeReader,
    limit: Duration,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(&str),
) -> io::Result<Ran> {
    let deadline = Instant::now() + limit;
    let mut lines = Lines::default();
    let mut ended: Option<Instant> = None;
    let mut open = true;
    let end = loop {
        if ended.is_some_and(|at| !open || at.elapsed() > AFTERWARDS) {
            break End::Exited(group.end()?);
        }
        if stop.load(Ordering::Relaxed) {
            break End::Stopped;
        }
        if Instant::now() >= deadline {
            break End::TooLong;
        }
        if open {
            if readable(&reader)? {
                let mut bytes = [0; 8192];
                match reader.read(&mut bytes)? {
                    0 => open = false,
                    read => lines.push(bytes.get(..read).unwrap_or_default(), hear),
                }
            }
        } else {
            std::thread::sleep(TICK / 10);
        }
        if ended.is_none() && group.has_ended() {
            ended = Some(Instant::now());
        }
    };
    lines.end(hear);
    Ok(Ran { end, said: lines.last })
}

/// Waits a little for something to read.
fn readable(reader: &io::PipeReader) -> io::Result<bool> {
    let mut polled = [PollFd::new(reader, PollFlags::IN)];
    let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
    match rustix::event::poll(&mut polled, Some(&tick)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A program and what it has started. Nothing of it is left when this is dropped.
struct Group {
    child: Child,
    /// Whether it was waited for, so that its number may be somebody else's.
    over: bool,
}

impl Group {
    #[expect(clippy::disallowed_methods, reason = "package managers install for all sandboxes")]
    fn start(order: &Order<'_>, output: io::PipeWriter) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", START, "sh"]);
        command.arg(order.program).args(&order.arguments);
        for (name, value) in &order.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(order.directory).process_group(0);
        command.stdin(Stdio::from(order.lock.try_clone()?));
        command.stdout(match order.output {
            Some(file) => Stdio::from(file.try_clone()?),
            None => Stdio::from(output.try_clone()?),
        });
        command.stderr(Stdio::from(output));
        Ok(Self { child: command.spawn()?, over: false })
    }

    fn id(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether its first process has ended. It is not waited for yet, so that nobody else gets
    /// its number while the group may have others in it.
    fn has_ended(&self) -> bool {
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = self.id().map(|id| waitid(WaitId::Pid(id), looking));
        !matches!(ended, Some(Ok(None) | Err(rustix::io::Errno::INTR)))
    }

    /// Fails only where nobody is left.
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id() {
            kill_process_group(id, signal).ok();
        }
    }

    /// How it ended; what it has left behind ends as well.
    fn end(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.over = true;
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while !self.has_ended() && begun.elapsed() < GRACE {
            std::thread::sleep(TICK / 10);
        }
        self.signal(Signal::KILL);
        drop(self.child.wait());
    }
}

/// Lines as they come, and the last of them.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
    last: Vec<String>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8], hear: &mut dyn FnMut(&str)) {
        for byte in bytes {
            match byte {
                // Progress bars write over themselves.
                b'\n' | b'\r' => self.end(hear),
                byte if self.begun.len() < LINE => self.begun.push(*byte),
                _ => {}
            }
        }
    }

    fn end(&mut self, hear: &mut dyn FnMut(&str)) {
        let line = String::from_utf8_lossy(&self.begun).trim_end().to_owned();
        self.begun.clear();
        if line.is_empty() {
            return;
        }
        hear(&line);
        if self.last.len() == LINES {
            self.last.remove(0);
        }
        self.last.push(line);
    }
}
