//! The connections to a kernel: Jupyter's messages over loopback, signed.
//!
//! Messages are taken apart here only as far as the aide needs, so that content of an
//! unusual shape loses one value and not the cell.

use std::fmt;
use std::time::Duration;

use jupyter_protocol::{
    ConnectionInfo, ExecuteRequest, InterruptRequest, JupyterMessage, JupyterMessageContent,
    KernelInfoRequest,
};
use jupyter_zmq_client::{
    ClientControlConnection, ClientIoPubConnection, ClientShellConnection, RawMessage,
    create_client_control_connection, create_client_iopub_connection,
    create_client_shell_connection_with_identity, peer_identity_for_session,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};
use zeromq::SocketRecv;

/// What the ids of the aide's own sessions begin with: output that code of earlier
/// cells still gives is known by it.
const SESSION: &str = "cofferdam-";

/// Content longer than this is not taken apart.
const MAX_CONTENT: usize = 64 << 20;

/// Between two questions whether the subscription is in place.
const FIRST_ASK: Duration = Duration::from_millis(10);
const LAST_ASK: Duration = Duration::from_secs(1);

/// After a connection failed, until it is read again: it is made anew meanwhile.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// The connections to one kernel.
pub(super) struct Wire {
    iopub: ClientIoPubConnection,
    shell: ClientShellConnection,
    control: ClientControlConnection,
}

/// What a kernel sent.
#[derive(Debug)]
pub(super) enum Incoming {
    /// To everybody: output, and what it is doing.
    Published(Message),
    /// To us: an answer.
    Answered(Message),
}

/// A message, as far as it matters.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: String,
    /// The request that it belongs to.
    pub(super) parent: String,
    /// Whether that request was the aide's, of this cell or an earlier one.
    pub(super) is_ours: bool,
    /// `Err` has the size of one that was too long.
    pub(super) content: Result<Value, usize>,
}

/// The connections failed.
#[derive(Debug)]
pub(super) struct WireError(String);

impl fmt::Display for WireError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot talk to the kernel: {}", self.0)
    }
}

impl From<jupyter_zmq_client::RuntimeError> for WireError {
    fn from(error: jupyter_zmq_client::RuntimeError) -> Self {
        Self(error.to_string())
    }
}

impl Message {
    /// A field of the content that is text.
    pub(super) fn text(&self, field: &str) -> &str {
        let field = self.content.as_ref().ok().and_then(|content| content.get(field));
        field.and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it says that the kernel has done with a request.
    pub(super) fn is_idle(&self) -> bool {
        self.kind == "status" && self.text("execution_state") == "idle"
    }
}

impl Wire {
    /// Connects. What the kernel publishes is only known to come here after
    /// [`Wire::join`].
    pub(super) async fn connect(
        connection: &ConnectionInfo,
        until: Instant,
    ) -> Result<Self, WireError> {
        let connect = async {
            let session = format!("{SESSION}{}", random_hex::<16>().map_err(WireError)?);
            let identity = peer_identity_for_session(&session)?;
            let iopub = create_client_iopub_connection(connection, "", &session).await?;
            let shell =
                create_client_shell_connection_with_identity(connection, &session, identity);
            let shell = shell.await?;
            let control = create_client_control_connection(connection, &session).await?;
            Ok(Self { iopub, shell, control })
        };
        timeout_at(until, connect).await.unwrap_or_else(|_| Err(too_late()))
    }

    /// Returns when the kernel answers and what it publishes is known to come here, with
    /// what it says of itself.
    pub(super) async fn join(&mut self, until: Instant) -> Result<Value, WireError> {
        timeout_at(until, self.subscribed()).await.unwrap_or_else(|_| Err(too_late()))
    }

    /// A publisher says nothing to those whose subscription it has not read yet, and
    /// does not say when it has. So it is asked for something until one of its answers
    /// is published here.
    async fn subscribed(&mut self) -> Result<Value, WireError> {
        let (mut asked, mut facts, mut heard) = (Vec::new(), None, false);
        let mut pause = FIRST_ASK;
        loop {
            asked.push(self.ask(KernelInfoRequest {}).await?);
            let until = Instant::now() + pause;
            while let Ok(incoming) = timeout_at(until, self.next()).await {
                match incoming {
                    Incoming::Published(message) => heard |= asked.contains(&message.parent),
                    Incoming::Answered(message) if message.kind == "kernel_info_reply" => {
                        facts = message.content.ok().or(facts);
                    }
                    Incoming::Answered(_) => {}
                }
                if let (true, Some(facts)) = (heard, &facts) {
                    return Ok(facts.clone());
                }
            }
            pause = (pause * 2).min(LAST_ASK);
        }
    }

    /// The next message. Nothing is lost when this is dropped before it is done.
    pub(super) async fn next(&mut self) -> Incoming {
        loop {
            let (received, published) = tokio::select! {
                received = self.iopub.socket.recv() => (received, true),
                received = self.shell.socket.recv() => (received, false),
            };
            let Ok(received) = received else {
                sleep(AFTER_FAILURE).await;
                continue;
            };
            let mac = if published { &self.iopub.mac } else { &self.shell.mac };
            // What is not signed with this kernel's key is not of this kernel.
            let message = RawMessage::from_multipart(received, mac).ok().and_then(parse);
            match message {
                Some(message) if published => return Incoming::Published(message),
                Some(message) => return Incoming::Answered(message),
                None => {}
            }
        }
    }

    /// Asks the kernel to run code; returns the request's id.
    pub(super) async fn execute(&mut self, code: String, run: Run) -> Result<String, WireError> {
        self.ask(ExecuteRequest {
            code,
            silent: run == Run::Hidden,
            store_history: run == Run::Cell,
            user_expressions: None,
            allow_stdin: false,
            // The next request comes after this one's answer; nothing is to be skipped.
            stop_on_error: false,
        })
        .await
    }

    /// Asks for something harmless; returns the request's id.
    pub(super) async fn ping(&mut self) -> Result<String, WireError> {
        self.ask(KernelInfoRequest {}).await
    }

    /// Asks the kernel to interrupt what it runs.
    pub(super) async fn interrupt(&mut self) -> Result<(), WireError> {
        self.control.send(JupyterMessage::new(InterruptRequest {}, None)).await?;
        Ok(())
    }

    async fn ask(
        &mut self,
        content: impl Into<JupyterMessageContent>,
    ) -> Result<String, WireError> {
        let message = JupyterMessage::new(content, None);
        let id = message.header.msg_id.clone();
        self.shell.send(message).await?;
        Ok(id)
    }
}

/// What code is to the kernel's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// A cell.
    Cell,
    /// The aide's own: leaves no trace.
    Hidden,
}

fn too_late() -> WireError {
    WireError("it did not answer in time".to_owned())
}

fn parse(raw: RawMessage) -> Option<Message> {
    #[derive(Deserialize)]
    struct Header {
        msg_type: String,
    }
    #[derive(Default, Deserialize)]
    struct Parent {
        #[serde(default)]
        msg_id: String,
        #[serde(default)]
        session: String,
    }
    let [header, parent, _, content] = raw.jparts.first_chunk::<4>()?;
    let header: Header = serde_json::from_slice(header).ok()?;
    let parent: Parent = serde_json::from_slice(parent).unwrap_or_default();
    let content = match content.len() {
        long if long > MAX_CONTENT => Err(long),
        _ => Ok(serde_json::from_slice(content).ok()?),
    };
    Some(Message {
        kind: header.msg_type,
        parent: parent.msg_id,
        is_ours: parent.session.starts_with(SESSION),
        content,
    })
}

/// Random bytes in hexadecimal: what nobody else can guess.
pub(super) fn random_hex<const BYTES: usize>() -> Result<String, String> {
    let mut bytes = [0; BYTES];
    let flags = rustix::rand::GetRandomFlags::empty();
    let filled = rustix::rand::getrandom(&mut bytes, flags).map_err(|error| error.to_string())?;
    if filled < BYTES {
        return Err("the system has no randomness".to_owned());
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
