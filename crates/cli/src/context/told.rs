//! What a model sees, told to people.

use std::fmt::Write as _;

use cofferdam_types::{Block, Content, Message, Role, Summariser, Tokens};
use cofferdam_view::{grouped, tame, tame_line};

use super::look::{Bill, Conversation, CutMade, Kind, Part, Seen, What};

/// Messages that are named one by one, the latest.
const NAMED: usize = 12;

/// Cells of a line about a part.
const WIDTH: usize = 100;

/// How much it is, part by part, and what was cut.
pub(super) fn overview(seen: &Seen<'_>) -> String {
    let mut text = format!("job {}\n", seen.spec.job);
    for thread in &seen.threads {
        text.push_str(&conversation(thread));
    }
    if seen.cuts.is_empty() {
        text.push_str("\nnothing was cut\n");
    } else {
        text.push_str("\ncuts: tokens before and after\n");
    }
    for cut in seen.cuts {
        writeln!(text, "{}", cut_line(cut)).ok();
    }
    text
}

fn conversation(thread: &Conversation<'_>) -> String {
    let mut text = String::new();
    let room = thread.window.saturating_sub(thread.answer);
    let share = (thread.tokens.saturating_mul(100)).checked_div(room).unwrap_or(100);
    writeln!(
        text,
        "\n{} {} · about {} of {} tokens ({share}%), {} kept for the answer",
        role(thread.role),
        tame_line(&thread.model.0),
        grouped(thread.tokens),
        grouped(room),
        grouped(thread.answer),
    )
    .ok();
    if let Some(Tokens { input, cache_read, cache_write, .. }) = thread.counted {
        let read = input + cache_read + cache_write;
        let cached = match cache_read + cache_write {
            0 => "unknown how much of that cached".to_owned(),
            _ => format!("{} of that cached", grouped(cache_read)),
        };
        writeln!(text, "counted by its provider at the last question: {}, {cached}", grouped(read))
            .ok();
    }
    writeln!(text, "tokens of its messages: {}", thread.counting).ok();
    if thread.summarising {
        text.push_str("a part of it is being summarised\n");
    }
    let messages = thread.parts.iter().filter(|part| part.kind == Kind::Message).count();
    let hidden = messages.saturating_sub(NAMED);
    let mut shown = 0;
    for part in &thread.parts {
        if part.kind == Kind::Message {
            shown += 1;
            if shown == 1 {
                let of = |part: &&Part| part.kind == Kind::Message;
                let tokens = thread.parts.iter().filter(of).map(|part| part.tokens).sum();
                let name = format!("recent messages ({messages})");
                writeln!(text, "{}", part_line(tokens, &name, "")).ok();
            }
            if shown <= hidden {
                continue;
            }
            let name = format!("  {}", part.name);
            writeln!(text, "{}", part_line(part.tokens, &name, &part.begins)).ok();
        } else {
            let name = match part.kind {
                Kind::Summary => format!("summary of {}", part.name),
                _ => part.name.clone(),
            };
            writeln!(text, "{}", part_line(part.tokens, &name, &part.begins)).ok();
        }
    }
    if hidden > 0 {
        writeln!(text, "{:>10}    {hidden} earlier ones are in --json", "").ok();
    }
    text
}

fn part_line(tokens: u64, name: &str, begins: &str) -> String {
    let line = format!("{:>10}  {name:<26}  {}", grouped(tokens), tame_line(begins));
    line.chars().take(WIDTH).collect::<String>().trim_end().to_owned()
}

fn cut_line(cut: &CutMade) -> String {
    let CutMade { event, before, after, thread, .. } = cut;
    let what = match &cut.what {
        What::Pruned { through, keep } => {
            format!("texts up to #{through} cut to {} bytes each", grouped(*keep))
        }
        What::Summarised { from, through, summaries, by, bill, .. } => {
            let what = match summaries {
                None => format!("#{from} to #{through} summarised"),
                Some(count) => format!("{count} summaries of #{from} to #{through} made one"),
            };
            format!("{what} {}", by_whom(*by, bill))
        }
    };
    let whose = if thread.0 == 0 { String::new() } else { format!(" (conversation {thread})") };
    format!("#{event:<6} {:>9} → {:<9} {what}{whose}", grouped(*before), grouped(*after))
}

fn by_whom(by: Summariser, bill: &Bill) -> String {
    let model = bill.model.as_ref().map(|name| tame_line(&name.0)).unwrap_or_default();
    let cost = match (bill.cost.nanos(), bill.unpriced) {
        (0, 1..) => "price unknown".to_owned(),
        (_, 0) => bill.cost.to_string(),
        _ => format!("{} and more", bill.cost),
    };
    let tokens = grouped(bill.tokens.total());
    match (by, bill.asked) {
        (Summariser::Rule, 0) => "by rule".to_owned(),
        (Summariser::Rule, asked) => {
            format!("by rule, after {model} was asked {} ({tokens} tokens, {cost})", times(asked))
        }
        (Summariser::Model, 0 | 1) => format!("by {model} ({tokens} tokens, {cost})"),
        (Summariser::Model, asked) => {
            format!("by {model}, asked {} ({tokens} tokens, {cost})", times(asked))
        }
    }
}

fn times(number: u32) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Orchestrator => "orchestrator",
        Role::Coder => "coder",
        Role::Summariser => "summariser",
    }
}

/// The very text that goes before the models.
pub(super) fn text(seen: &Seen<'_>) -> String {
    let mut text = String::new();
    let mut section = |title: &str, words: &str| {
        write!(text, "\n===== {title} =====\n{}\n", tame(words).trim_end()).ok();
    };
    for thread in &seen.threads {
        let whose = role(thread.role);
        section(&format!("{whose}: instructions"), &thread.system);
        for tool in thread.tools.iter() {
            let words = format!("{}\n{}", tool.description, tool.schema);
            section(&format!("{whose}: tool {}", tool.name), &words);
        }
        let own = |part: &&Part| matches!(part.kind, Kind::Task | Kind::Message);
        let parts = thread.parts.iter().filter(own);
        for (message, part) in thread.messages.iter().zip(parts) {
            section(&format!("{whose}: {}", tame_line(&part.name)), &words(message));
        }
    }
    text
}

fn words(message: &Message) -> String {
    let said: Vec<String> = match message {
        Message::User { content } => content.iter().map(shown).collect(),
        Message::Model { blocks } => blocks
            .iter()
            .map(|block| match block {
                Block::Text { text } => text.clone(),
                Block::Thinking { text, .. } => format!("[thought] {text}"),
                Block::ToolCall(call) => format!("[call {}] {}", call.name, call.arguments.0),
            })
            .collect(),
        Message::Tools { results } => {
            results.iter().flat_map(|result| result.content.iter().map(shown)).collect()
        }
    };
    said.join("\n")
}

pub(super) fn shown(content: &Content) -> String {
    match content {
        Content::Text { text } => text.clone(),
        Content::Image { media_type, data } => {
            format!("[a picture: {media_type}, {} bytes of base64]", data.len())
        }
    }
}
