//! As much HTTP/1.1 as a model's client needs: requests with a length, answers
//! with a length or in chunks, connections that are kept.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::performance::Act;

/// The longest request: a conversation with some pictures.
const LONGEST: usize = 64 << 20;
const MOST_HEADERS: usize = 64;

/// A request as it came.
#[derive(Debug)]
pub(crate) struct RawRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Reads a request; nothing when the client has left. What was read beyond it
/// stays in `unread`.
pub(crate) async fn read_request(
    stream: &mut TcpStream,
    unread: &mut Vec<u8>,
) -> io::Result<Option<RawRequest>> {
    let (mut request, head) = loop {
        if let Some(parsed) = parse_head(unread)? {
            break parsed;
        }
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    };
    let length = header(&request.headers, "content-length").unwrap_or("0");
    let length: usize = length.parse().map_err(io::Error::other)?;
    if length > LONGEST {
        return Err(io::Error::other("the request is too long"));
    }
    while unread.len() < head + length {
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
    request.body = unread.drain(..head + length).skip(head).collect();
    Ok(Some(request))
}

/// The head of a request with its length, once it is whole.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(RawRequest, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = parsed.parse(bytes).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let headers = parsed.headers.iter();
    let request = RawRequest {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        headers: headers.map(|h| (h.name.to_ascii_lowercase(), text(h.value))).collect(),
        body: Vec::new(),
    };
    Ok(Some((request, length)))
}

/// The value of a header.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Whether the connection can take another request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    Kept,
    Closed,
}

/// Answers with a body of known length.
pub(crate) async fn write_whole(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &str,
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await
}

/// Answers with an event stream.
pub(crate) async fn write_stream(stream: &mut TcpStream, acts: Vec<Act>) -> io::Result<Afterwards> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut pending = head.as_bytes().to_vec();
    for act in acts {
        match act {
            Act::Send(chunks) => {
                chunks.iter().for_each(|chunk| put_chunk(&mut pending, chunk));
                stream.write_all(&pending).await?;
                pending.clear();
            }
            Act::End => {
                stream.write_all(b"0\r\n\r\n").await?;
                return Ok(Afterwards::Kept);
            }
            Act::Reset => {
                stream.set_zero_linger()?;
                return Ok(Afterwards::Closed);
            }
            Act::Stall => {
                wait_until_left(stream).await;
                return Ok(Afterwards::Closed);
            }
            Act::Ping(bytes, interval) => loop {
                put_chunk(&mut pending, &bytes);
                // Ends with an error once the client has left.
                stream.write_all(&pending).await?;
                pending.clear();
                tokio::time::sleep(interval).await;
            },
        }
    }
    Ok(Afterwards::Closed)
}

/// Reads and forgets until the client has closed the connection.
pub(crate) async fn wait_until_left(stream: &mut TcpStream) {
    let mut buffer = [0; 1024];
    while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
}

fn put_chunk(into: &mut Vec<u8>, chunk: &[u8]) {
    into.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
    into.extend_from_slice(chunk);
    into.extend_from_slice(b"\r\n");
}
