//! `--json`: one event a line, the last one telling how it ended.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use cofferdam_sandbox::Isolation;
use cofferdam_types::{Outcome, SandboxId};
use serde::Serialize;

use crate::problem::Problem;

/// The version of the events.
const VERSION: u32 = 1;

/// What happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// The sandbox is there.
    Opened { version: u32, sandbox: SandboxId, isolation: &'a Isolation },
    /// Output of the command.
    Stdout(Piece),
    /// Output of the command.
    Stderr(Piece),
    /// Bytes that were dropped at this place.
    StdoutDropped { bytes: u64 },
    /// Bytes that were dropped at this place.
    StderrDropped { bytes: u64 },
    /// The last event: the command has ended.
    Ended {
        #[serde(flatten)]
        outcome: &'a Outcome,
        duration_us: u64,
        cpu_us: u64,
        peak_memory: u64,
        stdout_bytes: u64,
        stderr_bytes: u64,
        truncated: bool,
        left_running: u32,
    },
    /// The last event: it did not come to that.
    Failed {
        #[serde(flatten)]
        problem: &'a Problem,
    },
}

impl<'a> Event<'a> {
    pub(crate) fn opened(sandbox: SandboxId, isolation: &'a Isolation) -> Self {
        Self::Opened { version: VERSION, sandbox, isolation }
    }

    /// The event as a line.
    pub(crate) fn line(&self) -> Bytes {
        let mut line = serde_json::to_vec(self).unwrap_or_else(|error| {
            // Every event has a JSON form; a reader still gets a line of JSON.
            format!(r#"{{"event":"failed","cause":{:?}}}"#, error.to_string()).into_bytes()
        });
        line.push(b'\n');
        line.into()
    }
}

/// Bytes as JSON: text where they are text, else base64; none is lost.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Piece {
    Text(String),
    Base64(String),
}

/// Cuts a stream into pieces that do not end within a character.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    held: BytesMut,
}

impl Cutter {
    /// Takes bytes in, and gives out what can be given.
    pub(crate) fn push(&mut self, bytes: &Bytes) -> Option<Piece> {
        self.held.extend_from_slice(bytes);
        let keep = unfinished(&self.held);
        let piece = self.held.split_to(self.held.len() - keep);
        (!piece.is_empty()).then(|| Piece::of(&piece))
    }

    /// Gives out the rest.
    pub(crate) fn finish(&mut self) -> Option<Piece> {
        let rest = self.held.split();
        (!rest.is_empty()).then(|| Piece::of(&rest))
    }
}

impl Piece {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }
}

/// How many bytes at the end may be the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => 0,
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        Err(_) => {
            // Not text as a whole; look at the last character alone.
            let tail = bytes.len().saturating_sub(3);
            let tail = bytes.get(tail..).unwrap_or_default();
            (1..=tail.len())
                .find(|length| {
                    let end = tail.get(tail.len() - length..).unwrap_or_default();
                    std::str::from_utf8(end)
                        .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
                })
                .unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], size: usize) -> Vec<u8> {
        let mut cutter = Cutter::default();
        let mut pieces: Vec<Piece> = bytes
            .chunks(size)
            .filter_map(|chunk| cutter.push(&Bytes::copy_from_slice(chunk)))
            .collect();
        pieces.extend(cutter.finish());
        let bytes = pieces.into_iter().map(|piece| match piece {
            Piece::Text(text) => text.into_bytes(),
            Piece::Base64(text) => STANDARD.decode(text).unwrap(),
        });
        bytes.collect::<Vec<_>>().concat()
    }

    #[test]
    fn no_byte_is_lost_in_any_cut() {
        let mut bytes: Vec<u8> = (0..=255).collect();
        bytes.extend("größer 漢字 💩".as_bytes());
        bytes.extend([0xc0, 0x80, 0xed, 0xa0, 0x80, 0xf5, 0xff, 0xf0, 0x9f]);
        for size in 1..bytes.len() {
            assert_eq!(cut(&bytes, size), bytes, "cut at {size}");
        }
    }

    #[test]
    fn text_stays_text_in_any_cut() {
        let text = "größer 漢字 💩\n".repeat(3);
        for size in 1..text.len() {
            let mut cutter = Cutter::default();
            for chunk in text.as_bytes().chunks(size) {
                if let Some(piece) = cutter.push(&Bytes::copy_from_slice(chunk)) {
                    assert!(matches!(piece, Piece::Text(_)), "cut at {size}");
                }
            }
            assert_eq!(cutter.finish(), None);
        }
    }

    #[test]
    fn events_are_lines_of_json() {
        let outcome = Outcome::Exited { exit_code: 3 };
        let ended = Event::Ended {
            outcome: &outcome,
            duration_us: 1,
            cpu_us: 2,
            peak_memory: 3,
            stdout_bytes: 4,
            stderr_bytes: 5,
            truncated: false,
            left_running: 0,
        };
        insta::assert_snapshot!(
            String::from_utf8_lossy(&ended.line()).trim_end(),
            @r#"{"event":"ended","outcome":"exited","exit_code":3,"duration_us":1,"cpu_us":2,"peak_memory":3,"stdout_bytes":4,"stderr_bytes":5,"truncated":false,"left_running":0}"#
        );
        let piece = Event::Stdout(Piece::of(b"\xff"));
        assert_eq!(&piece.line()[..], b"{\"event\":\"stdout\",\"base64\":\"/w==\"}\n");
    }
}
