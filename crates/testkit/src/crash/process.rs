//! One life of a server.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::violation::Violation;

/// How long a server may take to listen, on a machine that does much else.
const STARTING: Duration = Duration::from_secs(60);

/// How often a condition is looked at.
pub(super) const GLANCE: Duration = Duration::from_millis(10);

/// How a server is started.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) binary: PathBuf,
    pub(super) data: PathBuf,
    pub(super) database: Option<String>,
    /// Where the model is.
    pub(super) model: String,
    pub(super) log: PathBuf,
    /// Where it kills itself.
    pub(super) fail_at: Option<String>,
    pub(super) words: Vec<String>,
}

/// A server that runs; dropping it kills it.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Unless it died before it listened.
    pub(super) address: Option<SocketAddr>,
    /// If it was the first of its database.
    pub(super) token: Option<String>,
}

impl Server {
    /// Starts it and waits until it listens, or has killed itself where it should.
    pub(super) fn start(launch: &Launch) -> Result<Self, Violation> {
        let log = OpenOptions::new().create(true).append(true).open(&launch.log)?;
        let mut command = command(Path::new("setpriv"));
        // Whatever becomes of the suite, the server does not outlive it.
        command.arg("--pdeathsig=KILL").arg(&launch.binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--lease", "2s", "--linger", "60s"]);
        command.args(["--model", "openai-compatible/scripted"]);
        command.arg("--data").arg(&launch.data).args(&launch.words);
        if let Some(database) = &launch.database {
            command.args(["--database", database]);
        }
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        command.env("OPENAI_BASE_URL", &launch.model).env("OPENAI_API_KEY", "key-of-the-suite");
        if let Some(point) = &launch.fail_at {
            command.env("COFFERDAM_FAIL_AT", point);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut server = Self { child: command.spawn()?, address: None, token: None };
        let lines = lines(server.child.stdout.take());
        let deadline = Instant::now() + STARTING;
        while server.address.is_none() {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => server.hear(&line),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Violation("the server does not listen".to_owned()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = server.child.wait()?;
                    if launch.fail_at.is_some() && was_killed(status) {
                        break;
                    }
                    return Err(Violation(format!(
                        "the server ended before it listened: {status}"
                    )));
                }
            }
        }
        Ok(server)
    }

    fn hear(&mut self, line: &str) {
        let address = line.strip_prefix("listening on http://");
        self.address = self.address.or(address.and_then(|address| address.parse().ok()));
        let token = line.strip_prefix("the admin's token, shown this once: ");
        self.token = self.token.take().or(token.map(str::to_owned));
    }

    pub(super) fn signal(&self, signal: Signal) {
        // One that is gone needs no signal.
        kill_process(Pid::from_child(&self.child), signal).ok();
    }

    /// `kill -9`, and waits until it is gone.
    pub(super) fn kill(&mut self) -> Result<(), Violation> {
        self.signal(Signal::KILL);
        self.child.wait()?;
        Ok(())
    }

    pub(super) fn has_ended(&mut self) -> Result<bool, Violation> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for its end.
    pub(super) fn ends_within(&mut self, patience: Duration) -> Result<ExitStatus, Violation> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(Violation(format!("the server has not ended within {patience:?}")));
            }
            thread::sleep(GLANCE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(super) fn was_killed(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(Signal::KILL.as_raw())
}

#[expect(clippy::disallowed_methods, reason = "the server under test runs on the host")]
fn command(program: &Path) -> Command {
    Command::new(program)
}

/// What a program says, line by line, until it says no more.
fn lines(stream: Option<impl std::io::Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(64);
    thread::spawn(move || {
        let lines = stream.into_iter().flat_map(|stream| BufReader::new(stream).lines());
        for line in lines.map_while(Result::ok) {
            // Nobody may listen any more; the program is to be read from all the same.
            sender.try_send(line).ok();
        }
    });
    receiver
}
