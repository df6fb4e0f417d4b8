//! The first message after a cut: the task, what must not be forgotten, and the
//! summaries of what was cut.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cofferdam_types::{Content, Message, PlanStep, StepStatus, ToolStatus};

use crate::conversation::Summary;
use crate::done::{self, Groups, Item};
use crate::facts::Facts;
use crate::shorten::{first_line, one_line, share, shorten};

/// Characters of a deed that are shown.
const DEED: usize = 160;

/// Where there is less room than this for each line, the oldest are only counted.
const SHORTEST_LINE: u64 = 100;

/// So much of the room, in percent, is kept for what was done, and for what went wrong:
/// neither is ever crowded out.
const DONE: usize = 25;
const OPEN: usize = 12;

/// So much of the room for what went wrong, in percent, is for what did so long ago.
const BEFORE: usize = 25;
const FAILED_BEFORE: &str = "Went wrong at an earlier time, and may have gone well since";

/// How what was cut is found again.
pub(crate) const BY_NUMBER: &str =
    ": `recall` with that id shows it in full, `recall` with words or a file finds others";
pub(crate) const BY_WORDS: &str = ": `recall` with words or a file finds them";

/// What the first message is made of.
pub(crate) struct Head<'a> {
    /// The task, cut to what it may take.
    pub(crate) task: &'a str,
    pub(crate) facts: &'a Facts,
    pub(crate) plan: &'a [PlanStep],
    pub(crate) summaries: &'a [Summary],
    /// Events whose words are still before the model, and the first of them: what was done
    /// since then can be seen there.
    pub(crate) live: &'a BTreeSet<u64>,
    pub(crate) live_from: u64,
    /// Bytes that facts may take.
    pub(crate) room: usize,
}

impl Head<'_> {
    /// The message, and how many bytes of it are facts.
    pub(crate) fn message(&self) -> (Message, u64) {
        let (memory, facts) = self.memory();
        let content = vec![Content::text(self.task), Content::text(memory)];
        (Message::User { content }, facts as u64)
    }

    fn memory(&self) -> (String, usize) {
        let mut text = format!(
            "<memory>\nEarlier parts of this conversation were cut to save room. This is what \
             they came to. Each number (#) is an event{BY_NUMBER}. What is listed as done is \
             done; do not do it again.\n",
        );
        // Least of all may the user's words be missing: they come first. What went wrong and
        // what was done get what the others leave, and their shares in any case.
        let for_done = self.done(self.room).len().min(self.room / 100 * DONE);
        let for_open = self.open(self.room).len().min(self.room / 100 * OPEN);
        let (mut left, mut facts) = (self.room - for_done - for_open, 0);
        for (part, percent, share) in [
            (Self::said as fn(&Self, usize) -> String, 50, 0),
            (Self::plan, 40, 0),
            (Self::decisions, 60, 0),
            (Self::open, 50, for_open),
            (Self::done, 100, for_done),
        ] {
            let part = part(self, left * percent / 100 + share);
            left = (left + share).saturating_sub(part.len());
            facts += part.len();
            text.push_str(&part);
        }
        text.push_str(&summaries(self.summaries));
        (text, facts)
    }

    fn said(&self, room: usize) -> String {
        let gone = self.facts.said.iter().filter(|(seq, _)| !self.live.contains(seq));
        let lines = gone.map(|(seq, words)| Line { seq: Some(*seq), mark: "", words });
        section("What the user has said since", &lines.collect::<Vec<_>>(), 0, room)
    }

    fn plan(&self, room: usize) -> String {
        let lines = self.plan.iter().map(|step| {
            let mark = match step.status {
                StepStatus::Pending => "[ ] ",
                StepStatus::InProgress => "[>] ",
                StepStatus::Completed => "[x] ",
            };
            Line { seq: None, mark, words: &step.step }
        });
        section("The plan", &lines.collect::<Vec<_>>(), 0, room)
    }

    fn decisions(&self, room: usize) -> String {
        let gone = self.facts.decisions.iter().filter(|(seq, _)| *seq < self.live_from);
        let lines = gone.map(|(seq, words)| Line { seq: Some(*seq), mark: "", words });
        section("Decided", &lines.collect::<Vec<_>>(), self.facts.older_decisions, room)
    }

    fn open(&self, room: usize) -> String {
        let mut failed = self.facts.open_failures();
        failed.retain(|(_, deed)| deed.seq < self.live_from);
        let failed = failed.iter().map(|(what, deed)| {
            let how = match deed.status {
                ToolStatus::Failed => "failed",
                ToolStatus::Cancelled => "stopped before its end",
                _ => "how it ended is not known",
            };
            Item::deed(what, deed.seq, format!("{}: {how}", first_line(what, DEED)))
        });
        let checks = self.facts.failed_checks.iter();
        let checks = checks.flat_map(|(seq, lines)| lines.iter().map(|line| (*seq, line)));
        let checks = checks.map(|(seq, line)| {
            Item::deed(&format!("check {line}"), seq, format!("check {}", one_line(line, DEED)))
        });
        let items = failed.chain(checks).collect();
        // Of what is no longer known one by one nobody knows how it went since.
        let before = &self.facts.failed_before;
        let before = done::section(FAILED_BEFORE, Vec::new(), before, room / 100 * BEFORE);
        let room = room - before.len();
        done::section("Went wrong when last run", items, &Groups::default(), room) + &before
    }

    fn done(&self, room: usize) -> String {
        done::section("Done", self.deeds(), &self.facts.done_before, room)
    }

    /// What was done and cannot be seen further down.
    fn deeds(&self) -> Vec<Item> {
        let files = self.facts.files.iter().map(|(path, seq)| Item::file(path, *seq));
        let good = self.facts.deeds.iter().filter(|(_, deed)| deed.status == ToolStatus::Done);
        let deeds = good.map(|(what, deed)| {
            let times =
                if deed.times > 1 { format!(" ({} times)", deed.times) } else { String::new() };
            Item::deed(what, deed.seq, format!("{}{times}", first_line(what, DEED)))
        });
        files.chain(deeds).filter(|item| item.seq < self.live_from).collect()
    }
}

/// The end of the memory.
pub(crate) fn summaries(summaries: &[Summary]) -> String {
    let mut text = String::new();
    for Summary { from, through, text: words, .. } in summaries {
        write!(text, "\n## Summary of #{from} to #{through}\n{}\n", words.trim()).ok();
    }
    text + "</memory>"
}

/// A line of a section.
struct Line<'a> {
    seq: Option<u64>,
    mark: &'static str,
    words: &'a str,
}

impl Line<'_> {
    /// It as text, with its words cut to about so many bytes.
    fn write(&self, keep: u64) -> String {
        let Self { seq, mark, words } = self;
        let id = seq.unwrap_or(0);
        let cut = match seq {
            _ if words.len() as u64 <= keep => None,
            Some(_) if keep > 4 * SHORTEST_LINE => shorten(words, keep - SHORTEST_LINE, id),
            _ => Some(one_line(words, usize::try_from(keep / 4 * 3).unwrap_or(usize::MAX))),
        };
        let words = cut.as_deref().unwrap_or(words);
        match seq {
            Some(seq) => format!("#{seq}: {mark}{words}\n"),
            None => format!("{mark}{words}\n"),
        }
    }

    fn len(&self) -> u64 {
        self.words.len() as u64 + 16
    }
}

/// A part with its title; nothing, if it is empty. Lines are whole if there is room for
/// that; else the long ones are cut, and if even that is too much the oldest are counted
/// with those that are `folded`.
fn section(title: &str, lines: &[Line<'_>], folded: usize, room: usize) -> String {
    let head = head(title, folded);
    let keep = share(lines.iter().map(Line::len), room.saturating_sub(head.len()) as u64);
    if keep < SHORTEST_LINE || lines.is_empty() {
        return latest(title, lines, folded, room);
    }
    let lines = lines.iter().map(|line| line.write(keep.saturating_sub(16)));
    head + &lines.collect::<String>()
}

fn head(title: &str, folded: usize) -> String {
    match folded {
        0 => format!("\n## {title}\n"),
        _ => {
            format!("\n## {title}\n({folded} earlier{BY_WORDS})\n")
        }
    }
}

/// The last lines, as many as there is room for, after one that says how many are not shown.
fn latest(title: &str, lines: &[Line<'_>], folded: usize, room: usize) -> String {
    if lines.is_empty() && folded == 0 {
        return String::new();
    }
    let lines: Vec<String> = lines.iter().map(|line| line.write(2 * SHORTEST_LINE)).collect();
    let all: usize = lines.iter().map(String::len).sum();
    if head(title, folded).len() + all <= room {
        return head(title, folded) + &lines.concat();
    }
    let mut left = room.saturating_sub(head(title, lines.len() + folded).len());
    let fits = |line: &&String| {
        let rest = left.checked_sub(line.len());
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    let shown = lines.iter().rev().take_while(fits).count();
    let (older, shown) = lines.split_at(lines.len() - shown);
    let text = head(title, older.len() + folded) + &shown.concat();
    if text.len() > room { String::new() } else { text }
}
