//! Server-sent events, decoded as their bytes come.
//!
//! The events do not depend on how the bytes were cut into pieces. Bytes that
//! are not UTF-8 become replacement characters and mark their event: text can be
//! shown so, what is to be executed cannot.

use std::collections::VecDeque;

/// Bytes that one event may have, and so one line.
const LONGEST: usize = 16 << 20;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its data.
    pub(crate) data: String,
    /// Whether bytes in it were not UTF-8.
    pub(crate) lossy: bool,
}

/// An event is longer than anything a model says.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than 16 MiB")]
pub(crate) struct TooLong;

/// Decodes one stream.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The line so far.
    line: Vec<u8>,
    /// The data of the event so far, and whether it has any.
    data: Option<Vec<u8>>,
    /// The last byte was a carriage return: a line feed now ends no line.
    after_return: bool,
    /// The first line is over; only that may begin with a byte-order mark.
    begun: bool,
    events: VecDeque<Event>,
}

impl Decoder {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// When an event gets too long; nothing can be decoded after it.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
                return self.extend(rest);
            };
            let (line, ending) = rest.split_at(end);
            self.extend(line)?;
            self.after_return = ending.first() == Some(&b'\r');
            self.end_line();
            rest = ending.get(1..).unwrap_or_default();
        }
        Ok(())
    }

    /// The next event, if one is whole.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn extend(&mut self, more: &[u8]) -> Result<(), TooLong> {
        let length = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if length.saturating_add(more.len()) > LONGEST {
            return Err(TooLong);
        }
        self.line.extend_from_slice(more);
        Ok(())
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            self.end_event();
        } else if let Some(value) = line.strip_prefix(b"data") {
            let value = match value.strip_prefix(b":") {
                Some(value) => value.strip_prefix(b" ").unwrap_or(value),
                None if value.is_empty() => value,
                // A field whose name only begins so.
                None => return,
            };
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
        // Comments are signs of life; names repeat what the data says.
    }

    fn end_event(&mut self) {
        let Some(data) = self.data.take() else { return };
        let event = match String::from_utf8(data) {
            Ok(data) => Event { data, lossy: false },
            Err(error) => {
                let data = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Event { data, lossy: true }
            }
        };
        self.events.push_back(event);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
        let mut decoder = Decoder::default();
        for chunk in chunks {
            decoder.push(chunk).unwrap();
        }
        std::iter::from_fn(|| decoder.next()).collect()
    }

    fn check(stream: &[u8], expected: &[&str]) {
        let data: Vec<_> = decode([stream]).into_iter().map(|event| event.data).collect();
        assert_eq!(data, expected, "{}", String::from_utf8_lossy(stream));
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        check(b"data: a\n\ndata:b\n\n", &["a", "b"]);
        check(b"event: x\r\nid: 1\r\ndata: a\r\ndata:  b\r\n\r\n", &["a\n b"]);
        check(b"data: a\r\rdata\r\r", &["a", ""]);
        check("\u{feff}data: a\n\n".as_bytes(), &["a"]);
        check(b": comment\n\nevent: x\n\ndatum: a\n\n\n", &[]);
    }

    #[test]
    fn an_event_that_is_not_ended_is_none() {
        check(b"data: a\n\ndata: b\n", &["a"]);
        check(b"data: a", &[]);
    }

    #[test]
    fn bytes_that_are_not_utf8_mark_their_event_and_no_other() {
        let events = decode([b"data: a\xe2\x82\xffb\n\ndata: c\n\n".as_slice()]);
        let expected = [("a\u{fffd}\u{fffd}b", true), ("c", false)];
        let expected = expected.map(|(data, lossy)| Event { data: data.to_owned(), lossy });
        assert_eq!(events, expected);
    }

    #[test]
    fn an_event_without_end_is_refused_and_not_collected() {
        let megabyte = vec![b'x'; 1 << 20];
        for separator in [b"".as_slice(), b"\ndata: "] {
            let mut decoder = Decoder::default();
            decoder.push(b"data: ").unwrap();
            let pushes = (0..32).map(|_| {
                decoder.push(&megabyte)?;
                decoder.push(separator)
            });
            assert_eq!(pushes.collect::<Result<Vec<_>, _>>(), Err(TooLong));
        }
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    b"data: ".as_slice(), b"data", b":", b"x", "ü€😀".as_bytes(), b"\xff", b"\xe2\x82",
                    b"\n", b"\r", b"\r\n", b"\n\n", b": ping\n\n", b"event: y\n", b"{\"a\":1}",
                    "\u{feff}".as_bytes(),
                ]),
                0..40,
            ),
            cuts in prop::collection::vec(1_usize..5, 1..20),
        ) {
            let stream = pieces.concat();
            let mut sizes = cuts.iter().cycle();
            let mut chunks = Vec::new();
            let mut rest = stream.as_slice();
            while !rest.is_empty() {
                let size = rest.len().min(*sizes.next().unwrap());
                let (chunk, more) = rest.split_at(size);
                chunks.push(chunk);
                rest = more;
            }
            prop_assert_eq!(decode(chunks), decode([stream.as_slice()]));
        }
    }
}
