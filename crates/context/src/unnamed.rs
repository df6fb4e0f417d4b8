//! What was cut, told to a model that has no tool to look for it: `recall` is not named.
//!
//! Only words of ours change: the lines that say what is missing, and the memory. What a
//! user has written or a tool has shown stays as it is, whatever it says.

use std::borrow::Cow;
use std::collections::BTreeSet;

use cofferdam_types::{Content, Message};

use crate::conversation::Conversation;
use crate::head::{self, BY_NUMBER, BY_WORDS};
use crate::shorten::{self, BY_ID};

/// What stands where the tool was named.
const EVENT: &str = "event ";

impl Conversation {
    /// What goes before a model that cannot recall anything, in its order.
    #[must_use]
    pub fn unnamed_messages(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        for (place, (message, entry)) in messages.iter_mut().zip(&self.entries).enumerate() {
            match message {
                Message::User { content } if place == 0 => self.unname_head(content),
                Message::User { content } => {
                    for (part, seq) in content.iter_mut().zip(&entry.sources) {
                        unname(part, &[*seq].into());
                    }
                }
                Message::Tools { results } => {
                    for (result, seq) in results.iter_mut().zip(&entry.sources) {
                        for part in &mut result.content {
                            unname(part, &[*seq].into());
                        }
                    }
                }
                Message::Model { .. } => {}
            }
        }
        messages
    }

    /// What it began with, cut to about so many bytes, for a model that cannot recall the
    /// rest.
    #[must_use]
    pub fn unnamed_opening_within(&self, keep: u64) -> Cow<'_, str> {
        match self.opening_within(keep) {
            Cow::Owned(cut) => Cow::Owned(without(&cut, &[self.opening.0].into())),
            whole @ Cow::Borrowed(_) => whole,
        }
    }

    fn unname_head(&self, content: &mut [Content]) {
        let mut content = content.iter_mut();
        if let Some(task) = content.next()
            && !matches!(task, Content::Text { text } if *text == self.opening.1)
        {
            unname(task, &[self.opening.0].into());
        }
        if let Some(Content::Text { text }) = content.next() {
            *text = self.unnamed_memory(text);
        }
    }

    fn unnamed_memory(&self, memory: &str) -> String {
        let summaries = head::summaries(&self.summaries);
        let (facts, summaries) = match memory.strip_suffix(summaries.as_str()) {
            Some(facts) => (facts, summaries.as_str()),
            None => (memory, ""),
        };
        let facts = facts.replacen(BY_NUMBER, "", 1);
        let mut under_a_title = false;
        let lines = facts.split_inclusive('\n').map(|line| {
            let earlier = line.starts_with('(') && line.ends_with(&format!("{BY_WORDS})\n"));
            let ours = under_a_title && earlier;
            under_a_title = line.starts_with("## ");
            if ours { Cow::Owned(line.replace(BY_WORDS, "")) } else { Cow::Borrowed(line) }
        });
        let facts: String = lines.collect();
        // What the user said and what was decided stands there, cut like other texts.
        let said = self.facts.said.iter().chain(&self.facts.decisions).map(|(seq, _)| *seq);
        // Whoever summarised may have been shown what was cut before.
        without(&facts, &said.collect()) + &summaries.replace(BY_ID, EVENT)
    }
}

fn unname(part: &mut Content, of: &BTreeSet<u64>) {
    if let Content::Text { text } = part
        && text.contains(BY_ID)
    {
        *text = without(text, of);
    }
}

/// The text without the name of the tool in the lines that say what is missing of one of
/// these events.
fn without(text: &str, of: &BTreeSet<u64>) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let ours = shorten::told_by(line.trim_end_matches('\n')).is_some_and(|id| of.contains(&id));
        if ours { Cow::Owned(line.replace(BY_ID, EVENT)) } else { Cow::Borrowed(line) }
    });
    lines.collect()
}
