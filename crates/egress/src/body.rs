//! How far a message's body goes.
//!
//! Bodies are passed on as they are; a [`Body`] only counts how many bytes
//! belong to it, so that what follows them is never taken for part of it.

/// How a message says where its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// A chunk that is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chunked body is malformed")]
pub(crate) struct BadChunk;

/// A body, as far as it has been seen.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Counted(u64),
    UntilClose,
    Size { digits: u8, size: u64 },
    Extension { size: u64, seen: u16 },
    SizeEnd { size: u64 },
    Data(u64),
    DataReturn,
    DataEnd,
    TrailerStart { seen: u16 },
    Trailer { seen: u16 },
    TrailerEnd { seen: u16 },
    LastEnd,
    Done,
}

/// Of one chunk's extensions, or of all trailers.
const LONGEST_EXTRA: u16 = 16 * 1024;

impl Body {
    pub(crate) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Counted(length),
            Framing::Chunked => State::Size { digits: 0, size: 0 },
            Framing::UntilClose => State::UntilClose,
        };
        Self { state }
    }

    /// Whether the body has ended, as far as its framing says.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the end of the stream is a proper end of this body.
    pub(crate) fn may_end(&self) -> bool {
        matches!(self.state, State::Done | State::UntilClose)
    }

    /// How many of these bytes belong to the body; fewer than all once it is
    /// done.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..)
            && let Some(&byte) = rest.first()
        {
            match self.state {
                State::Done => break,
                State::UntilClose => return Ok(bytes.len()),
                State::Counted(left) => {
                    let (count, left) = bulk(rest, left);
                    taken += count;
                    self.state = if left == 0 { State::Done } else { State::Counted(left) };
                }
                State::Data(left) => {
                    let (count, left) = bulk(rest, left);
                    taken += count;
                    self.state = if left == 0 { State::DataReturn } else { State::Data(left) };
                }
                state => {
                    self.state = between_data(state, byte)?;
                    taken += 1;
                }
            }
        }
        Ok(taken)
    }
}

fn bulk(bytes: &[u8], left: u64) -> (usize, u64) {
    let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    (count, left - count as u64)
}

/// One byte of what stands between the data of chunks. Lines end in CR LF and
/// in nothing else; no control hides in them.
fn between_data(state: State, byte: u8) -> Result<State, BadChunk> {
    let longer = |seen: u16| if seen < LONGEST_EXTRA { Ok(seen + 1) } else { Err(BadChunk) };
    let is_text = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    match (state, byte) {
        (State::Size { digits, size }, _) if byte.is_ascii_hexdigit() && digits < 16 => {
            let digit = char::from(byte).to_digit(16).ok_or(BadChunk)?;
            Ok(State::Size { digits: digits + 1, size: size << 4 | u64::from(digit) })
        }
        (State::Size { digits: 1.., size }, b'\r') => Ok(State::SizeEnd { size }),
        (State::Size { digits: 1.., size }, b';' | b' ' | b'\t') => {
            Ok(State::Extension { size, seen: 0 })
        }
        (State::Extension { size, .. }, b'\r') => Ok(State::SizeEnd { size }),
        (State::Extension { size, seen }, _) if is_text => {
            Ok(State::Extension { size, seen: longer(seen)? })
        }
        (State::SizeEnd { size: 0 }, b'\n') => Ok(State::TrailerStart { seen: 0 }),
        (State::SizeEnd { size }, b'\n') => Ok(State::Data(size)),
        (State::DataReturn, b'\r') => Ok(State::DataEnd),
        (State::DataEnd, b'\n') => Ok(State::Size { digits: 0, size: 0 }),
        (State::TrailerStart { .. }, b'\r') => Ok(State::LastEnd),
        (State::Trailer { seen }, b'\r') => Ok(State::TrailerEnd { seen }),
        (State::TrailerStart { seen } | State::Trailer { seen }, _) if is_text => {
            Ok(State::Trailer { seen: longer(seen)? })
        }
        (State::TrailerEnd { seen }, b'\n') => Ok(State::TrailerStart { seen: longer(seen)? }),
        (State::LastEnd, b'\n') => Ok(State::Done),
        _ => Err(BadChunk),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_counted_body_ends_at_its_count() {
        let mut body = Body::new(Framing::Length(5));
        assert_eq!(body.take(b"abc"), Ok(3));
        assert!(!body.is_done() && !body.may_end());
        assert_eq!(body.take(b"deGET"), Ok(2));
        assert!(body.is_done());
        assert_eq!(body.take(b"GET"), Ok(0));
        assert!(Body::new(Framing::Length(0)).is_done());
    }

    #[test]
    fn a_chunked_body_ends_after_its_trailers() {
        let text: &[u8] = b"5;x=\"y\"\r\nhello\r\n0A \r\n0123456789\r\n0\r\nA: b\r\n\r\n";
        let mut whole = Body::new(Framing::Chunked);
        let with_more = [text, b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(whole.take(&with_more), Ok(text.len()));
        assert!(whole.is_done());
    }

    #[test]
    fn chunks_that_parsers_disagree_on_are_refused() {
        for text in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x5\r\n",
            " 5\r\n",
            "5\n",
            "5\rx",
            "5;a\nb\r\n",
            "5;\0\r\n",
            "11111111111111111\r\n",
            "1\r\nabc",
            "1\r\na\n",
            "0\r\nA: b\n\r\n",
            "0\r\n\n",
            "0\r\n\rx",
        ] {
            assert_eq!(
                Body::new(Framing::Chunked).take(text.as_bytes()),
                Err(BadChunk),
                "{text:?}"
            );
        }
        let endless = format!("1;{}", "x".repeat(20_000));
        assert_eq!(Body::new(Framing::Chunked).take(endless.as_bytes()), Err(BadChunk));
        let endless = format!("0\r\n{}", "a: b\r\n".repeat(4_000));
        assert_eq!(Body::new(Framing::Chunked).take(endless.as_bytes()), Err(BadChunk));
    }

    proptest! {
        #[test]
        fn any_cut_of_a_body_gives_the_same_end(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..5),
            cuts in proptest::collection::vec(1..20usize, 1..10),
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend(format!("{:x}\r\n", chunk.len()).bytes());
                text.extend(chunk);
                text.extend(b"\r\n");
            }
            text.extend(b"0\r\n\r\n");
            let mut body = Body::new(Framing::Chunked);
            let (mut rest, mut cuts) = (text.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                prop_assert!(!body.is_done());
                let (piece, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                prop_assert_eq!(body.take(piece), Ok(piece.len()));
                rest = after;
            }
            prop_assert!(body.is_done());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut body = Body::new(Framing::Chunked);
            if let Ok(taken) = body.take(&bytes) {
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
