//! What goes before the models of a job, for people to read.

use std::fmt::Write as _;

use cofferdam_types::{Content, Cut, Message, Role, Span, Summariser, ThreadId};

use crate::conversation::Conversation;
use crate::counting::Counting;

/// Parts of a conversation that are listed one by one.
const MOST_PARTS: usize = 200;

/// A shortening of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutMade {
    /// Its event.
    pub seq: u64,
    /// The conversation.
    pub thread: ThreadId,
    /// What was done, in words.
    pub what: String,
    /// About how many tokens its next question would have had, and had then.
    pub tokens: (u64, u64),
}

impl CutMade {
    /// The shortening that an event tells of.
    #[must_use]
    pub fn new(seq: u64, thread: ThreadId, cut: &Cut, tokens: (u64, u64)) -> Self {
        let what = match cut {
            Cut::Pruned { through, .. } => format!("long texts up to #{through} were shortened"),
            Cut::Summarised { span, by, .. } => {
                let by = match by {
                    Summariser::Model => "a model",
                    Summariser::Rule => "rule",
                };
                match span {
                    Span::Messages { through } => format!("summarised up to #{through} by {by}"),
                    Span::Summaries { count } => {
                        format!("the oldest {count} summaries were made one by {by}")
                    }
                }
            }
        };
        Self { seq, thread, what, tokens }
    }
}

/// What the models of a job see now and how it came to be that, as Markdown.
#[must_use]
pub fn describe<'a>(
    job: &str,
    conversations: impl IntoIterator<Item = (ThreadId, Role, &'a Conversation, Counting)>,
    cuts: impl IntoIterator<Item = &'a CutMade>,
) -> String {
    let mut text = format!(
        "# Context of job {job}\n\nWhat its models see, as of the last cut. Written by the \
         product for people to read; nothing reads it back. Numbers (#) are those of events in \
         the job's log, where everything is in full.\n"
    );
    for (id, role, conversation, counting) in conversations {
        let role = match role {
            Role::Orchestrator => "the orchestrator",
            Role::Coder => "a coder",
            Role::Summariser => "the summariser",
        };
        write!(text, "\n## Conversation {id} of {role}\n\n").ok();
        text.push_str(&memory(conversation));
        text.push_str(&parts(conversation, counting));
    }
    let mut cuts = cuts.into_iter().peekable();
    if cuts.peek().is_some() {
        text.push_str("\n## Cuts\n\n| event | conversation | what | tokens before | after |\n");
        text.push_str("| --- | --- | --- | --- | --- |\n");
    }
    for CutMade { seq, thread, what, tokens: (before, after) } in cuts {
        writeln!(text, "| #{seq} | {thread} | {what} | {before} | {after} |").ok();
    }
    text
}

/// The first message: the task, and after a cut what must not be forgotten with the plan
/// and the summaries, each with the events it is from.
fn memory(conversation: &Conversation) -> String {
    let Some(Message::User { content }) = conversation.messages().first() else {
        return String::new();
    };
    let mut text = String::new();
    for part in content {
        if let Content::Text { text: words } = part {
            // Quoted, so that its headings are not ours.
            for line in words.lines() {
                text.push_str(if line.is_empty() { ">" } else { "> " });
                text.push_str(line);
                text.push('\n');
            }
            text.push('\n');
        }
    }
    text
}

fn parts(conversation: &Conversation, counting: Counting) -> String {
    let parts = conversation.parts(counting);
    let mut text = format!("| part | tokens ({counting}) | begins |\n| --- | --- | --- |\n");
    let left_out = parts.len().saturating_sub(MOST_PARTS);
    if left_out > 0 {
        writeln!(text, "| {left_out} earlier parts | | |").ok();
    }
    for part in parts.iter().skip(left_out) {
        let begins = part.begins.replace(['|', '\n'], " ");
        writeln!(text, "| {} | {} | {} |", part.name, part.tokens, begins.trim()).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use cofferdam_types::Block;

    use super::*;

    #[test]
    fn a_cut_conversation_is_told_with_its_sources() {
        let mut conversation = Conversation::new(1, "Build it.\nKeep port 8137.");
        conversation.tell(2, "more | of it");
        conversation.ask();
        conversation.answer(3, vec![Block::Text { text: "begun".to_owned() }]);
        conversation.tell(4, "go on");
        conversation.ask();
        conversation.answer(5, vec![Block::Text { text: "still".to_owned() }]);
        let cut = Cut::Summarised {
            span: Span::Messages { through: 3 },
            summary: "It was begun.".to_owned(),
            by: Summariser::Model,
        };
        conversation.cut(&cut, &[], 4_000);
        let made = CutMade::new(6, ThreadId(0), &cut, (900, 100));
        let told = describe(
            "7",
            [(ThreadId(0), Role::Orchestrator, &conversation, Counting::Estimated)],
            [&made],
        );
        for wanted in [
            "> Keep port 8137.",
            "> ## Summary of #2 to #3",
            "> It was begun.",
            "| #5 model |",
            "summarised up to #3 by a model | 900 | 100 |",
        ] {
            assert!(told.contains(wanted), "{wanted:?} is not in:\n{told}");
        }
        assert!(!told.contains("more | of it"));
    }
}
