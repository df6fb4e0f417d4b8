//! A command that runs in a sandbox.

use bytes::Bytes;
use cofferdam_guest_protocol::{Channel, Control, ExecEnd, ExecReport, PtySize, Reply, Stdin};
use cofferdam_types::CallId;

use crate::client::{CallHandle, Input, Taken};
use crate::error::CallError;

/// A piece of a command's output. The pieces of each stream, put together, are
/// exactly what the command wrote, but for the gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputChunk {
    /// Bytes of stdout, or of the terminal.
    Stdout(Bytes),
    /// Bytes of stderr.
    Stderr(Bytes),
    /// So many bytes of stdout were dropped here, because of the output limit.
    StdoutGap(u64),
    /// So many bytes of stderr were dropped here.
    StderrGap(u64),
}

/// How many bytes of a command's output are already in safe hands. Bytes that
/// were dropped do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// Of stdout.
    pub stdout: u64,
    /// Of stderr.
    pub stderr: u64,
}

/// A command that runs in a sandbox.
///
/// Dropping it before its end kills every process of it; use
/// [`Process::detach`] to let it run. Once the connection is lost there is
/// nothing to drop: the guest goes on with the command.
///
/// The command may wait for its output to be taken, and `write_stdin` may wait
/// for the command: whoever does both takes the [`StdinWriter`] and does them
/// side by side.
pub struct Process {
    handle: CallHandle,
    stdin: Option<StdinWriter>,
    resumed: bool,
    /// How many processes had been killed for lack of memory before it began.
    pub(crate) memory_kills_before: u64,
}

impl Process {
    pub(crate) fn new(handle: CallHandle, stdin: Stdin) -> Self {
        let stdin = match stdin {
            Stdin::Piped => Some(StdinWriter { input: handle.input() }),
            Stdin::Null => None,
        };
        Self { handle, stdin, resumed: false, memory_kills_before: 0 }
    }

    pub(crate) fn resumed(handle: CallHandle) -> Self {
        Self { handle, stdin: None, resumed: true, memory_kills_before: 0 }
    }

    /// The id of its call.
    #[must_use]
    pub fn call(&self) -> CallId {
        CallId(self.handle.id())
    }

    /// Waits until it runs; its process id inside the sandbox. `None` for a
    /// command that was taken up again, of which the guest says this no more.
    ///
    /// # Errors
    /// [`CallError::NotStarted`] when it could not be started.
    pub async fn started(&self) -> Result<Option<u32>, CallError> {
        if self.resumed {
            return Ok(None);
        }
        if let Some(pid) = self.handle.started().await {
            return Ok(Some(pid));
        }
        match report(self.handle.reply().await?)?.end {
            ExecEnd::NotStarted(errno, what) => Err(CallError::NotStarted { errno, what }),
            _ => Ok(None),
        }
    }

    /// The next piece of output, in the order the pieces came; `None` when the
    /// command is over, or lost. A call of this that is dropped loses nothing. The guest
    /// keeps a piece until the next one is asked for: whoever stores each before that can be
    /// killed at any moment, and [`crate::Sandbox::collect`] has the rest.
    pub async fn next_output(&mut self) -> Option<OutputChunk> {
        Some(match self.handle.next_any().await? {
            (Channel::Error, Taken::Data(bytes)) => OutputChunk::Stderr(bytes),
            (Channel::Error, Taken::Gap(dropped)) => OutputChunk::StderrGap(dropped),
            (_, Taken::Data(bytes)) => OutputChunk::Stdout(bytes),
            (_, Taken::Gap(dropped)) => OutputChunk::StdoutGap(dropped),
        })
    }

    /// How much output was taken so far, for [`crate::Sandbox::collect`].
    #[must_use]
    pub fn offsets(&self) -> Offsets {
        let (stdout, stderr) = self.handle.taken();
        Offsets { stdout, stderr }
    }

    /// Sends bytes to its stdin, and waits while it is slow to read them.
    ///
    /// # Errors
    /// When it has ended, or has no stdin that could be written to.
    pub async fn write_stdin(&mut self, bytes: Bytes) -> Result<(), CallError> {
        match &mut self.stdin {
            Some(stdin) => stdin.write(bytes).await,
            None => Err(CallError::InputClosed),
        }
    }

    /// Ends its stdin.
    pub fn close_stdin(&mut self) {
        if let Some(stdin) = self.stdin.take() {
            stdin.close();
        }
    }

    /// Its stdin, to be written to from elsewhere.
    pub fn take_stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// Sends a signal to every process of it. Neither this nor a size or a kill waits for
    /// the guest; of hundreds that it has not taken, the rest leads nowhere, but for a kill.
    pub fn signal(&self, signal: i32) {
        self.handle.control(Control::Signal(signal));
    }

    /// Gives its terminal a new size.
    pub fn resize(&self, size: PtySize) {
        self.handle.control(Control::Resize(size));
    }

    /// Kills every process of it.
    pub fn kill(&self) {
        self.handle.control(Control::Kill);
    }

    /// Ends its stdin, unless that was taken, and waits for its end, throwing away
    /// the output that was not taken. The guest may then forget it.
    ///
    /// # Errors
    /// When the guest refused it or the connection is lost.
    pub async fn wait(&mut self) -> Result<ExecReport, CallError> {
        let report = self.ended().await;
        self.handle.acknowledge();
        report
    }

    /// The same, but the guest keeps the result until it is acknowledged by its
    /// id: for those who must store it first.
    ///
    /// # Errors
    /// When the guest refused it or the connection is lost.
    pub async fn wait_unacknowledged(&mut self) -> Result<ExecReport, CallError> {
        let report = self.ended().await;
        self.handle.keep();
        report
    }

    async fn ended(&mut self) -> Result<ExecReport, CallError> {
        self.close_stdin();
        while self.next_output().await.is_some() {}
        report(self.handle.reply().await?)
    }

    /// Lets it run on its own, and lets the guest forget it when it has ended: nobody
    /// takes it up, and what it writes is thrown away. Should the connection end first,
    /// the guest keeps it. Its stdin ends, unless that was taken.
    pub fn release(mut self) {
        self.close_stdin();
        self.handle.release();
    }

    /// Lets it run on its own. Its output is kept for whoever takes it up with
    /// [`crate::Sandbox::collect`]; a command whose output is streamed waits
    /// when a window of it is kept. Its stdin ends, unless that was taken.
    pub fn detach(mut self) -> CallId {
        self.close_stdin();
        let call = self.call();
        self.handle.detach();
        call
    }
}

fn report(reply: Reply) -> Result<ExecReport, CallError> {
    match reply {
        Reply::Exec(report) => Ok(report),
        _ => Err(CallError::UnexpectedReply),
    }
}

/// The stdin of a command. Dropping it does not end the stdin: input that was cut
/// short must not pass for all of it.
pub struct StdinWriter {
    input: Input,
}

impl StdinWriter {
    /// Sends bytes, and waits while the command is slow to read them.
    ///
    /// # Errors
    /// When the command has ended or the connection is lost.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), CallError> {
        self.input.send(bytes).await
    }

    /// Ends the stdin: that was all.
    pub fn close(mut self) {
        self.input.close();
    }
}
