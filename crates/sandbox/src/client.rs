//! The host's side of the guest protocol: many calls at once over one stream.
//!
//! A client owns two tasks, one that reads and one that writes what senders
//! could not write at once. The reader never waits for a slow call: a guest is
//! at most a window ahead of what was taken of a channel, and one that is
//! further ahead loses the connection, as does one that does not answer. When the
//! connection ends, every call on it ends with the reason.

mod call;
mod connection;
mod handle;
mod inbox;
mod outgoing;
mod vigil;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_guest_protocol::{
    CallState, Decoder, Exec, HELLO_LEN, Hello, Reply, Request, TunnelTarget,
};
use cofferdam_types::CallId;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use connection::Connection;
pub(crate) use handle::{CallHandle, Input};
pub(crate) use inbox::Taken;

use crate::backend::GuestStream;
use crate::error::{CallError, ConnectError, ProtocolError};
use crate::files::Files;
use crate::process::{Offsets, Process};
use crate::tunnel::Tunnel;

/// How long a guest may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// How long closing may take to send what is still queued.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long what the guest sent is still read after it takes no more.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Bytes of memory that frames are read into at once.
const READ_BLOCK: usize = 1 << 20;

/// A block with less room than this is replaced by a new one.
const READ_LEAST: usize = 256 << 10;

/// Why calls end that outlive their client.
const CLOSED: &str = "the connection was closed on this side";

/// A connection to a guest. Dropping it closes the connection and ends every
/// call on it, here; the guest goes on with them, and keeps their results.
pub struct GuestClient {
    connection: Arc<Connection>,
    stop: CancellationToken,
    /// Owned here so that they are aborted when the client is dropped.
    tasks: JoinSet<()>,
}

impl GuestClient {
    /// Says hello over a fresh stream and begins to serve it.
    ///
    /// # Errors
    /// When the peer is silent, no guest, or one of another release.
    pub async fn connect(mut stream: GuestStream) -> Result<Self, ConnectError> {
        match tokio::time::timeout(HELLO_TIMEOUT, hello(&mut stream)).await {
            Ok(said) => said?,
            Err(_) => return Err(ConnectError::TimedOut(HELLO_TIMEOUT)),
        }
        let (reader, writer) = tokio::io::split(stream);
        let connection = Arc::new(Connection::new(writer));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let ending = Ending { connection: Arc::clone(&connection), stop: stop.clone() };
        tasks.spawn(ending.read(reader));
        let ending = Ending { connection: Arc::clone(&connection), stop: stop.clone() };
        tasks.spawn(ending.write());
        Ok(Self { connection, stop, tasks })
    }

    /// Runs a command.
    ///
    /// # Errors
    /// When the request cannot be sent. Whether the guest could start the
    /// command, [`Process::started`] tells.
    pub async fn exec(&self, call: CallId, exec: Exec) -> Result<Process, CallError> {
        let stdin = exec.stdin;
        let handle = self.connection.begin(call.0, Request::Exec(exec)).await?;
        Ok(Process::new(handle, stdin))
    }

    /// Takes up a command that was begun over an earlier connection, or that was
    /// detached, from these offsets of its output on. Its stdin stays with whom
    /// it was.
    ///
    /// # Errors
    /// When the connection is lost, or holds the call at other offsets.
    pub async fn resume(&self, call: CallId, offsets: Offsets) -> Result<Process, CallError> {
        let handle = self.connection.resume(call.0, offsets.stdout, offsets.stderr).await?;
        Ok(Process::resumed(handle))
    }

    /// Tells the guest to forget a call that has ended.
    pub fn acknowledge(&self, call: CallId) {
        self.connection.acknowledge(call.0);
    }

    /// The calls that the guest runs or keeps, without those this client makes
    /// for itself.
    ///
    /// # Errors
    /// When the guest refuses or the connection is lost.
    pub async fn calls(&self) -> Result<Vec<CallState>, CallError> {
        let id = self.connection.own_id();
        let mut handle = self.connection.begin(id, Request::Calls).await?;
        let reply = handle.reply().await?;
        handle.acknowledge();
        match reply {
            Reply::Calls(calls) => Ok(calls.into_iter().filter(|state| state.call != id).collect()),
            _ => Err(CallError::UnexpectedReply),
        }
    }

    /// Connects to something that listens inside the sandbox.
    ///
    /// # Errors
    /// When nothing listens there, or the connection to the guest is lost.
    pub async fn tunnel(&self, call: CallId, target: TunnelTarget) -> Result<Tunnel, CallError> {
        let handle = self.connection.begin(call.0, Request::Tunnel(target)).await?;
        Tunnel::connected(handle).await
    }

    /// The files of the workspace.
    #[must_use]
    pub fn files(&self) -> Files {
        Files::new(Arc::clone(&self.connection))
    }

    /// Why the connection ended, once it has.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        self.connection.lost()
    }

    /// Waits until the connection has ended.
    pub async fn ended(&self) {
        self.stop.cancelled().await;
    }

    /// Sends what is still queued, as far as that goes within a second, and
    /// closes the connection.
    pub async fn close(mut self) {
        if tokio::time::timeout(CLOSE_TIMEOUT, self.connection.outgoing.drained()).await.is_err() {
            self.connection.end("the guest took no more before the connection was closed");
        }
        self.end(CLOSED);
        while self.tasks.join_next().await.is_some() {}
    }

    /// Closes the connection for a reason that its calls will be told.
    pub(crate) fn end(&self, reason: &str) {
        self.connection.end(reason);
        self.stop.cancel();
    }
}

impl Drop for GuestClient {
    fn drop(&mut self) {
        self.end(CLOSED);
    }
}

async fn hello(stream: &mut GuestStream) -> Result<(), ConnectError> {
    stream.write_all(&Hello::ours().to_bytes()).await?;
    stream.flush().await?;
    let mut bytes = [0; HELLO_LEN];
    match stream.read_exact(&mut bytes).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(ConnectError::Closed);
        }
        Err(error) => return Err(error.into()),
    }
    Hello::ours().agree(Hello::from_bytes(bytes)?)?;
    Ok(())
}

/// Why the reader stopped.
#[derive(Debug, thiserror::Error)]
enum ReadEnd {
    #[error("the guest closed the stream")]
    Closed,
    #[error("the guest does not answer")]
    Silent,
    #[error("reading failed: {0}")]
    Io(io::Error),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// A part of a connection, which ends the whole however the part ends.
struct Ending {
    connection: Arc<Connection>,
    stop: CancellationToken,
}

impl Ending {
    async fn read(self, reader: ReadHalf<GuestStream>) {
        let stop = self.stop.clone();
        let reading = async {
            tokio::select! {
                // What has come is heard before anybody says that nothing came.
                biased;
                Err(end) = read_frames(&self.connection, reader) => end,
                () = vigil::watch(&self.connection) => ReadEnd::Silent,
            }
        };
        let Some(end) = stop.run_until_cancelled(reading).await else { return };
        self.connection.end(&end.to_string());
    }

    async fn write(self) {
        let stop = self.stop.clone();
        let driven = stop.run_until_cancelled(self.connection.outgoing.drive()).await;
        let Some(error) = driven else { return };
        self.connection.outgoing.close();
        // A guest that went away may have answered before: let the reader come to
        // the end of what it sent.
        if tokio::time::timeout(LAST_WORDS, stop.cancelled()).await.is_err() {
            self.connection.end(&format!("writing failed: {error}"));
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.connection.end("its task was ended");
        self.stop.cancel();
    }
}

async fn read_frames(
    connection: &Connection,
    mut reader: ReadHalf<GuestStream>,
) -> Result<std::convert::Infallible, ReadEnd> {
    let mut decoder = Decoder::default();
    loop {
        let buffer = decoder.buffer();
        if buffer.capacity() - buffer.len() < READ_LEAST {
            buffer.reserve(READ_BLOCK);
        }
        if reader.read_buf(buffer).await.map_err(ReadEnd::Io)? == 0 {
            return Err(ReadEnd::Closed);
        }
        connection.hear();
        while let Some(frame) = decoder.next_frame().map_err(ProtocolError::from)? {
            connection.dispatch(frame)?;
        }
    }
}
