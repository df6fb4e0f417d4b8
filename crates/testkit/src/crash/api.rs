//! As much of an HTTP client as the suite needs. It is written by hand so that
//! nothing is tried again, kept or tidied up behind the suite's back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long an answer, or the next piece of a stream, is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest answer.
const LONGEST: u64 = 256 << 20;

/// A server as one user sees it.
#[derive(Clone, Debug)]
pub(super) struct Api {
    pub(super) address: SocketAddr,
    pub(super) token: String,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn json(&self) -> io::Result<Value> {
        serde_json::from_slice(&self.body).map_err(io::Error::other)
    }

    /// What it says, for people.
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.status, String::from_utf8_lossy(&self.body))
    }

    pub(super) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Api {
    pub(super) fn get(&self, path: &str) -> io::Result<Answer> {
        self.ask("GET", path, &[], None)
    }

    pub(super) fn post(&self, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        self.ask("POST", path, &[], body)
    }

    pub(super) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> io::Result<Answer> {
        let (status, mut rest) = self.begin(method, path, headers, body)?;
        let mut bytes = Vec::new();
        rest.read_to_end(&mut bytes)?;
        Ok(Answer { status, body: bytes })
    }

    /// Sends a request and reads the head of its answer; the body is yet to come.
    pub(super) fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> io::Result<(u16, Body)> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let (address, token) = (self.address, &self.token);
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             connection: close\r\n"
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        if !body.is_empty() {
            request.push_str("content-type: application/json\r\n");
        }
        request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(request.as_bytes())?;
        answer(BufReader::new(stream))
    }
}

fn answer(mut stream: BufReader<TcpStream>) -> io::Result<(u16, Body)> {
    let first = line(&mut stream)?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no answer: {first:?}")))?;
    let mut framing = Framing::Length(0);
    loop {
        let header = line(&mut stream)?;
        if header.is_empty() {
            return Ok((status, Body { stream, framing }));
        }
        let (name, value) = header.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = value.trim().parse().map_err(io::Error::other)?;
                framing = Framing::Length(length);
            }
            "transfer-encoding" => framing = Framing::Chunks { left: 0, first: true },
            _ => {}
        }
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if stream.take(64 << 10).read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

/// The body of an answer. One that ends before its end is an error.
#[derive(Debug)]
pub(super) struct Body {
    stream: BufReader<TcpStream>,
    framing: Framing,
}

#[derive(Debug)]
enum Framing {
    Length(u64),
    Chunks { left: u64, first: bool },
    Ended,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = match &mut self.framing {
            Framing::Ended | Framing::Length(0) => return Ok(0),
            Framing::Length(left) => left,
            Framing::Chunks { left, first } => {
                if *left == 0 {
                    if !std::mem::take(first) {
                        line(&mut self.stream)?;
                    }
                    let size = line(&mut self.stream)?;
                    *left = u64::from_str_radix(&size, 16).map_err(io::Error::other)?;
                }
                if *left == 0 {
                    self.framing = Framing::Ended;
                    return Ok(0);
                }
                left
            }
        };
        if *left > LONGEST {
            return Err(io::Error::other("the answer is too long"));
        }
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.stream.read(buffer.get_mut(..most).unwrap_or_default())?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= read as u64;
        Ok(read)
    }
}
