//! One run of the program, and what came of it.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// How long a whole run may take before a test gives up: a job with notebooks, in a kernel that
/// is a program, on a machine that has other things to do.
const WHOLE_JOB: Duration = Duration::from_secs(240);

/// A run of the program that has not begun.
pub(crate) struct Invocation {
    command: Command,
    input: Vec<u8>,
}

impl Invocation {
    pub(crate) fn new(program: &Path, user: Option<u32>) -> Self {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        Self { command, input: Vec::new() }
    }

    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    pub(crate) fn words<Word: AsRef<OsStr>>(
        mut self,
        words: impl IntoIterator<Item = Word>,
    ) -> Self {
        self.command.args(words);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Runs it to its end with the input given.
    pub(crate) fn run(mut self) -> Ran {
        let input = std::mem::take(&mut self.input);
        let mut running = self.spawn();
        let mut stdin = running.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            // That it is not read is for the test to judge by its end.
            drop(stdin.write_all(&input));
        });
        let ran = running.wait();
        writer.join().unwrap();
        ran
    }

    /// Starts it; its input stays open until it is dropped.
    pub(crate) fn spawn(mut self) -> Running {
        let begun = Instant::now();
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = Collected::from(child.stdout.take().unwrap());
        let stderr = Collected::from(child.stderr.take().unwrap());
        Running { child, stdin, stdout, stderr, begun }
    }
}

/// A run of the program.
pub(crate) struct Running {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    stdout: Collected,
    stderr: Collected,
    begun: Instant,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// Its stdout so far.
    pub(crate) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.stdout.so_far()).into_owned()
    }

    /// Its stderr so far.
    pub(crate) fn errors_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stderr.so_far()).into_owned()
    }

    /// How many whole lines it has written to stdout.
    pub(crate) fn lines_so_far(&self) -> usize {
        self.stdout.so_far().iter().filter(|byte| **byte == b'\n').count()
    }

    /// Whether nothing more will come on its stdout.
    pub(crate) fn has_ended(&self) -> bool {
        self.stdout.reader.is_finished()
    }

    /// Waits until its stdout so far ends with `text`.
    pub(crate) fn until_it_says(&self, text: &str) {
        eventually(&format!("output that ends with {text:?}"), || {
            self.stdout.so_far().ends_with(text.as_bytes())
        });
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ran {
        let code = wait(&mut self.child);
        let elapsed = self.begun.elapsed();
        drop(self.stdin.take());
        Ran { code, stdout: self.stdout.all(), stderr: self.stderr.all(), elapsed }
    }
}

/// Waits for a child's end: its exit code, or minus the signal's number.
pub(crate) fn wait(child: &mut Child) -> i32 {
    let deadline = Instant::now() + WHOLE_JOB;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_else(|| -status.signal().unwrap());
        }
        if Instant::now() >= deadline {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal.
pub(crate) fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code, or minus the number of the signal that killed it.
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) elapsed: Duration,
}

impl Ran {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            code,
            "stdout: {}\nstderr: {}",
            cut(&self.text()),
            cut(&self.errors())
        );
        self
    }

    /// The same, with these words somewhere on stderr.
    #[track_caller]
    pub(crate) fn expect_error(self, code: i32, words: &[&str]) -> Self {
        let ran = self.expect_code(code);
        let errors = ran.errors();
        for word in words {
            assert!(errors.contains(word), "{word:?} is not in: {errors}");
        }
        ran
    }
}

fn cut(text: &str) -> String {
    text.chars().take(2000).collect()
}

/// What a thread reads from a stream.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Collected {
    fn from(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 256 << 10];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                let piece = buffer.get(..read).unwrap_or_default();
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(piece);
            }
        });
        Self { bytes, reader }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn all(self) -> Vec<u8> {
        self.reader.join().unwrap();
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
