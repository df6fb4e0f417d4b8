//! Runs the aide: keepers that are ended with the test, and cells.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_aide_protocol::{CellEnd, CellPiece, KernelPiece, Role, Stream};
use cofferdam_guest_protocol::RecordDecoder;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::kernels::kernels;

/// No condition is waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(120);

/// A home in which kernels run.
pub(crate) struct Home {
    directory: TempDir,
}

/// A kernel with its keeper. Dropping it ends both, however the test went.
pub(crate) struct Keeper {
    child: Child,
    records: Records<KernelPiece>,
    kernel: Option<Pid>,
}

/// A cell that runs.
pub(crate) struct Running {
    child: Child,
    records: Records<CellPiece>,
}

/// What a cell gave.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) pieces: Vec<CellPiece>,
    pub(crate) took: Duration,
}

/// Records from a process, as they come.
struct Records<T> {
    from: ChildStdout,
    decoder: RecordDecoder,
    kind: std::marker::PhantomData<T>,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// A path for the code's own use.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The aide with an environment of its own.
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let kernels = kernels();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam-aide"));
        command
            .args(args)
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.directory.path())
            .env("COFFERDAM_AIDE_STATE", self.path("state"))
            .env("COFFERDAM_PREFIX", &kernels.parts)
            .env("MPLCONFIGDIR", &kernels.fonts);
        command
    }

    /// Starts a kernel, and returns when it is ready.
    pub(crate) fn start(&self, spec: &str, name: &str) -> Keeper {
        self.start_with(&["--spec", spec, "--name", name]).unwrap()
    }

    /// Starts a kernel with these arguments; `Err` has what it says of a failure.
    pub(crate) fn start_with(&self, args: &[&str]) -> Result<Keeper, String> {
        let mut command = self.command(&["kernel"]);
        let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
        let records = Records::of(&mut child);
        let mut keeper = Keeper { child, records, kernel: None };
        match keeper.records.next() {
            Some(KernelPiece::Ready(_)) => {
                let name = args.iter().skip_while(|word| **word != "--name").nth(1);
                keeper.kernel = Pid::from_raw(self.kernel_of(name.unwrap_or(&"main")));
                Ok(keeper)
            }
            Some(KernelPiece::Failed { why }) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    /// The kernel's own process.
    pub(crate) fn kernel_of(&self, name: &str) -> i32 {
        let ready = fs::read(self.path("state").join(format!("{name}.ready"))).unwrap();
        let ready: serde_json::Value = serde_json::from_slice(&ready).unwrap();
        ready["kernel"].as_i64().unwrap().try_into().unwrap()
    }

    /// Begins a cell.
    pub(crate) fn begin(&self, name: &str, seconds: &str, code: &str) -> Running {
        self.begin_with(&["--name", name, "--seconds", seconds], code)
    }

    pub(crate) fn begin_with(&self, args: &[&str], code: &str) -> Running {
        let mut command = self.command(&["cell"]);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
        let records = Records::of(&mut child);
        Running { child, records }
    }

    /// Runs a cell.
    pub(crate) fn cell(&self, name: &str, code: &str) -> Given {
        self.begin(name, "60", code).finish()
    }
}

impl Keeper {
    /// Waits until it says how its kernel ended, and is gone.
    pub(crate) fn ended(mut self) -> String {
        let Some(KernelPiece::Ended { how }) = self.records.next() else { panic!("no end") };
        self.child.wait().unwrap();
        how
    }

    /// The keeper's own process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            kill_process(self.pid(), Signal::TERM).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                self.child.kill().unwrap();
            }
            pause();
        }
        if let Some(kernel) = self.kernel {
            // Gone already, unless something failed.
            kill_process_group(kernel, Signal::KILL).ok();
        }
    }
}

impl Running {
    /// The next piece.
    pub(crate) fn next(&mut self) -> Option<CellPiece> {
        self.records.next()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The most memory that it has used so far, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Waits for the first of its pieces for which this holds.
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&CellPiece) -> bool) {
        while !wanted(&self.next().unwrap()) {}
    }

    /// Takes the rest.
    pub(crate) fn finish(mut self) -> Given {
        let (mut pieces, begun) = (Vec::new(), Instant::now());
        while let Some(piece) = self.next() {
            pieces.push(piece);
        }
        assert!(self.child.wait().unwrap().success());
        Given { pieces, took: begun.elapsed() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Given {
    pub(crate) fn text(&self, wanted: Stream) -> String {
        let text = self.pieces.iter().filter_map(|piece| match piece {
            CellPiece::Text { stream, text } if *stream == wanted => Some(text.as_str()),
            _ => None,
        });
        text.collect()
    }

    pub(crate) fn stdout(&self) -> String {
        self.text(Stream::Stdout)
    }

    /// The values in one form: what each is to the cell, and its bytes.
    pub(crate) fn values(&self, mime: &str) -> Vec<(Role, Vec<u8>)> {
        let (mut values, mut bytes) = (Vec::new(), Vec::new());
        for piece in &self.pieces {
            if let CellPiece::Part(part) = piece
                && part.mime == mime
            {
                bytes.extend_from_slice(&part.bytes);
                if part.last {
                    values.push((part.role, std::mem::take(&mut bytes)));
                }
            }
        }
        assert!(bytes.is_empty(), "a form without an end");
        values
    }

    /// The result as text, without colours.
    pub(crate) fn result(&self) -> String {
        let values = self.values("text/plain");
        let (_, bytes) = values.iter().find(|(role, _)| *role == Role::Result).unwrap();
        cofferdam_aide_protocol::strip_ansi(std::str::from_utf8(bytes).unwrap()).into_owned()
    }

    /// The error's name, message and traceback.
    pub(crate) fn error(&self) -> (&str, &str, String) {
        let error = self.pieces.iter().find_map(|piece| match piece {
            CellPiece::Error { name, value, traceback } => {
                Some((name.as_str(), value.as_str(), traceback.join("\n")))
            }
            _ => None,
        });
        error.unwrap_or_else(|| panic!("no error in {:?}", self.pieces))
    }

    pub(crate) fn dropped(&self) -> u64 {
        let dropped = self.pieces.iter().map(|piece| match piece {
            CellPiece::Dropped { bytes } => *bytes,
            _ => 0,
        });
        dropped.sum()
    }

    /// How it ended: always the last piece, and only that.
    pub(crate) fn end(&self) -> &CellEnd {
        let ends = self.pieces.iter().filter(|piece| matches!(piece, CellPiece::Ended(_)));
        assert_eq!(ends.count(), 1);
        let Some(CellPiece::Ended(end)) = self.pieces.last() else { panic!("{:?}", self.pieces) };
        end
    }
}

impl<T: DeserializeOwned> Records<T> {
    fn of(child: &mut Child) -> Self {
        let (from, decoder) = (child.stdout.take().unwrap(), RecordDecoder::default());
        Self { from, decoder, kind: std::marker::PhantomData }
    }

    fn next(&mut self) -> Option<T> {
        let mut bytes = vec![0; 64 << 10];
        loop {
            if let Some(record) = self.decoder.next_record().unwrap() {
                return Some(record);
            }
            match self.from.read(&mut bytes).unwrap() {
                0 => return None,
                read => self.decoder.push(&bytes[..read]),
            }
        }
    }
}

/// Waits for a condition.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        pause();
    }
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let pid = Pid::from_raw(pid).unwrap();
    // One that is dead and not yet taken by its parent is dead.
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}
