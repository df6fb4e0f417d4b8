//! A part of a conversation as plain text, for whoever summarises it.

use std::fmt::Write as _;

use cofferdam_types::{Block, Content, Message};

use crate::conversation::{Entry, Summary};
use crate::shorten::{NOTICE, share, shorten};

/// Bytes that are shown of one text at most, and at least.
const SHOWN: (u64, u64) = (6_000, 200);

/// The messages as text, with no more than about so many bytes: where they have more, the
/// longest texts are cut.
pub(crate) fn of_entries<'a>(
    entries: impl Iterator<Item = (&'a Message, &'a Entry)> + Clone,
    longest: u64,
) -> String {
    let mut keep = SHOWN.0;
    loop {
        let text = written(entries.clone(), keep);
        if text.len() as u64 <= longest {
            return text;
        }
        if keep <= SHOWN.1 {
            let first = entries.clone().next().map_or(0, |(_, entry)| entry.first);
            return within(text, longest, first);
        }
        keep /= 2;
    }
}

/// Summaries as text.
pub(crate) fn of_summaries(summaries: &[Summary], longest: u64) -> String {
    let keep = share(summaries.iter().map(|one| one.text.len() as u64), longest);
    let mut text = String::new();
    for Summary { from, through, text: words, .. } in summaries {
        let words = cut(words.trim(), keep, *from);
        write!(text, "Summary of #{from} to #{through}:\n{words}\n\n").ok();
    }
    within(text, longest, summaries.first().map_or(0, |one| one.from))
}

/// A text of many short ones, cut in its middle if that is all that helps.
fn within(text: String, longest: u64, seq: u64) -> String {
    if text.len() as u64 <= longest {
        return text;
    }
    shorten(&text, longest.saturating_sub(NOTICE as u64) / 5 * 4, seq).unwrap_or(text)
}

fn written<'a>(entries: impl Iterator<Item = (&'a Message, &'a Entry)>, keep: u64) -> String {
    let mut text = String::new();
    for (message, entry) in entries {
        match message {
            Message::User { content } => {
                for (part, seq) in content.iter().zip(&entry.sources) {
                    write!(text, "#{seq} TOLD: {}\n\n", words(part, keep, *seq)).ok();
                }
            }
            Message::Model { blocks } => {
                let seq = entry.first;
                for block in blocks {
                    match block {
                        Block::Text { text: said } => {
                            write!(text, "#{seq} MODEL: {}\n\n", cut(said, keep, seq)).ok();
                        }
                        // What it thought led to what it said and did.
                        Block::Thinking { .. } => {}
                        Block::ToolCall(call) => {
                            let arguments = cut(&call.arguments.0, keep, seq);
                            write!(text, "#{seq} CALL {}: {arguments}\n\n", call.name).ok();
                        }
                    }
                }
            }
            Message::Tools { results } => {
                for (result, seq) in results.iter().zip(&entry.sources) {
                    let how = if result.failed { "FAILED" } else { "RESULT" };
                    for part in &result.content {
                        write!(text, "#{seq} {how}: {}\n\n", words(part, keep, *seq)).ok();
                    }
                }
            }
        }
    }
    text
}

fn words(content: &Content, keep: u64, seq: u64) -> String {
    match content {
        Content::Text { text } => cut(text, keep, seq),
        Content::Image { .. } => "[a picture]".to_owned(),
    }
}

fn cut(text: &str, keep: u64, seq: u64) -> String {
    shorten(text, keep, seq).unwrap_or_else(|| text.trim_end().to_owned())
}
