//! A proxy request, read from its head, and the request it becomes.
//!
//! What is sent on is written anew from what was understood: the host from the
//! target, the framing from what was checked, no header that is meant for the
//! proxy.

use crate::body::Framing;
use crate::failure::Failure;

/// A request may have this many headers.
const MOST_HEADERS: usize = 100;

/// A request, as far as its syntax goes.
#[derive(Debug)]
pub(crate) struct Request {
    method: String,
    target: String,
    /// The 0 or 1 after `HTTP/1.`.
    version: u8,
    headers: Vec<(String, Vec<u8>)>,
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ask<'a> {
    /// A tunnel to this authority.
    Tunnel { authority: &'a str },
    /// One exchange with this authority about this path.
    Forward { authority: &'a str, path: String },
}

impl Request {
    pub(crate) fn parse(head: &[u8]) -> Result<Self, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Failure::HeadTooLong),
            Ok(httparse::Status::Partial) | Err(_) => {
                return Err(Failure::Malformed("this is not an HTTP/1 request"));
            }
        }
        let (Some(method), Some(target), Some(version)) =
            (request.method, request.path, request.version)
        else {
            return Err(Failure::Malformed("this is not an HTTP/1 request"));
        };
        let headers = request.headers.iter().map(|h| (h.name.to_owned(), h.value.to_vec()));
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            version,
            headers: headers.collect(),
        })
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    pub(crate) fn takes_interim_answers(&self) -> bool {
        self.version > 0
    }

    /// What is asked for, not yet judged.
    pub(crate) fn ask(&self) -> Result<Ask<'_>, Failure> {
        if self.method == "CONNECT" {
            return Ok(Ask::Tunnel { authority: &self.target });
        }
        if !self.target.bytes().all(|b| b.is_ascii_graphic()) || self.target.contains('#') {
            return Err(Failure::Malformed("the request's target is not a URI"));
        }
        let Some((scheme, rest)) = self.target.split_once("://") else {
            return Err(Failure::Malformed(
                "this is a proxy: ask for http://HOST/PATH, or CONNECT HOST:PORT",
            ));
        };
        if scheme.eq_ignore_ascii_case("https") {
            return Err(Failure::Malformed("https needs a tunnel: use CONNECT HOST:PORT"));
        }
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(Failure::Malformed("only http:// is forwarded; use CONNECT HOST:PORT"));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let path = match path.chars().next() {
            Some('/') => path.to_owned(),
            None if self.method == "OPTIONS" => "*".to_owned(),
            _ => format!("/{path}"),
        };
        Ok(Ask::Forward { authority, path })
    }

    /// Where the body ends. A request that leaves two readings is refused.
    pub(crate) fn framing(&self) -> Result<Framing, Failure> {
        let lengths: Vec<&[u8]> = self.values("content-length").collect();
        let codings: Vec<&[u8]> = self.values("transfer-encoding").collect();
        match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Ok(Framing::Length(0)),
            ([length, others @ ..], []) => {
                if others.iter().any(|other| other != length) {
                    return Err(Failure::Malformed("the Content-Length headers differ"));
                }
                let length = parse_length(length)
                    .ok_or(Failure::Malformed("the Content-Length is not a number"))?;
                Ok(Framing::Length(length))
            }
            ([], [coding]) if self.version > 0 && coding.eq_ignore_ascii_case(b"chunked") => {
                Ok(Framing::Chunked)
            }
            ([], _) => Err(Failure::Malformed("the Transfer-Encoding is not just chunked")),
            _ => Err(Failure::Malformed("both Content-Length and Transfer-Encoding are given")),
        }
    }

    /// The head to send to the host itself: origin form, one exchange.
    pub(crate) fn origin_head(&self, host: &str, path: &str, framing: Framing) -> Vec<u8> {
        let mut head =
            format!("{} {path} HTTP/1.{}\r\nHost: {host}\r\n", self.method, self.version)
                .into_bytes();
        let named = named_in_connection(self.values("connection"));
        for (name, value) in &self.headers {
            let folded = name.to_ascii_lowercase();
            let is_ours = matches!(folded.as_str(), "host" | "content-length");
            if !(is_ours || is_hop_by_hop(&folded) || named.contains(&folded)) {
                write_header(&mut head, name, value);
            }
        }
        match framing {
            Framing::Chunked => write_header(&mut head, "Transfer-Encoding", b"chunked"),
            Framing::Length(length) if self.values("content-length").next().is_some() => {
                write_header(&mut head, "Content-Length", length.to_string().as_bytes());
            }
            Framing::Length(_) | Framing::UntilClose => {}
        }
        head.extend_from_slice(b"Connection: close\r\n\r\n");
        head
    }

    fn values<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let wanted = move |name: &str| name.eq_ignore_ascii_case(wanted);
        self.headers.iter().filter(move |(name, _)| wanted(name)).map(|(_, value)| &value[..])
    }
}

/// A length in decimal digits, nothing else.
pub(crate) fn parse_length(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Headers that concern one connection, or the proxy alone. In lower case.
pub(crate) fn is_hop_by_hop(name: &str) -> bool {
    matches!(name, "connection" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade")
        || name.starts_with("proxy-")
}

/// The headers that `Connection` headers name, in lower case.
pub(crate) fn named_in_connection<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    values
        .flat_map(|value| value.split(|&b| b == b','))
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
        .collect()
}

pub(crate) fn write_header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
