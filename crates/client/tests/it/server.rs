//! A server that sends exactly the bytes that a test wants, and records what it is
//! asked. Nothing between the test and the socket tidies anything up.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam_client::{Client, Patience};
use cofferdam_types::Redacted;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The token of every client here.
pub(crate) const TOKEN: &str = "geheim";

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// `GET /path`.
    pub(crate) line: String,
    /// Everything up to the body, in small letters.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&prefix))
    }
}

/// What the server does with a request. After the last of these it closes the
/// connection, and what it has sent arrives.
pub(crate) enum Act {
    Send(Vec<u8>),
    /// Break the connection: what was sent before may be lost.
    Reset,
    /// Say nothing until the client has left.
    Stall,
}

/// An answer of JSON with its head.
pub(crate) fn json(status: u16, body: &str) -> Act {
    typed(status, "application/json", "", body)
}

/// A refusal as our server sends it.
pub(crate) fn problem(status: u16, headers: &str) -> Act {
    let body = format!(
        r#"{{"type":"urn:x","title":"no","status":{status},"code":"API-099","detail":"why","remedy":"help"}}"#
    );
    typed(status, "application/problem+json", headers, &body)
}

pub(crate) fn typed(status: u16, media_type: &str, headers: &str, body: &str) -> Act {
    let length = body.len();
    text(&format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\
         {headers}\r\n{body}"
    ))
}

pub(crate) fn text(bytes: &str) -> Act {
    Act::Send(bytes.as_bytes().to_vec())
}

type Script = dyn FnMut(usize, &Asked) -> Vec<Act> + Send;

/// The server. It is gone when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Answers each request by its number from 0.
    pub(crate) async fn new(
        script: impl FnMut(usize, &Asked) -> Vec<Act> + Send + 'static,
    ) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), script).await
    }

    /// The same at a certain address.
    pub(crate) async fn at(
        address: SocketAddr,
        script: impl FnMut(usize, &Asked) -> Vec<Act> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        let mut tasks = JoinSet::new();
        let kept = Arc::clone(&asked);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(attend(stream, Arc::clone(&kept), Arc::clone(&script)));
            }
        });
        Self { address, asked, _tasks: tasks }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// A client with little patience.
    pub(crate) fn client(&self) -> Client {
        self.client_with(impatient())
    }

    pub(crate) fn client_with(&self, patience: Patience) -> Client {
        let url = format!("http://{}", self.address);
        let token = Some(Redacted::new(TOKEN.to_owned()));
        Client::insecure(url.parse().unwrap(), token, patience).unwrap()
    }
}

/// Bounds that a test can wait for, and that a busy machine keeps; waits of no
/// length.
pub(crate) fn impatient() -> Patience {
    Patience {
        head: Duration::from_secs(2),
        silence: Duration::from_secs(2),
        farewell: Duration::from_millis(50),
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(10),
        ..Patience::default()
    }
}

async fn attend(
    mut stream: TcpStream,
    asked: Arc<Mutex<Vec<Asked>>>,
    script: Arc<Mutex<Box<Script>>>,
) {
    let Some(request) = read(&mut stream).await else { return };
    let acts = {
        let mut asked = asked.lock().unwrap();
        let number = asked.len();
        let acts = script.lock().unwrap()(number, &request);
        asked.push(request);
        acts
    };
    for act in acts {
        match act {
            Act::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Act::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
            Act::Stall => while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {},
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let line = text.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let asked = Asked { line, head: text.to_lowercase(), body: Vec::new() };
    let length: usize = asked.header("content-length").unwrap_or("0").parse().unwrap();
    while bytes.len() < head + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(Asked { body: bytes.split_off(head), ..asked })
}
