//! `read_file`: lines of a file with their numbers, or a picture.
//!
//! Of a large file only a window is held. What a conversation has just been shown
//! is not shown again while it stays the same, except when it is asked for once
//! more: the model may have lost sight of it.

pub(crate) mod kind;
pub(crate) mod source;
mod window;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cofferdam_types::{Content, ThreadId, ToolOutput, ToolSpec, ToolStatus};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::arguments::Arguments;
use crate::encoding::{Encoding, is_binary};
use crate::lines;
use crate::paths;
use crate::tools::{Call, Tools, spec as object};
use crate::trouble::Trouble;
use source::{Part, Source};
use window::WHOLE;

pub(crate) const NAME: &str = "read_file";

/// Lines shown, if nothing else is said, and at most.
const LINES: u64 = 2_000;
const MOST_LINES: u64 = 20_000;

/// The largest picture: what providers take, in base64.
const LARGEST_PICTURE: u64 = 5_000_000 / 4 * 3;

/// Readings that are remembered; beyond that all are forgotten.
const REMEMBERED: usize = 2_000;

pub(crate) fn spec() -> ToolSpec {
    object(
        NAME,
        "Read a text file with line numbers, or look at a PNG or JPEG. Reads kept output too \
         (path \"output:N\" as named where output was cut).",
        json!({
            "path": {"type": "string"},
            "offset": {"type": "integer", "description": "first line, default 1"},
            "limit": {"type": "integer", "description": "lines, default 2000"}
        }),
        &["path"],
    )
}

/// What each conversation was shown.
#[derive(Default)]
pub(crate) struct Reads {
    seen: Mutex<HashMap<Reading, Seen>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Reading {
    thread: ThreadId,
    path: String,
    first: u64,
    limit: u64,
}

struct Seen {
    digest: [u8; 32],
    /// The last answer was that nothing had changed.
    repeated: bool,
}

impl Reads {
    /// Whether the conversation has this text already, and need not be given it.
    fn has(&self, reading: Reading, text: &str) -> bool {
        let digest = Sha256::digest(text.as_bytes()).into();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        let before = seen.insert(reading.clone(), Seen { digest, repeated: false });
        let same = before.is_some_and(|before| before.digest == digest && !before.repeated);
        if same && let Some(now) = seen.get_mut(&reading) {
            now.repeated = true;
        }
        same
    }

    /// Forgets what a conversation was shown: it may have let go of it.
    pub(crate) fn forget(&self, thread: ThreadId) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|reading, _| reading.thread != thread);
    }
}

pub(crate) async fn run(
    tools: &Tools,
    call: &Call<'_>,
    arguments: Arguments<'_>,
) -> Result<ToolOutput, Trouble> {
    let path = arguments.text("path")?;
    let first = arguments.number("offset", 0..=u64::MAX)?.unwrap_or(1).max(1);
    let limit = arguments.number("limit", 1..=MOST_LINES)?.unwrap_or(LINES);
    paths::check(path)?;
    let source = Source::open(tools, path)?;
    let beginning = source.read(0, WHOLE).await?;
    let Part { bytes, size } = &beginning;
    if bytes.is_empty() {
        return Ok(ToolOutput::text(ToolStatus::Done, format!("{path} is empty")));
    }
    let kind = kind::of(bytes);
    if let Some(kind) = kind.filter(|kind| kind::is_picture(kind) && *size <= LARGEST_PICTURE) {
        return picture(path, &source, beginning, kind).await;
    }
    if is_binary(bytes) {
        let kind = kind.unwrap_or("of no kind known here");
        let size = lines::size(*size);
        let text = format!("{path} is no text: {size}, {kind}. Use bash to look into it");
        return Ok(ToolOutput::text(ToolStatus::Done, text));
    }
    let whole = bytes.len() as u64 >= *size;
    if !whole && Encoding::of(bytes).is_wide() {
        let size = lines::size(*size);
        return Err(Trouble::Failed(format!(
            "{path} is UTF-16 of {size}, too much to be shown; convert it: iconv -t UTF-8"
        )));
    }
    let window = if whole {
        window::of_whole(path, bytes, first)?
    } else {
        window::of_large(path, &source, beginning, first).await?
    };
    let text = window.show(limit);
    let plain = paths::plain(path).unwrap_or_else(|| path.to_owned());
    let reading = Reading { thread: call.thread, path: plain, first, limit };
    if tools.reads.has(reading, &text) {
        let text = format!("{path}: unchanged since you read it; the text you have is current");
        return Ok(ToolOutput::text(ToolStatus::Done, text));
    }
    Ok(ToolOutput::text(ToolStatus::Done, text))
}

async fn picture(
    path: &str,
    source: &Source,
    beginning: Part,
    kind: &str,
) -> Result<ToolOutput, Trouble> {
    let mut bytes: Bytes = beginning.bytes;
    if (bytes.len() as u64) < beginning.size {
        bytes = source.read(0, LARGEST_PICTURE).await?.bytes;
    }
    let size = lines::size(bytes.len() as u64);
    let image = Content::Image { media_type: kind.to_owned(), data: STANDARD.encode(&bytes) };
    let content = vec![Content::text(format!("{path}: {kind}, {size}")), image];
    Ok(ToolOutput { content, ..ToolOutput::text(ToolStatus::Done, "") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_given_again_only_when_it_is_asked_for_a_third_time() {
        let reads = Reads::default();
        let reading = |thread, first| Reading {
            thread: ThreadId(thread),
            path: "a".to_owned(),
            first,
            limit: 9,
        };
        assert!(!reads.has(reading(0, 1), "text"));
        assert!(reads.has(reading(0, 1), "text"));
        assert!(!reads.has(reading(0, 1), "text"), "it was asked for once more");
        assert!(!reads.has(reading(0, 2), "text"), "another range");
        assert!(!reads.has(reading(1, 1), "text"), "another conversation");
        assert!(!reads.has(reading(0, 1), "changed"));
    }
}
