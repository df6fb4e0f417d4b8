//! Starts a kernel's process, and follows it.
//!
//! What it writes to its own standard output and error is read, so that it never waits,
//! and the end of it is kept: it says why a kernel did not start.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use jupyter_protocol::{ConnectionInfo, connection_info::Transport};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::net::unix::pipe;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{Instant, sleep, timeout_at};

use super::specs::{CONNECTION_FILE, Spec};
use super::state::{State, kill_group, signal_group};
use super::wire::random_hex;

/// What is kept of what a kernel writes.
const MAX_SAID: usize = 4 << 10;

/// Between asking a kernel to end and ending it.
const GRACE: Duration = Duration::from_secs(2);

/// A kernel's process. Dropping it ends it.
pub(super) struct Process {
    child: Child,
    pid: i32,
    /// The last that it wrote.
    said: VecDeque<u8>,
    output: Option<pipe::Receiver>,
    children: unix::Signal,
    ended: Option<ExitStatus>,
}

/// A connection on loopback with ports that are free now, and a key of its own.
pub(super) fn new_connection(spec: &Spec) -> Result<(ConnectionInfo, Vec<TcpListener>), String> {
    let mut listeners = Vec::new();
    let mut port = || -> io::Result<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        listeners.push(listener);
        Ok(port)
    };
    let mut ports =
        || -> io::Result<[u16; 5]> { Ok([port()?, port()?, port()?, port()?, port()?]) };
    let [shell_port, iopub_port, stdin_port, control_port, hb_port] =
        ports().map_err(|error| format!("no free port on loopback: {error}"))?;
    let connection = ConnectionInfo {
        ip: Ipv4Addr::LOCALHOST.to_string(),
        transport: Transport::TCP,
        shell_port,
        iopub_port,
        stdin_port,
        control_port,
        hb_port,
        key: random_hex::<32>()?,
        signature_scheme: "hmac-sha256".to_owned(),
        kernel_name: Some(spec.facts.spec.clone()),
    };
    // As long as the listeners are held, nobody else is given these ports.
    Ok((connection, listeners))
}

impl Process {
    /// Starts a kernel on a connection file.
    pub(super) fn start(spec: &Spec, state: &State) -> io::Result<Self> {
        let (output, written) = io::pipe()?;
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(output))?;
        let children = unix::signal(SignalKind::child())?;
        let file = state.connection().to_string_lossy().into_owned();
        let argv: Vec<String> =
            spec.argv.iter().map(|argument| argument.replace(CONNECTION_FILE, &file)).collect();
        let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        #[expect(clippy::disallowed_methods, reason = "this is inside the sandbox")]
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(crate::desk::variables())
            .envs(&spec.env)
            // ipykernel ends when this is no longer its parent.
            .env("JPY_PARENT_PID", std::process::id().to_string())
            // It interrupts what it started only when it leads a group.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(written.try_clone()?)
            .stderr(written);
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let said = VecDeque::new();
        Ok(Self { child, pid, said, output: Some(output), children, ended: None })
    }

    /// Its number.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until it has ended. Nothing is lost when this is dropped before.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_end()? {
                return Ok(status);
            }
            tokio::select! {
                _ = self.children.recv() => {}
                () = listen(&mut self.output, &mut self.said) => {}
            }
        }
    }

    /// Ends it: asks, waits a little, then does not ask.
    pub(super) async fn stop(&mut self) -> io::Result<ExitStatus> {
        signal_group(self.pid, Signal::TERM);
        if let Ok(ended) = timeout_at(Instant::now() + GRACE, self.ended()).await {
            return ended;
        }
        kill_group(self.pid);
        self.ended().await
    }

    /// The last that it wrote.
    pub(super) fn said(&self) -> String {
        let bytes: Vec<u8> = self.said.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Reads for a moment what is still to be read.
    pub(super) async fn hear_last_words(&mut self) {
        let until = Instant::now() + Duration::from_millis(200);
        while self.output.is_some()
            && timeout_at(until, listen(&mut self.output, &mut self.said)).await.is_ok()
        {}
    }

    fn try_end(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        // First without taking it: as long as it is not taken, its number and that of
        // its group are nobody else's.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = Pid::from_raw(self.pid).ok_or(io::ErrorKind::InvalidInput)?;
        if waitid(WaitId::Pid(pid), look)?.is_none() {
            return Ok(None);
        }
        kill_group(self.pid);
        self.ended = Some(self.child.wait()?);
        Ok(self.ended)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            kill_group(self.pid);
            // It was killed: this takes no time, and a failure leaves nothing to do.
            self.child.wait().ok();
        }
    }
}

/// Takes in some of what a kernel writes, and keeps the end of it.
async fn listen(output: &mut Option<pipe::Receiver>, said: &mut VecDeque<u8>) {
    let Some(pipe) = output else { return std::future::pending().await };
    let mut bytes = [0; 4 << 10];
    let read = match pipe.readable().await {
        Ok(()) => pipe.try_read(&mut bytes),
        Err(error) => Err(error),
    };
    match read {
        Ok(0) => *output = None,
        Ok(read) => {
            said.extend(bytes.get(..read).unwrap_or_default());
            said.drain(..said.len().saturating_sub(MAX_SAID));
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // It cannot be read any more; a moment's pause, in case it can.
        Err(_) => sleep(Duration::from_millis(50)).await,
    }
}

/// How a process ended, in words.
pub(super) fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with {code}"),
        (None, Some(9)) => "it was killed (signal 9), perhaps because memory ran out".to_owned(),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}
