//! The last thing that is seen of a job: how it ended, what it changed, what it
//! used, and how to go on.
//!
//! What the model says of work that is complete is not here: it is the job's
//! result, which the caller hands on.

use cofferdam_types::{Budget, ChangeKind, Ending, FileChange, JobId, Limit, Spent};

use crate::edits::counts;
use crate::line::{Line, Tone};
use crate::text::{self, count};
use crate::words;

/// Files that are named.
const FILES: usize = 20;

/// A job that has ended.
pub(crate) struct Closing<'a> {
    pub(crate) job: Option<JobId>,
    pub(crate) budget: Option<&'a Budget>,
    pub(crate) checks: usize,
    pub(crate) ending: &'a Ending,
    pub(crate) spent: &'a Spent,
    pub(crate) changes: &'a [FileChange],
    pub(crate) delivery_problem: Option<&'a str>,
}

impl Closing<'_> {
    /// Everything there is to say.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let (tone, sign) = match self.ending {
            Ending::Complete { .. } => (Tone::Good, "✓ "),
            Ending::LimitReached { .. } | Ending::Cancelled { .. } => (Tone::Warning, "– "),
            Ending::Unverified { .. }
            | Ending::Failed { .. }
            | Ending::ModelUnavailable { .. }
            | Ending::SandboxUnavailable { .. } => (Tone::Bad, "✗ "),
        };
        let kept = match self.ending {
            Ending::LimitReached { .. }
            | Ending::ModelUnavailable { .. }
            | Ending::Cancelled { .. }
                if self.delivery_problem.is_none() =>
            {
                " What is done is kept."
            }
            _ => "",
        };
        let sentence = format!("{}{kept}", words::ending(self.ending, self.checks));
        let mut lines = vec![Line::new(0).own(tone, sign).own(Tone::Strong, sentence).wrapped()];
        lines.extend(self.reasons());
        lines.extend(self.files());
        lines.push(Line::below(0).own(Tone::Faint, self.used()));
        let way_on = self.way_on().map(|way| {
            Line::below(0).own(Tone::Plain, "To go on: ").own(Tone::Strong, way).wrapped()
        });
        let name = self.job.map(|job| Line::below(0).own(Tone::Faint, format!("job {job}")));
        lines.extend(way_on.or(name));
        lines.into_iter().map(Line::problem).collect()
    }

    /// What others say of it.
    fn reasons(&self) -> Vec<Line> {
        let said = match self.ending {
            Ending::Unverified { summary } => summary.as_str(),
            Ending::Failed { reason }
            | Ending::ModelUnavailable { reason }
            | Ending::SandboxUnavailable { reason } => reason.as_str(),
            Ending::Complete { .. } | Ending::LimitReached { .. } | Ending::Cancelled { .. } => "",
        };
        let mut lines: Vec<Line> = crate::tame::tame(said)
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| Line::below(0).own(Tone::Plain, line).wrapped())
            .collect();
        // A job that failed for this reason has said so.
        if let Some(problem) = self.delivery_problem.filter(|problem| !said.contains(problem)) {
            let line = Line::below(0).own(Tone::Bad, "Not handed over: ");
            lines.push(line.foreign(Tone::Plain, problem).wrapped());
        }
        lines
    }

    fn files(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = self.changes.iter().take(FILES).map(file).collect();
        if let Some(hidden @ 1..) = self.changes.len().checked_sub(FILES) {
            let more = format!("… {}", count(hidden as u64, "more file"));
            lines.push(Line::below(0).own(Tone::Faint, more));
        }
        // Where the result was lost, what changed is not known.
        let known = !matches!(self.ending, Ending::SandboxUnavailable { .. });
        if lines.is_empty() && known && self.delivery_problem.is_none() {
            lines.push(Line::below(0).own(Tone::Faint, "No file has changed."));
        }
        lines
    }

    fn used(&self) -> String {
        let spent = self.spent;
        let mut parts = vec![count(u64::from(spent.turns), "turn"), text::tokens(spent.tokens)];
        if spent.turns > 0 {
            parts.push(text::cost(spent.cost, spent.unpriced));
        }
        parts.push(text::clock(spent.time));
        parts.join(" · ")
    }

    /// The command that takes the job up again, where that makes sense.
    fn way_on(&self) -> Option<String> {
        let job = self.job?;
        let more = match self.ending {
            Ending::Complete { .. } => return None,
            Ending::LimitReached { limit } => self.more(*limit),
            Ending::SandboxUnavailable { .. } => {
                " (`cofferdam doctor` says what is missing)".to_owned()
            }
            Ending::Unverified { .. }
            | Ending::Failed { .. }
            | Ending::ModelUnavailable { .. }
            | Ending::Cancelled { .. } => String::new(),
        };
        Some(format!("cofferdam run --resume {job}{more}"))
    }

    /// An option that allows twice as much of what ran out.
    fn more(&self, limit: Limit) -> String {
        let Some(budget) = self.budget else { return String::new() };
        let option = match limit {
            Limit::Turns => Some(format!("--max-turns {}", budget.turns.saturating_mul(2))),
            Limit::Tokens => {
                budget.tokens.map(|most| format!("--max-tokens {}", most.saturating_mul(2)))
            }
            Limit::Cost => budget.cost.map(|most| {
                let twice = most.times(2).to_string();
                format!("--max-cost {}", twice.trim_start_matches('$'))
            }),
            Limit::Time => budget
                .time
                .map(|most| format!("--timeout {}s", most.as_secs().saturating_mul(2).max(1))),
        };
        option.map_or_else(String::new, |option| format!(" {option}"))
    }
}

/// `M src/main.rs  +3 −1`
fn file(change: &FileChange) -> Line {
    let (tone, sign) = match change.kind {
        ChangeKind::Added => (Tone::Good, "A "),
        ChangeKind::Modified => (Tone::Warning, "M "),
        ChangeKind::Deleted => (Tone::Bad, "D "),
    };
    let line = Line::below(0).own(tone, sign).foreign(Tone::Plain, &change.path);
    let counted = match (change.added, change.removed) {
        (None, None) => "not text".to_owned(),
        (added, removed) => counts(added, removed),
    };
    line.aside(Tone::Faint, &counted)
}
