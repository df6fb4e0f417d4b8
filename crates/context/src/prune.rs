//! Cutting what is long or was read again.

use std::collections::BTreeMap;

use cofferdam_types::{Content, Message};

use crate::conversation::{Conversation, Entry, Read};
use crate::need::KEPT;
use crate::scale::{weight, weight_of_content};
use crate::shorten::{BY_ID, share, shorten};

/// Bytes that stay of what the user said, however little room there is.
const KEPT_OF_WORDS: u64 = 200;

/// What is cut how far.
struct Pruning<'a> {
    through: u64,
    keep: u64,
    /// Bytes that stay of what the user said.
    keep_said: u64,
    /// The last event in which each file was read whole, and in which each part of it was.
    whole: BTreeMap<&'a str, (u64, u64)>,
    part: BTreeMap<(&'a str, &'a str), (u64, u64)>,
}

impl Conversation {
    /// How many bytes pruning would save.
    pub(crate) fn gain(&self, through: u64, keep: u64, pinned: u64) -> u64 {
        let pruning = self.pruning(through, keep, pinned);
        let all = self.messages.iter().zip(&self.entries).skip(1);
        let shorter = all.filter_map(|(message, entry)| {
            let shorter = self.pruned(message, entry, &pruning)?;
            Some(entry.weight.saturating_sub(weight(&shorter)))
        });
        shorter.sum()
    }

    /// Prunes all messages but the first.
    pub(crate) fn prune(&mut self, through: u64, keep: u64, pinned: u64) {
        let pruning = self.pruning(through, keep, pinned);
        let all = self.messages.iter().zip(&self.entries).enumerate().skip(1);
        let shorter: Vec<(usize, Message)> = all
            .filter_map(|(place, (message, entry))| {
                Some((place, self.pruned(message, entry, &pruning)?))
            })
            .collect();
        for (place, message) in shorter {
            if let Some(longer) = self.messages.get_mut(place) {
                *longer = message;
            }
            self.recount(place);
        }
    }

    fn pruning(&self, through: u64, keep: u64, pinned: u64) -> Pruning<'_> {
        // What the user said stays whole as long as there is room for it.
        let said = self.facts.said.iter().map(|(_, words)| words.len() as u64);
        let keep_said = match keep {
            KEPT.. => keep.max(share(said, pinned / 2)),
            _ => keep.max(KEPT_OF_WORDS),
        };
        let (mut whole, mut part) = (BTreeMap::new(), BTreeMap::new());
        for entry in &self.entries {
            for (seq, read) in entry.sources.iter().zip(&entry.reads) {
                let Some(read) = read else { continue };
                if read.whole {
                    whole.insert(&*read.path, (*seq, read.bytes));
                }
                part.insert((&*read.path, &*read.arguments), (*seq, read.bytes));
            }
        }
        Pruning { through, keep, keep_said, whole, part }
    }

    /// A message as it is when it was pruned; `None` if that makes it no shorter.
    fn pruned(&self, message: &Message, entry: &Entry, pruning: &Pruning<'_>) -> Option<Message> {
        let Pruning { through, keep, keep_said, .. } = *pruning;
        match message {
            Message::User { content } if entry.last <= through => {
                let mut shorter = None;
                for (place, (part, seq)) in content.iter().zip(&entry.sources).enumerate() {
                    let users = self.facts.said.binary_search_by_key(seq, |(said, _)| *said);
                    let keep = if users.is_ok() { keep_said } else { keep };
                    if let Some(part) = shorter_part(part, keep, *seq) {
                        replace(&mut shorter, content, place, part);
                    }
                }
                shorter.map(|content| Message::User { content })
            }
            Message::Tools { results } => {
                let mut shorter = None;
                let sources = entry.sources.iter().zip(&entry.reads);
                for (place, (result, (seq, read))) in results.iter().zip(sources).enumerate() {
                    if *seq > through {
                        continue;
                    }
                    let again = read.as_ref().is_some_and(|read| pruning.superseded(*seq, read));
                    let content = match again {
                        true => read_again(&result.content, *seq),
                        false => shorter_content(&result.content, keep, *seq),
                    };
                    if let Some(content) = content {
                        let mut result = result.clone();
                        result.content = content;
                        replace(&mut shorter, results, place, result);
                    }
                }
                shorter.map(|results| Message::Tools { results })
            }
            Message::User { .. } | Message::Model { .. } => None,
        }
    }
}

impl Pruning<'_> {
    /// Whether the same was read again later.
    fn superseded(&self, seq: u64, read: &Read) -> bool {
        let whole = self.whole.get(&*read.path);
        let part = self.part.get(&(&*read.path, &*read.arguments));
        // What is much shorter than before may not be the file, but words about it.
        let takes_its_place =
            |(later, bytes): &(u64, u64)| *later > seq && bytes.saturating_mul(2) >= read.bytes;
        [whole, part].into_iter().flatten().any(takes_its_place)
    }
}

fn replace<T: Clone>(changed: &mut Option<Vec<T>>, all: &[T], place: usize, with: T) {
    if let Some(old) = changed.get_or_insert_with(|| all.to_vec()).get_mut(place) {
        *old = with;
    }
}

fn read_again(content: &[Content], seq: u64) -> Option<Vec<Content>> {
    let text = format!("[left out: read again below; {BY_ID}{seq} has what was here]");
    let text = Content::text(text);
    let shorter = weight_of_content(&text) < content.iter().map(weight_of_content).sum();
    shorter.then(|| vec![text])
}

fn shorter_content(content: &[Content], keep: u64, seq: u64) -> Option<Vec<Content>> {
    let mut shorter = None;
    for (place, part) in content.iter().enumerate() {
        if let Some(part) = shorter_part(part, keep, seq) {
            replace(&mut shorter, content, place, part);
        }
    }
    shorter
}

fn shorter_part(part: &Content, keep: u64, seq: u64) -> Option<Content> {
    match part {
        Content::Text { text } => shorten(text, keep, seq).map(Content::text),
        Content::Image { .. } => Some(Content::text(format!("[a picture; {BY_ID}{seq} has it]"))),
    }
}
