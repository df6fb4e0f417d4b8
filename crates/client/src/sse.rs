//! Server-sent events, decoded as their bytes come. The events do not depend on
//! how the bytes were cut into pieces.

use std::collections::VecDeque;

/// Bytes that one event may have, and so one line.
const LONGEST: usize = 64 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The last id that was told, here or before.
    pub(crate) id: Option<String>,
    /// Its kind, if it has one.
    pub(crate) kind: Option<String>,
    /// Its data.
    pub(crate) data: String,
}

/// Why a stream cannot be decoded any further.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    #[error("an event is longer than 64 MiB")]
    TooLong,
    #[error("an event is not UTF-8")]
    NotText,
}

/// Decodes one stream.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The line so far.
    line: Vec<u8>,
    /// The data of the event so far, and whether it has any.
    data: Option<String>,
    kind: Option<String>,
    id: Option<String>,
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
    /// When an event gets too long or is no text; nothing can be decoded after it.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), SseError> {
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
            self.end_line()?;
            rest = ending.get(1..).unwrap_or_default();
        }
        Ok(())
    }

    /// The next event, if one is whole.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn extend(&mut self, more: &[u8]) -> Result<(), SseError> {
        let length = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if length.saturating_add(more.len()) > LONGEST {
            return Err(SseError::TooLong);
        }
        self.line.extend_from_slice(more);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), SseError> {
        let bytes = std::mem::take(&mut self.line);
        let line = String::from_utf8(bytes).map_err(|_| SseError::NotText)?;
        let mut line = line.as_str();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            self.end_event();
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => self.kind = Some(value.to_owned()),
            // By the standard an id with a null in it is none.
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // Comments are signs of life; how long to wait is ours to decide.
            _ => {}
        }
        Ok(())
    }

    fn end_event(&mut self) {
        let kind = self.kind.take().filter(|kind| !kind.is_empty());
        let Some(data) = self.data.take() else { return };
        self.events.push_back(Event { id: self.id.clone(), kind, data });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<Event>, Result<(), SseError>) {
        let mut decoder = Decoder::default();
        let pushed = chunks.into_iter().try_for_each(|chunk| decoder.push(chunk));
        (std::iter::from_fn(|| decoder.next()).collect(), pushed)
    }

    fn check(stream: &[u8], expected: &[(Option<&str>, Option<&str>, &str)]) {
        let (events, pushed) = decode([stream]);
        pushed.unwrap();
        let events: Vec<_> = events
            .iter()
            .map(|event| (event.id.as_deref(), event.kind.as_deref(), event.data.as_str()))
            .collect();
        assert_eq!(events, expected, "{}", String::from_utf8_lossy(stream));
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        check(b"data: a\n\ndata:b\n\n", &[(None, None, "a"), (None, None, "b")]);
        check(
            b"event: x\r\nid: 1\r\ndata: a\r\ndata:  b\r\n\r\ndata: c\n\n",
            &[(Some("1"), Some("x"), "a\n b"), (Some("1"), None, "c")],
        );
        check(b"data: a\r\rdata\r\r", &[(None, None, "a"), (None, None, "")]);
        check("\u{feff}id:7\ndata: a\n\n".as_bytes(), &[(Some("7"), None, "a")]);
        check(b": comment\n\nevent: x\n\ndatum: a\nretry: 3\n\n\n", &[]);
    }

    #[test]
    fn an_event_that_is_not_ended_is_none() {
        check(b"data: a\n\ndata: b\n", &[(None, None, "a")]);
        check(b"data: a", &[]);
    }

    #[test]
    fn an_event_without_end_is_refused_and_not_collected() {
        let megabyte = vec![b'x'; 1 << 20];
        for separator in [b"".as_slice(), b"\ndata: "] {
            let mut decoder = Decoder::default();
            decoder.push(b"data: ").unwrap();
            let pushes = (0..128).map(|_| {
                decoder.push(&megabyte)?;
                decoder.push(separator)
            });
            assert_eq!(pushes.collect::<Result<Vec<_>, _>>(), Err(SseError::TooLong));
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert_eq!(decode([b"data: \xff\n\n".as_slice()]).1, Err(SseError::NotText));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    b"data: ".as_slice(), b"data", b":", b"x", "ü€😀".as_bytes(), b"id: 4",
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
