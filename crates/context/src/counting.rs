//! Counting the tokens of what is said, where the model's table is at hand.
//!
//! Nothing is counted before somebody asks, and each message once: what was counted is
//! kept beside it. It follows from the words alone, so it is no part of a conversation's
//! state, and no log has it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use cofferdam_tokens::Encoding;
use cofferdam_types::{Block, Content, Message, ModelName};

use crate::conversation::Conversation;
use crate::scale::{BYTES_A_TOKEN, Scale, weight};

/// Bytes of a conversation that are counted at most, the latest. What is older has been
/// counted by the provider, or else is taken to be like this: counting all of a million
/// tokens at once would take longer than anybody should wait.
pub(crate) const MOST_COUNTED: u64 = 512 << 10;

/// How the tokens of a model's text are known before its provider has counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// By the number of bytes, as its provider has counted others before.
    #[default]
    Estimated,
    /// By its own table. What is no text is still estimated: pictures, tools, and what is
    /// sent along with each message.
    Exact(Encoding),
}

impl Counting {
    /// How those of a model are.
    #[must_use]
    pub fn of(model: &ModelName) -> Self {
        Encoding::of(&model.0).map_or(Self::Estimated, Self::Exact)
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Estimated => f.write_str("estimated"),
            Self::Exact(encoding) => write!(f, "exact, by {}", encoding.name()),
        }
    }
}

/// What was counted of a text that stays as it is. All are equal: it says nothing that the
/// text does not.
#[derive(Debug, Default)]
pub(crate) struct Memo(AtomicU64);

/// The lower bits of a memo are the tokens, the upper ones say of which encoding.
const TOKENS: u64 = (1 << 56) - 1;

impl Memo {
    /// The tokens, counted now if they were not yet.
    fn get(&self, encoding: Encoding, count: impl FnOnce() -> u64) -> u64 {
        // Whoever comes at the same time counts the same.
        let known = self.0.load(Ordering::Relaxed);
        if known & !TOKENS == mark(encoding) {
            return known & TOKENS;
        }
        let tokens = count().min(TOKENS);
        self.0.store(mark(encoding) | tokens, Ordering::Relaxed);
        tokens
    }

    /// That of a message that is made of these texts and nothing else.
    pub(crate) fn of_user<'a>(texts: impl Iterator<Item = &'a Self>) -> Self {
        let (mut marks, mut tokens) = (None, frame(crate::scale::FRAME));
        for text in texts {
            let known = text.0.load(Ordering::Relaxed);
            if *marks.get_or_insert(known & !TOKENS) != known & !TOKENS {
                return Self::default();
            }
            tokens += known & TOKENS;
        }
        match marks {
            Some(mark) if mark != 0 => Self(AtomicU64::new(mark | tokens.min(TOKENS))),
            _ => Self::default(),
        }
    }
}

/// Zero is that nothing was counted.
fn mark(encoding: Encoding) -> u64 {
    match encoding {
        Encoding::Cl100k => 1 << 56,
        Encoding::O200k => 2 << 56,
    }
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memo {}

impl Conversation {
    /// How many tokens the latest so many bytes are.
    pub(crate) fn latest(&self, encoding: Encoding, bytes: u64) -> u64 {
        let (counted, tokens) = self.counted_of(encoding, bytes);
        let rest = u128::from(bytes.saturating_sub(counted));
        let rest = (rest * u128::from(tokens)).div_ceil(u128::from(counted.max(1)));
        tokens.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX))
    }

    /// How many tokens bytes of this conversation are, about.
    pub(crate) fn rate(&self, counting: Counting) -> Scale {
        match counting {
            Counting::Estimated => self.scale,
            Counting::Exact(encoding) => {
                let (bytes, tokens) = self.counted_of(encoding, u64::MAX);
                Scale::measured(bytes, tokens)
            }
        }
    }

    /// How many tokens each message is, in their order.
    pub(crate) fn tokens_of_each(&self, counting: Counting) -> Vec<u64> {
        let rate = self.rate(counting);
        let mut later = 0;
        let all = self.messages.iter().zip(&self.entries).rev();
        let mut tokens: Vec<u64> = all
            .map(|(message, entry)| {
                let counted = later < MOST_COUNTED;
                later += entry.weight;
                match counting {
                    Counting::Exact(encoding) if counted => {
                        entry.counted.get(encoding, || tokens_of(encoding, message))
                    }
                    _ => rate.tokens(entry.weight),
                }
            })
            .collect();
        tokens.reverse();
        tokens
    }

    /// How many bytes were counted, the latest first, until there were so many or enough,
    /// and how many tokens they are.
    fn counted_of(&self, encoding: Encoding, most: u64) -> (u64, u64) {
        let most = most.min(MOST_COUNTED);
        let (mut bytes, mut tokens) = (0, 0);
        for (_, text, counted) in self.waiting.iter().rev() {
            if bytes < most {
                bytes += text.len() as u64;
                tokens += counted.get(encoding, || tokens_of_text(encoding, text));
            }
        }
        for (message, entry) in self.messages.iter().zip(&self.entries).rev() {
            if bytes >= most {
                break;
            }
            bytes += entry.weight;
            tokens += entry.counted.get(encoding, || tokens_of(encoding, message));
        }
        (bytes, tokens)
    }
}

/// The tokens of a message.
fn tokens_of(encoding: Encoding, message: &Message) -> u64 {
    let (mut bytes, mut tokens) = (0, 0);
    let mut text = |text: &str| {
        bytes += text.len() as u64;
        tokens += tokens_of_text(encoding, text);
    };
    let mut content = |content: &Content| match content {
        Content::Text { text: words } => text(words),
        Content::Image { .. } => {}
    };
    match message {
        Message::User { content: parts } => parts.iter().for_each(&mut content),
        Message::Tools { results } => {
            results.iter().flat_map(|result| &result.content).for_each(&mut content);
        }
        Message::Model { blocks } => {
            for block in blocks {
                match block {
                    Block::Text { text: words } | Block::Thinking { text: words, .. } => {
                        text(words)
                    }
                    Block::ToolCall(call) => {
                        text(&call.name);
                        text(&call.arguments.0);
                    }
                }
            }
        }
    }
    tokens + frame(weight(message).saturating_sub(bytes))
}

/// The tokens of what is no text and weighs as much as so many bytes of it.
fn frame(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_A_TOKEN)
}

fn tokens_of_text(encoding: Encoding, text: &str) -> u64 {
    let most = usize::try_from(MOST_COUNTED).unwrap_or(usize::MAX);
    if text.len() <= most {
        return encoding.count(text);
    }
    // The rest of it is taken to be like its beginning.
    let start = text.split_at(text.floor_char_boundary(most)).0;
    let all = u128::from(encoding.count(start)) * text.len() as u128;
    u64::try_from(all.div_ceil(start.len() as u128)).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "counting_tests.rs"]
mod tests;
