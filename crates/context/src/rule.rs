//! A summary by rule: what takes the place of one that no model could write well.

use cofferdam_types::{Block, Content, Message, ToolCall};

use crate::conversation::Entry;
use crate::shorten::first_line;

/// Characters of one thing that was said or done.
const LINE: usize = 120;

/// A line for each thing that was said or done, the latest as far as `longest` bytes go.
/// Never longer than that.
#[must_use]
pub fn rule_summary<'a>(
    entries: impl Iterator<Item = (&'a Message, &'a Entry)>,
    longest: u64,
) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (message, entry) in entries {
        match message {
            Message::User { content } => {
                for (told, seq) in content.iter().zip(&entry.sources) {
                    let told = text(told).unwrap_or_default();
                    lines.push(format!("#{seq} told: {}", first_line(told, LINE)));
                }
            }
            Message::Model { blocks } => {
                for block in blocks {
                    match block {
                        Block::Text { text } if !text.trim().is_empty() => {
                            lines.push(format!("#{} {}", entry.first, first_line(text, LINE)));
                        }
                        // The plan stands by itself.
                        Block::ToolCall(call) if call.name == "plan" => {}
                        Block::ToolCall(call) => {
                            let what = first_line(&subject(call), LINE);
                            lines.push(format!("#{} {}: {what}", entry.first, call.name));
                        }
                        _ => {}
                    }
                }
            }
            Message::Tools { results } => {
                for (result, seq) in results.iter().zip(&entry.sources) {
                    if result.failed {
                        let why = result.content.iter().find_map(text).unwrap_or_default();
                        lines.push(format!("#{seq} failed: {}", first_line(why, LINE)));
                    }
                }
            }
        }
    }
    latest(&lines, longest)
}

/// What a call is about: what names it, or all of its arguments.
fn subject(call: &ToolCall) -> String {
    let arguments = call.arguments.object().unwrap_or_default();
    let named = ["command", "path", "instruction", "query", "pattern"];
    let named = named.iter().find_map(|name| arguments.get(*name)?.as_str());
    named.unwrap_or(&call.arguments.0).to_owned()
}

/// The last lines, as many as fit, after one that says how many do not.
pub(crate) fn latest(lines: &[String], longest: u64) -> String {
    let longest = usize::try_from(longest).unwrap_or(usize::MAX);
    let left_out = |count: usize| match count {
        0 => String::new(),
        _ => format!("({count} earlier lines are left out)\n"),
    };
    let all: usize = lines.iter().map(|line| line.len() + 1).sum();
    let about_others = if all <= longest { 0 } else { left_out(lines.len()).len() };
    let mut room = longest.saturating_sub(about_others);
    let mut shown = 0;
    for line in lines.iter().rev() {
        let Some(rest) = room.checked_sub(line.len() + 1) else { break };
        room = rest;
        shown += 1;
    }
    let (older, shown) = lines.split_at(lines.len() - shown);
    let mut text = left_out(older.len());
    for line in shown {
        text.push_str(line);
        text.push('\n');
    }
    if text.len() > longest { String::new() } else { text }
}

pub(crate) fn text(content: &Content) -> Option<&str> {
    match content {
        Content::Text { text } => Some(text),
        Content::Image { .. } => None,
    }
}
