//! A connection to a server, as cheap as one can be: requests are bytes that were
//! made before, and of an answer only what is needed is looked at. All servers are
//! asked by the same code.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes read at once.
const PIECE: usize = 16 << 10;

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Its bytes, with the empty line.
    length: usize,
    /// The bytes of the body; `None` if it comes in chunks.
    body: Option<usize>,
}

/// A connection that is kept.
pub(super) struct Connection {
    stream: TcpStream,
    /// What was read and not taken.
    unread: Vec<u8>,
}

/// How much a connection takes before it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    Usual,
    /// As little as the kernel has it.
    Narrow,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr, window: Window) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if window == Window::Narrow {
            socket.set_recv_buffer_size(1)?;
        }
        let stream = socket.connect(address).await.context("connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, unread: Vec::with_capacity(PIECE) })
    }

    /// Sends a request and reads its answer; the body is put into `body`, in place of
    /// what was there.
    pub(super) async fn ask(&mut self, request: &[u8], body: &mut Vec<u8>) -> anyhow::Result<u16> {
        let asking = async {
            let head = self.begin(request).await?;
            body.clear();
            match head.body {
                Some(length) => {
                    while self.unread.len() < length {
                        self.read().await?;
                    }
                    body.extend(self.unread.drain(..length));
                }
                None => while self.chunk(body).await? {},
            }
            Ok(head.status)
        };
        tokio::time::timeout(PATIENCE, asking).await.context("no answer in time")?
    }

    /// Sends a request and reads the head of its answer.
    pub(super) async fn begin(&mut self, request: &[u8]) -> anyhow::Result<Head> {
        self.stream.write_all(request).await.context("send")?;
        loop {
            if let Some(head) = head(&self.unread)? {
                self.unread.drain(..head.length);
                return Ok(head);
            }
            self.read().await?;
        }
    }

    /// Adds the next chunk to what is there; `false` at the end.
    pub(super) async fn chunk(&mut self, body: &mut Vec<u8>) -> anyhow::Result<bool> {
        loop {
            if let Some((start, length)) = chunk(&self.unread)? {
                let end = start + length;
                while self.unread.len() < end + 2 {
                    self.read().await?;
                }
                body.extend_from_slice(self.unread.get(start..end).unwrap_or_default());
                self.unread.drain(..end + 2);
                return Ok(length > 0);
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        self.unread.reserve(PIECE);
        match self.stream.read_buf(&mut self.unread).await.context("read")? {
            0 => bail!("the server has closed the connection"),
            _ => Ok(()),
        }
    }
}

/// The head at the front of these bytes, if all of it is there.
fn head(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
    let mut lines = bytes.get(..end).unwrap_or_default().split(|byte| *byte == b'\n');
    let status = lines.next().and_then(|line| line.get(9..12)).and_then(number);
    let status = status.context("the answer is not HTTP")?;
    let mut body = None;
    for line in lines {
        let Some((name, value)) = line.split_at_checked("content-length:".len()) else { continue };
        if name.eq_ignore_ascii_case(b"content-length:") {
            body = number(value.trim_ascii());
        }
    }
    let status = u16::try_from(status).context("the answer is not HTTP")?;
    Ok(Some(Head { status, length: end + 4, body }))
}

fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Where the chunk at the front of these bytes begins, and its length.
fn chunk(bytes: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(2).position(|part| part == b"\r\n") else { return Ok(None) };
    let length = std::str::from_utf8(bytes.get(..end).unwrap_or_default())?;
    let length = usize::from_str_radix(length, 16).context("the answer has no chunks")?;
    Ok(Some((end + 2, length)))
}

/// A request, as bytes.
pub(super) struct Requests {
    pub(super) host: SocketAddr,
    pub(super) token: Option<String>,
}

impl Requests {
    pub(super) fn get(&self, path: &str) -> Vec<u8> {
        self.with("GET", path, "")
    }

    /// The same, for a stream of events.
    pub(super) fn events(&self, path: &str) -> Vec<u8> {
        self.with("GET", path, "Accept: text/event-stream\r\n")
    }

    pub(super) fn post(&self, path: &str, json: &str) -> Vec<u8> {
        let length = json.len();
        let more = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        let mut bytes = self.with("POST", path, &more);
        bytes.extend_from_slice(json.as_bytes());
        bytes
    }

    fn with(&self, method: &str, path: &str, more: &str) -> Vec<u8> {
        let token = self.token.as_ref();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let token = token.unwrap_or_default();
        format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{token}{more}\r\n", self.host).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_taken_when_all_of_it_is_there() {
        let text = b"HTTP/1.1 202 Accepted\r\nX: y\r\nContent-Length: 17\r\n\r\n{\"job";
        let found = head(text).unwrap().unwrap();
        assert_eq!(found, Head { status: 202, length: text.len() - 5, body: Some(17) });
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nConten").unwrap(), None);
        assert!(head(b"nonsense\r\n\r\n").is_err());
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(head(chunked).unwrap().unwrap().body, None);
    }

    #[test]
    fn a_chunk_says_its_length() {
        assert_eq!(chunk(b"1a\r\nabc").unwrap(), Some((4, 26)));
        assert_eq!(chunk(b"0\r\n\r\n").unwrap(), Some((3, 0)));
        assert_eq!(chunk(b"1").unwrap(), None);
        assert!(chunk(b"xyz\r\n").is_err());
    }

    #[test]
    fn a_request_is_bytes() {
        let host = SocketAddr::from(([127, 0, 0, 1], 80));
        let requests = Requests { host, token: Some("t".to_owned()) };
        let text = String::from_utf8(requests.post("/a", "{}")).unwrap();
        assert!(text.starts_with("POST /a HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"), "{text}");
        assert!(text.contains("Authorization: Bearer t\r\n"), "{text}");
        assert!(text.ends_with("Content-Length: 2\r\n\r\n{}"), "{text}");
    }
}
