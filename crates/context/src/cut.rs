//! Making a conversation shorter, and what is needed for that.

use std::collections::BTreeSet;

use cofferdam_types::{Content, Cut, Message, PlanStep, Span};

use crate::conversation::{Conversation, Entry, Pressure, Summary};
use crate::counting::Memo;
use crate::head::Head;
use crate::room::Room;
use crate::rule;
use crate::scale::weight;
use crate::shorten::{share, shorten};
use crate::transcript;

/// Files that a summary must name at most.
const MOST_NAMES: usize = 12;

/// So often what is remembered is made shorter to have a cut shorten the whole.
const TRIES: u32 = 4;

impl Conversation {
    /// Shortens the conversation. `pinned`: bytes that the task and facts may take from
    /// here on. Whatever is remembered, the whole becomes shorter.
    pub fn cut(&mut self, cut: &Cut, plan: &[PlanStep], pinned: u64) {
        self.speak();
        match cut {
            Cut::Pruned { through, keep } => {
                self.prune(*through, *keep, pinned);
                let task = self.short_task(pinned);
                if let (Some(Message::User { content }), Some(task)) =
                    (self.messages.first_mut(), task)
                    && let Some(first) = content.first_mut()
                    // More may be pinned than at the last cut; what was cut by then stays so.
                    && matches!(first, Content::Text { text } if text.len() > task.len())
                {
                    *first = Content::text(task);
                    self.recount(0);
                }
                self.pressure = Pressure::Pruned;
                self.weigh();
            }
            Cut::Summarised { span, summary, by } => {
                let (before, replaced) = (self.weight, self.replaced(*span));
                match span {
                    Span::Messages { through } => {
                        let end = self.end_of(*through);
                        let from = self.entries.get(1).map_or(*through, |entry| entry.first);
                        self.messages.drain(1..end);
                        self.entries.drain(1..end);
                        let (text, by) = (summary.clone(), *by);
                        self.summaries.push(Summary { from, through: *through, text, by });
                    }
                    Span::Summaries { count } => {
                        let count = (*count as usize).min(self.summaries.len());
                        let old: Vec<Summary> = self.summaries.drain(..count).collect();
                        let from = old.first().map_or(0, |one| one.from);
                        let through = old.last().map_or(0, |one| one.through);
                        let merged = Summary { from, through, text: summary.clone(), by: *by };
                        self.summaries.insert(0, merged);
                    }
                }
                self.pressure = Pressure::Summarised;
                self.rewrite_head(plan, pinned, before.saturating_sub(replaced / 8));
            }
        }
        self.read = None;
    }

    /// Writes the first message anew, so that all messages together have no more than
    /// `most` bytes.
    fn rewrite_head(&mut self, plan: &[PlanStep], pinned: u64, most: u64) {
        let task = self.short_task(pinned).unwrap_or_else(|| self.opening.1.clone());
        let mut room = pinned.saturating_sub((task.len() as u64).min(pinned / 2));
        let live = self.entries.iter().skip(1).flat_map(|entry| entry.sources.iter().copied());
        let live: BTreeSet<u64> = live.collect();
        for _ in 0..TRIES {
            let head = Head {
                task: &task,
                facts: &self.facts,
                plan,
                summaries: &self.summaries,
                live: &live,
                live_from: self.entries.get(1).map_or(u64::MAX, |entry| entry.first),
                room: usize::try_from(room).unwrap_or(usize::MAX),
            };
            let (head, facts) = head.message();
            if let Some(first) = self.messages.first_mut() {
                *first = head;
            }
            self.recount(0);
            self.weigh();
            match self.weight.checked_sub(most) {
                None | Some(0) => return,
                Some(over) => room = facts.min(room).saturating_sub(over),
            }
        }
    }

    /// The task as it is where it may have no more than its part of `pinned`; `None` if it
    /// is short enough.
    pub(crate) fn short_task(&self, pinned: u64) -> Option<String> {
        let (seq, task) = &self.opening;
        shorten(task, pinned / 2, *seq)
    }

    /// Forgets what was counted of a message that is another one now.
    pub(crate) fn recount(&mut self, place: usize) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.counted = Memo::default();
        }
    }

    fn weigh(&mut self) {
        for (message, entry) in self.messages.iter().zip(&mut self.entries) {
            entry.weight = weight(message);
        }
        self.weight = self.entries.iter().map(|entry| entry.weight).sum();
    }

    /// Bytes that the task and facts may take in such a room.
    #[must_use]
    pub fn pinned(&self, room: Room) -> u64 {
        self.rate(room.counting).bytes(self.fitting(room).pinned())
    }

    /// How many bytes a part has.
    #[must_use]
    pub fn replaced(&self, span: Span) -> u64 {
        match span {
            Span::Messages { through } => self.part(through).map(|(_, entry)| entry.weight).sum(),
            Span::Summaries { count } => {
                self.first_summaries(count).iter().map(|one| one.text.len() as u64).sum()
            }
        }
    }

    /// What a summariser is given of a part. Each further attempt shows it less, in case
    /// that was too much.
    #[must_use]
    pub fn to_summarise(&self, span: Span, room: Room, attempt: u32) -> String {
        let longest = self.rate(room.counting).bytes(room.portion()) / u64::from(attempt.max(1));
        match span {
            Span::Messages { through } => transcript::of_entries(self.part(through), longest),
            Span::Summaries { count } => {
                transcript::of_summaries(self.first_summaries(count), longest)
            }
        }
    }

    /// What a summary of a part must name: the files that were changed there.
    #[must_use]
    pub fn names(&self, span: Span, room: Room) -> Vec<String> {
        let Span::Messages { through } = span else { return Vec::new() };
        let from = self.entries.get(1).map_or(u64::MAX, |entry| entry.first);
        let mut left = self.longest_summary(span, room) / 3;
        let fits = |name: &&str| {
            let rest = left.checked_sub(name.len() as u64);
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let files = self.facts.files_between(from, through);
        files.into_iter().take(MOST_NAMES).take_while(fits).map(str::to_owned).collect()
    }

    /// Bytes that a summary of a part may have.
    #[must_use]
    pub fn longest_summary(&self, span: Span, room: Room) -> u64 {
        self.rate(room.counting).bytes(self.fitting(room).summary()).min(self.replaced(span) / 2)
    }

    /// A summary of a part by rule: always shorter than that.
    #[must_use]
    pub fn rule_summary(&self, span: Span, room: Room) -> String {
        let longest = self.longest_summary(span, room);
        match span {
            Span::Messages { through } => rule::rule_summary(self.part(through), longest),
            Span::Summaries { count } => {
                let part = self.first_summaries(count);
                // Something of each stays, with the end of its last line.
                let each = share(part.iter().map(|one| one.text.len() as u64 + 1), longest);
                let texts = part.iter().map(|one| {
                    let lines: Vec<String> = one.text.lines().map(str::to_owned).collect();
                    rule::latest(&lines, each)
                });
                texts.collect::<String>().trim_end().to_owned()
            }
        }
    }

    fn first_summaries(&self, count: u32) -> &[Summary] {
        self.summaries.get(..count as usize).unwrap_or(&self.summaries)
    }

    fn part(&self, through: u64) -> impl Iterator<Item = (&Message, &Entry)> + Clone {
        self.messages.iter().zip(&self.entries).take(self.end_of(through)).skip(1)
    }

    /// Where what is up to an event ends. Results go with their calls.
    fn end_of(&self, through: u64) -> usize {
        let old = self.entries.iter().skip(1).take_while(|entry| entry.last <= through);
        let rest = self.messages.iter().skip(1 + old.clone().count());
        let results = rest.take_while(|message| matches!(message, Message::Tools { .. }));
        (1 + old.count() + results.count()).min(self.messages.len())
    }
}
