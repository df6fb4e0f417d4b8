//! How much a model can read, and what has to be done about it.

use cofferdam_types::Span;

use crate::counting::Counting;

/// Tokens that a summary may always have.
const SHORTEST_SUMMARY: u64 = 128;

/// What a question may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Tokens that the model can take in and give out together.
    pub window: u64,
    /// Tokens that its answer may have.
    pub output: u64,
    /// Tokens of what stands before every conversation: instructions and tools.
    pub preface: u64,
    /// Tokens that whoever summarises can take in at once.
    pub summariser: u64,
    /// How the tokens of a conversation are known.
    pub counting: Counting,
}

/// What has to be done before the next question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it fits.
    Nothing,
    /// Long texts are to be cut, as [`Cut::Pruned`](cofferdam_types::Cut::Pruned) has it.
    Prune {
        /// The last event.
        through: u64,
        /// Bytes that stay of a text.
        keep: u64,
    },
    /// This is to be summarised.
    Summarise {
        /// Which part.
        span: Span,
    },
    /// It does not fit, and nothing is left that could be cut.
    Hopeless,
}

impl Room {
    /// With no more room for a conversation than this.
    pub(crate) fn within(self, most: u64) -> Self {
        let window = self.preface.saturating_add(self.output).saturating_add(most);
        Self { window: self.window.min(window), ..self }
    }

    /// Tokens of a conversation at most.
    pub(crate) fn usable(self) -> u64 {
        self.window.saturating_sub(self.output).saturating_sub(self.preface)
    }

    /// What a conversation must not reach: estimates are not exact.
    pub(crate) fn hard(self) -> u64 {
        share(self.usable(), 88)
    }

    /// From here on it is shortened.
    pub(crate) fn soft(self) -> u64 {
        share(self.usable(), 65)
    }

    /// From here on it is shortened when a step of the plan has just been done.
    pub(crate) fn at_a_step(self) -> u64 {
        share(self.usable(), 45)
    }

    /// What it is shortened to.
    pub(crate) fn target(self) -> u64 {
        share(self.usable(), 30)
    }

    /// What was said lately and stays as it is.
    pub(crate) fn recent(self) -> u64 {
        share(self.usable(), 15)
    }

    /// What the task and pinned facts may take together.
    pub(crate) fn pinned(self) -> u64 {
        share(self.usable(), 18)
    }

    /// What summaries may take together.
    pub(crate) fn summaries(self) -> u64 {
        share(self.usable(), 8)
    }

    /// A part that has less is not worth a summary.
    pub(crate) fn least(self) -> u64 {
        share(self.usable(), 10)
    }

    /// What a summariser can be given at once.
    pub(crate) fn portion(self) -> u64 {
        share(self.summariser, 60)
    }

    /// What a summary may have.
    #[must_use]
    pub fn summary(self) -> u64 {
        let most = share(self.summariser, 10).clamp(SHORTEST_SUMMARY, 4_000);
        share(self.usable(), 3).clamp(SHORTEST_SUMMARY, most)
    }
}

fn share(of: u64, percent: u64) -> u64 {
    of / 100 * percent + of % 100 * percent / 100
}
