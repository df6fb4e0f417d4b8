//! Reading a message's head from a stream: everything up to the empty line,
//! within a size.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A head is at most this long.
pub(crate) const LONGEST_HEAD: usize = 64 * 1024;

/// How lines may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnds {
    /// In CR LF only. A lone LF is where parsers begin to disagree.
    Strict,
    /// In LF too, as some old servers do.
    Lenient,
}

/// A head, and what came with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) head: Vec<u8>,
    pub(crate) rest: Vec<u8>,
}

/// Why there is no head.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("the head is too long")]
    TooLong,
    #[error("a line of the head does not end in CR LF")]
    LineEnd,
    #[error("the stream ended within the head")]
    Ended,
    #[error("the stream ended before the head")]
    Nothing,
    #[error("the stream broke: {0}")]
    Broken(#[from] io::Error),
}

/// Reads a head; `before` is what had been read already.
pub(crate) async fn read_head(
    stream: &mut (impl AsyncRead + Unpin),
    before: Vec<u8>,
    ends: LineEnds,
) -> Result<Head, HeadError> {
    let mut bytes = before;
    let mut seen = 0;
    loop {
        if let Some(end) = find_end(&bytes, &mut seen, ends)? {
            let rest = bytes.split_off(end);
            return Ok(Head { head: bytes, rest });
        }
        let room = LONGEST_HEAD.saturating_sub(bytes.len());
        if room == 0 {
            return Err(HeadError::TooLong);
        }
        bytes.reserve(room.min(4 * 1024));
        let room = u64::try_from(room).unwrap_or(u64::MAX);
        if (&mut *stream).take(room).read_buf(&mut bytes).await? == 0 {
            let empty = bytes.is_empty();
            return Err(if empty { HeadError::Nothing } else { HeadError::Ended });
        }
    }
}

/// Looks for the end of the head in what has not been `seen` yet, so that a head
/// that comes byte by byte costs no more than one that comes at once.
fn find_end(bytes: &[u8], seen: &mut usize, ends: LineEnds) -> Result<Option<usize>, HeadError> {
    while let Some(&byte) = bytes.get(*seen) {
        *seen += 1;
        if byte != b'\n' {
            continue;
        }
        let line = bytes.get(..*seen).unwrap_or_default();
        if ends == LineEnds::Strict && !line.ends_with(b"\r\n") {
            return Err(HeadError::LineEnd);
        }
        if line.ends_with(b"\n\r\n") || (ends == LineEnds::Lenient && line.ends_with(b"\n\n")) {
            return Ok(Some(*seen));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8], ends: LineEnds) -> Result<(String, String), HeadError> {
        let mut stream = bytes;
        let Head { head, mut rest } = read_head(&mut stream, Vec::new(), ends).await?;
        rest.extend_from_slice(stream);
        Ok((String::from_utf8(head).unwrap(), String::from_utf8(rest).unwrap()))
    }

    #[tokio::test]
    async fn a_head_ends_at_the_empty_line() {
        let (head, rest) = read(b"a\r\nb\r\n\r\nc\r\n\r\n", LineEnds::Strict).await.unwrap();
        assert_eq!((head.as_str(), rest.as_str()), ("a\r\nb\r\n\r\n", "c\r\n\r\n"));
        let (head, rest) = read(b"a\nb\n\nc", LineEnds::Lenient).await.unwrap();
        assert_eq!((head.as_str(), rest.as_str()), ("a\nb\n\n", "c"));
    }

    #[tokio::test]
    async fn a_lone_line_feed_is_refused_from_inside() {
        for text in ["a\n\r\n", "a\r\nb\n\r\n", "\n"] {
            let found = read(text.as_bytes(), LineEnds::Strict).await;
            assert!(matches!(found, Err(HeadError::LineEnd)), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_head_without_end_is_an_error() {
        assert!(matches!(read(b"", LineEnds::Strict).await, Err(HeadError::Nothing)));
        assert!(matches!(read(b"a\r\n", LineEnds::Strict).await, Err(HeadError::Ended)));
        let long = [b'a'; LONGEST_HEAD + 1];
        assert!(matches!(read(&long, LineEnds::Strict).await, Err(HeadError::TooLong)));
    }
}
