//! Where a conversation stands.
//!
//! The ids of the demo's own calls say which step they belong to, so nothing has
//! to be remembered, and results of earlier steps are not needed again.

use cofferdam_model::Request;
use cofferdam_types::{Block, Message, ToolCall, ToolResult};

use crate::said::{opening, text};

/// A conversation, as the demo reads it.
pub(super) struct Conversation<'a> {
    request: &'a Request,
}

/// Where a conversation stands.
pub(super) enum Moment<'a> {
    /// The demo has not spoken yet.
    Opening,
    /// These calls of a step have ended.
    After {
        /// The step they belong to.
        mark: Mark,
        /// What became of them.
        outcomes: Vec<Outcome<'a>>,
        /// Whether something was said since.
        spoken_to: bool,
    },
    /// The last answer had no call in it: it was the last word.
    LastWordSaid,
    /// The last answer was another model's.
    Foreign,
}

/// A call with what became of it; no result if none is known.
pub(super) struct Outcome<'a> {
    pub(super) call: &'a ToolCall,
    pub(super) result: Option<&'a ToolResult>,
}

/// What a call's id says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The script.
    pub(super) script: String,
    /// The step.
    pub(super) step: String,
    /// How often the script had to go back by then, counted from 1.
    pub(super) attempt: u32,
}

impl Mark {
    /// The id of one of the step's calls. Providers take letters, digits, `_`
    /// and `-`.
    pub(super) fn id(&self, index: usize) -> String {
        format!("demo-{}-{}-{}-{index}", self.script, self.step, self.attempt)
    }

    fn of(id: &str) -> Option<Self> {
        let mut parts = id.strip_prefix("demo-")?.split('-');
        let mut next = || parts.next();
        let (script, step, attempt) = (next()?, next()?, next()?.parse().ok()?);
        Some(Self { script: script.to_owned(), step: step.to_owned(), attempt })
    }
}

impl<'a> Conversation<'a> {
    pub(super) fn of(request: &'a Request) -> Self {
        Self { request }
    }

    /// What it began with.
    pub(super) fn opening(&self) -> String {
        opening(self.request)
    }

    /// Whether this tool can be called.
    pub(super) fn offers(&self, tool: &str) -> bool {
        self.request.tools.iter().any(|offered| offered.name == tool)
    }

    /// What the last result of a step says; nothing if there is none.
    pub(super) fn heard_from(&self, step: &str) -> String {
        self.results_of(step).last().map(|result| text(&result.content)).unwrap_or_default()
    }

    /// How many results of a step there are.
    pub(super) fn times(&self, step: &str) -> usize {
        self.results_of(step).count()
    }

    fn results_of(&self, step: &str) -> impl Iterator<Item = &'a ToolResult> {
        let results = self.request.messages.iter().filter_map(|message| match message {
            Message::Tools { results } => Some(results),
            _ => None,
        });
        let belongs =
            move |result: &&ToolResult| Mark::of(&result.id).is_some_and(|at| at.step == step);
        results.flatten().filter(belongs)
    }

    /// Where it stands.
    pub(super) fn moment(&self) -> Moment<'a> {
        let messages = &self.request.messages;
        let is_answer = |message: &Message| matches!(message, Message::Model { .. });
        let Some(place) = messages.iter().rposition(is_answer) else { return Moment::Opening };
        let mut since = messages.iter().skip(place);
        let Some(Message::Model { blocks }) = since.next() else { return Moment::Opening };
        let (mut results, mut spoken_to) = (Vec::new(), false);
        for message in since {
            match message {
                Message::Tools { results: more } => results.extend(more),
                Message::User { .. } => spoken_to = true,
                Message::Model { .. } => {}
            }
        }
        let calls = blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        });
        let outcome = |call: &'a ToolCall| {
            let result = results.iter().copied().find(|result| result.id == call.id);
            Outcome { call, result }
        };
        let outcomes: Vec<_> = calls.map(outcome).collect();
        let Some(first) = outcomes.first() else { return Moment::LastWordSaid };
        match Mark::of(&first.call.id) {
            Some(mark) => Moment::After { mark, outcomes, spoken_to },
            None => Moment::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_which_step_it_belongs_to() {
        let mark = Mark { script: "csv".to_owned(), step: "test_again".to_owned(), attempt: 2 };
        assert_eq!(mark.id(1), "demo-csv-test_again-2-1");
        assert_eq!(Mark::of(&mark.id(1)), Some(mark));
        for other in ["", "toolu_01", "demo-", "demo-csv", "demo-csv-test-x-0"] {
            assert_eq!(Mark::of(other), None, "{other}");
        }
    }
}
