//! What has to be done before a model is asked, the cheapest first.

use cofferdam_types::{Content, Message, Span};

use crate::conversation::{Conversation, Pressure};
use crate::room::{Need, Room};

/// Bytes that stay of a text that is no longer recent.
pub(crate) const KEPT: u64 = 1_600;

/// Bytes that stay of a text where there is hardly any room.
const KEPT_IN_NEED: [u64; 5] = [8_000, 2_000, 600, 200, 0];

/// Bytes that a part has at least: what takes its place has some hundred in any case.
const SMALLEST: u64 = 1_500;

impl Conversation {
    /// What has to be done before the model is asked next. Doing it makes the conversation
    /// shorter, so that sooner or later nothing is left to do.
    #[must_use]
    pub fn need(&self, room: Room) -> Need {
        let room = self.fitting(room);
        let begin = match (self.pressure, self.step_done) {
            (Pressure::Summarised, _) => room.target(),
            (Pressure::Pruned, _) | (Pressure::None, true) => room.at_a_step(),
            (Pressure::None, false) => room.soft(),
        };
        if self.tokens(room.preface, room.counting) <= room.preface + begin {
            return Need::Nothing;
        }
        self.spoken().first(room)
    }

    /// What is to be done first, where something is.
    fn first(&self, room: Room) -> Need {
        let now = self.tokens(room.preface, room.counting).saturating_sub(room.preface);
        let hard = now > room.hard();
        let recent = self.recent(room);
        // What nobody needs any more, if that is enough: a summary of what is whole is better.
        let goal = match self.pressure {
            Pressure::Summarised => room.target(),
            Pressure::Pruned | Pressure::None => room.at_a_step(),
        };
        let through = self.through(recent);
        let gain = self.gain(through, KEPT, self.pinned(room));
        if gain > 0 && now.saturating_sub(self.rate(room.counting).tokens(gain)) <= goal {
            return Need::Prune { through, keep: KEPT };
        }
        if let Some(count) = self.summaries_to_merge(room) {
            return Need::Summarise { span: Span::Summaries { count } };
        }
        // A cut that hardly shortens it costs more than it saves.
        let span = Span::Messages { through: self.through(self.portion(recent, room)) };
        let replaced = self.replaced(span);
        if replaced >= SMALLEST && self.rate(room.counting).tokens(replaced) >= room.least() {
            return Need::Summarise { span };
        }
        if !hard {
            return Need::Nothing;
        }
        // What was said last is cut as far as it has to be.
        let through = self.through(self.messages.len());
        let long_task = self.has_long_task(self.pinned(room));
        for keep in KEPT_IN_NEED {
            if long_task || self.gain(through, keep, self.pinned(room)) > 0 {
                return Need::Prune { through, keep };
            }
        }
        if replaced >= SMALLEST {
            return Need::Summarise { span };
        }
        if now <= room.usable() {
            return Need::Nothing;
        }
        // The last answer itself is too long.
        let span = Span::Messages { through };
        if self.replaced(span) >= SMALLEST {
            return Need::Summarise { span };
        }
        Need::Hopeless
    }

    /// How many of the oldest summaries are to become one, if they take too much room.
    fn summaries_to_merge(&self, room: Room) -> Option<u32> {
        let lengths = self.summaries.iter().map(|one| one.text.len() as u64);
        if self.rate(room.counting).tokens(lengths.clone().sum()) <= room.summaries() {
            return None;
        }
        let fitting = self.rate(room.counting).bytes(room.portion());
        let mut taken = 0;
        let fits = lengths.take_while(|length| {
            taken += length;
            taken <= fitting
        });
        // The later ones stay as they are.
        let count = fits.count().min(self.summaries.len().div_ceil(2)).max(2);
        match self.summaries.len() {
            // One from a time when there was more room.
            1 => {
                let only = Span::Summaries { count: 1 };
                (self.replaced(only) / 2 > self.longest_summary(only, room)).then_some(1)
            }
            _ => u32::try_from(count).ok(),
        }
    }

    /// Whether the task, as it stands there, is longer than it may be. One that was cut may have
    /// to be cut again: a provider can turn out to read less than was thought.
    fn has_long_task(&self, pinned: u64) -> bool {
        let Some(Message::User { content }) = self.messages.first() else { return false };
        let Some(Content::Text { text }) = content.first() else { return false };
        self.short_task(pinned).is_some_and(|short| short.len() < text.len())
    }

    /// Where what was said lately begins: a message that no result belongs to.
    fn recent(&self, room: Room) -> usize {
        let room = self.rate(room.counting).bytes(room.recent());
        let mut taken = 0;
        let mut start = self.messages.len();
        // The last exchange stays, however long it is.
        let last = self.last_exchange();
        for (place, entry) in self.entries.iter().enumerate().skip(1).rev() {
            taken += entry.weight;
            if taken > room && place < last {
                break;
            }
            start = place;
        }
        let begins = |place: &usize| self.begins(*place);
        (start..self.messages.len()).find(begins).unwrap_or(last).min(last).max(1)
    }

    /// Whether a message can stand after the first one: nothing before it is missing.
    fn begins(&self, place: usize) -> bool {
        let Some(message) = self.messages.get(place) else { return true };
        let last = |place: usize| self.entries.get(place).map_or(0, |entry| entry.last);
        let apart = place == 0 || last(place) > last(place - 1);
        apart && !matches!(message, Message::Tools { .. })
    }

    /// Where the last exchange begins: an answer, its results, and what was said then.
    fn last_exchange(&self) -> usize {
        let mut answers = self.messages.iter().enumerate().skip(1).rev();
        let answer = answers.find(|(_, message)| matches!(message, Message::Model { .. }));
        answer.map_or(1, |(place, _)| place)
    }

    /// How far a summariser can be given it, up to a place.
    fn portion(&self, end: usize, room: Room) -> usize {
        // Each cut is worth it: a summariser that can read less sees long texts cut.
        let portion = self.rate(room.counting).bytes(room.portion().max(room.usable() / 4));
        let (mut taken, mut last) = (0, 1);
        for place in 1..end {
            taken += self.entries.get(place).map_or(0, |entry| entry.weight);
            if !self.begins(place + 1) {
                continue;
            }
            if taken > portion && last > 1 {
                break;
            }
            last = place + 1;
        }
        last
    }

    /// The last event of what is before a place.
    fn through(&self, end: usize) -> u64 {
        end.checked_sub(1).and_then(|last| self.entries.get(last)).map_or(0, |entry| entry.last)
    }
}
