//! The last thing that is seen of a job: how it ended, what it changed, what it
//! used, and how to go on.
//!
//! What the model says of work that is complete is not here: it is the job's
//! result, which the caller hands on.

use cofferdam_types::{Budget, Cancel, ChangeKind, Ending, FileChange, JobId, Limit, Spent, Usd};

use crate::edits::counts;
use crate::line::{Line, Tone};
use crate::text::{self, count};
use crate::words;

/// Files that are named.
const FILES: usize = 20;

/// What the list of changed files speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    SinceTheBeginning,
    /// A process that was there before may have changed more.
    SinceTakenUp,
    /// Something was noted while the files were compared and handed over, so the
    /// list may lack some.
    Incompletely,
}

/// Where a job is worked on, and so how it is taken up again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Site {
    #[default]
    Here,
    Server,
}

/// A job that has ended.
pub(crate) struct Closing<'a> {
    pub(crate) site: Site,
    pub(crate) job: Option<JobId>,
    pub(crate) budget: Option<&'a Budget>,
    pub(crate) checks: usize,
    pub(crate) ending: &'a Ending,
    pub(crate) spent: &'a Spent,
    pub(crate) changes: &'a [FileChange],
    pub(crate) listed: Listed,
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
        lines.extend(self.last_lines());
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
            let none = match self.listed {
                Listed::SinceTheBeginning => Some("No file has changed."),
                Listed::SinceTakenUp => Some("No file has changed since it was taken up again."),
                Listed::Incompletely => None,
            };
            lines.extend(none.map(|none| Line::below(0).own(Tone::Faint, none)));
        }
        lines
    }

    fn used(&self) -> String {
        let spent = self.spent;
        let mut parts =
            vec![count(u64::from(spent.turns), "turn"), text::tokens_in_all(spent.tokens)];
        parts.extend(text::cost(spent));
        parts.push(text::clock(spent.time));
        parts.join(" · ")
    }

    /// How to go on, or at least the job's name.
    fn last_lines(&self) -> Vec<Line> {
        let way = |when: &str, way: &str| {
            Line::below(0).own(Tone::Plain, when).own(Tone::Strong, way).wrapped()
        };
        match (self.way_on(), self.ending) {
            // Whoever stops a job by hand mostly goes on with the same.
            (Some(resume), Ending::Cancelled { by: Cancel::User }) => {
                let last = match self.site {
                    Site::Here => "cofferdam run --last",
                    Site::Server => "cofferdam resume --last",
                };
                vec![way("To go on: ", last), way("or later: ", &resume)]
            }
            (Some(resume), _) => vec![way("To go on: ", &resume)],
            (None, _) => {
                let name = |job| Line::below(0).own(Tone::Faint, format!("job {job}"));
                self.job.map(name).into_iter().collect()
            }
        }
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
        let verb = match self.site {
            Site::Here => "run --resume",
            Site::Server => "resume",
        };
        Some(format!("cofferdam {verb} {job}{more}"))
    }

    /// An option that allows twice as much of what ran out, or of what was used
    /// if that is more: the first answer may use ten times a small limit. Where
    /// that is nothing, how much is for the user to say.
    fn more(&self, limit: Limit) -> String {
        let Some(budget) = self.budget else { return String::new() };
        let option = match limit {
            Limit::Turns => {
                let twice = u64::from(budget.turns.max(self.spent.turns)) * 2;
                Some(amount("--max-turns", twice, "N"))
            }
            Limit::Tokens => budget.tokens.map(|most| {
                let twice = most.max(self.spent.tokens.total()).saturating_mul(2);
                amount("--max-tokens", twice, "N")
            }),
            Limit::Cost => budget.cost.map(|most| match most.max(self.spent.cost).times(2) {
                Usd::ZERO => "--max-cost USD".to_owned(),
                twice => format!("--max-cost {}", twice.to_string().trim_start_matches('$')),
            }),
            Limit::Time => budget.time.map(|most| {
                let twice = most.max(self.spent.time).as_secs().saturating_mul(2).max(1);
                format!("--timeout {twice}s")
            }),
        };
        option.map_or_else(String::new, |option| format!(" {option}"))
    }
}

/// An option with a number, or with a word in its place where that is nothing.
fn amount(option: &str, number: u64, word: &str) -> String {
    match number {
        0 => format!("{option} {word}"),
        number => format!("{option} {number}"),
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
