//! A host's answer, read from its head, and what of it is passed on.
//!
//! The body is passed on as it is. The head keeps its status and headers, but
//! says `Connection: close`: a connection to the proxy carries one exchange.

use crate::body::Framing;
use crate::request::{is_hop_by_hop, named_in_connection, parse_length, write_header};

/// An answer may have this many headers.
const MOST_HEADERS: usize = 256;

/// An answer's head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Whether another answer follows this one.
    pub(crate) is_interim: bool,
    pub(crate) framing: Framing,
    /// The head to pass on.
    pub(crate) head: Vec<u8>,
}

/// Whether the request was one whose answer has no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Head,
    Other,
}

impl Answer {
    /// Reads a head; the error says what is wrong with it.
    pub(crate) fn parse(head: &[u8], asked: Asked) -> Result<Self, &'static str> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err("it has too many headers"),
            Ok(httparse::Status::Partial) | Err(_) => return Err("its head is malformed"),
        }
        let (Some(version), Some(status)) = (response.version, response.code) else {
            return Err("its head is malformed");
        };
        if status == 101 {
            return Err("it changes the protocol without being asked to");
        }
        let headers: Vec<(&str, &[u8])> =
            response.headers.iter().map(|h| (h.name, h.value)).collect();
        let is_interim = (100..200).contains(&status);
        let bodiless = is_interim || matches!(status, 204 | 304) || asked == Asked::Head;
        let framing = if bodiless { Framing::Length(0) } else { framing(&headers)? };

        let reason = response.reason.unwrap_or_default();
        let mut head = format!("HTTP/1.{version} {status:03} {reason}\r\n").into_bytes();
        let named = named_in_connection(values(&headers, "connection"));
        let is_coded = values(&headers, "transfer-encoding").next().is_some();
        for (name, value) in &headers {
            let folded = name.to_ascii_lowercase();
            let about_body = matches!(folded.as_str(), "transfer-encoding" | "trailer");
            let about_hop = is_hop_by_hop(&folded) || named.contains(&folded);
            let doubtful = is_coded && folded == "content-length";
            if !(doubtful || (about_hop && !about_body)) {
                write_header(&mut head, name, value);
            }
        }
        if !is_interim {
            head.extend_from_slice(b"Connection: close\r\n");
        }
        head.extend_from_slice(b"\r\n");
        Ok(Self { is_interim, framing, head })
    }
}

fn framing(headers: &[(&str, &[u8])]) -> Result<Framing, &'static str> {
    if let Some(coding) = values(headers, "transfer-encoding").last() {
        let last = coding.rsplit(|&b| b == b',').next().unwrap_or_default().trim_ascii();
        let chunked = last.eq_ignore_ascii_case(b"chunked");
        return Ok(if chunked { Framing::Chunked } else { Framing::UntilClose });
    }
    let mut lengths = values(headers, "content-length");
    let Some(first) = lengths.next() else { return Ok(Framing::UntilClose) };
    if lengths.any(|other| other != first) {
        return Err("its Content-Length headers differ");
    }
    parse_length(first).map(Framing::Length).ok_or("its Content-Length is not a number")
}

fn values<'a>(
    headers: &'a [(&'a str, &'a [u8])],
    wanted: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    headers
        .iter()
        .filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
        .map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            start in "(HTTP/1.1 [0-9]{3} )?",
            rest in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let head = [start.as_bytes(), &rest].concat();
            if let Ok(answer) = Answer::parse(&head, Asked::Other) {
                prop_assert!(answer.head.ends_with(b"\r\n\r\n"));
            }
        }
    }

    fn framing_of(head: &str, asked: Asked) -> Result<Framing, &'static str> {
        Answer::parse(head.as_bytes(), asked).map(|answer| answer.framing)
    }

    #[test]
    fn an_answer_ends_where_its_head_says() {
        for (head, framing) in [
            ("HTTP/1.1 200 OK\r\n\r\n", Framing::UntilClose),
            ("HTTP/1.0 200 OK\nContent-Length: 3\n\n", Framing::Length(3)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Framing::Chunked),
            ("HTTP/1.1 200\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Framing::Chunked),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Framing::UntilClose),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", Framing::Length(0)),
            ("HTTP/1.1 204 No Content\r\n\r\n", Framing::Length(0)),
        ] {
            assert_eq!(framing_of(head, Asked::Other), Ok(framing), "{head:?}");
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(framing_of(head, Asked::Head), Ok(Framing::Length(0)));
    }

    #[test]
    fn an_answer_that_is_none_is_refused() {
        for head in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        ] {
            assert!(framing_of(head, Asked::Other).is_err(), "{head:?}");
        }
    }

    #[test]
    fn the_client_is_told_that_the_connection_closes() {
        let head = b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
            Keep-Alive: timeout=5\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\
            X-Kept: 2\r\nProxy-Authenticate: Basic\r\n\r\n";
        let answer = Answer::parse(head, Asked::Other).unwrap();
        assert_eq!(
            String::from_utf8(answer.head).unwrap(),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Kept: 2\r\n\
             Connection: close\r\n\r\n"
        );
    }
}
