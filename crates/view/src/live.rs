//! A job on a terminal: answers as they come, calls while they run, one status
//! line below.
//!
//! A call that is over before the next tick is one line. One that lasts, or
//! prints, is announced; its result goes below it, and names it again if anything
//! else was shown meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use cofferdam_model::Delta;
use cofferdam_types::{Answer, Block, CallId, Event, FailureKind, ThreadId, ToolOutput};

use crate::calls::{call_line, cut_short, is_silent};
use crate::line::{Line, Tone};
use crate::page::{Margin, Page};
use crate::result::{Outcome, output_line};
use crate::story::{Call, Heard, Story};
use crate::tame::Tamer;
use crate::told;

/// A job on a terminal.
#[derive(Debug)]
pub(crate) struct Live {
    page: Page,
    section: Section,
    tamer: Tamer,
    /// What came of each conversation's answer so far.
    coming: BTreeMap<ThreadId, Coming>,
    /// The call that was shown last, with nothing after it.
    floor: Option<CallId>,
}

/// What the end of the page is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Nothing,
    Prose(ThreadId),
    Thinking(ThreadId),
    /// A paragraph that is over.
    Closed,
    Lines,
}

#[derive(Clone, Copy, Debug, Default)]
struct Coming {
    /// Bytes of text.
    text: usize,
    /// Whether any of it can be seen.
    seen: bool,
}

impl Live {
    pub(crate) fn new(width: u16, colour: bool) -> Self {
        Self {
            page: Page::new(width, colour),
            section: Section::Nothing,
            tamer: Tamer::default(),
            coming: BTreeMap::new(),
            floor: None,
        }
    }

    pub(crate) fn resize(&mut self, width: u16) {
        self.page.resize(width);
    }

    /// What is to be written, with the status line up to date.
    pub(crate) fn take(&mut self, status: Option<&str>) -> String {
        match status {
            Some(status) => self.page.draw_status(status),
            None => self.page.erase_status(),
        }
        self.page.take()
    }

    /// The last bytes: nothing is left but text.
    pub(crate) fn end(&mut self) -> String {
        self.close();
        self.take(None)
    }

    pub(crate) fn hear(&mut self, story: &mut Story, heard: Heard<'_>) {
        match heard {
            Heard::Answered { thread, depth, answer } => self.answered(thread, depth, answer),
            Heard::Failed { thread, depth, failure, again, summary } => {
                self.withdraw(thread, depth);
                // That a job which ends waits for no answer goes without saying.
                if again.is_some() || failure.kind != FailureKind::Abandoned {
                    self.lines(told::failure(depth, failure, again, summary));
                }
            }
            Heard::Started(id) => {
                // What a coder does is shown below the call that it is done for.
                if let Some(call) = story.running.get_mut(&id)
                    && call.asked.name == "delegate"
                {
                    self.announce(id, call);
                }
            }
            Heard::Ended { id, call, output, took } => self.ended(id, &call, output, took),
            Heard::Planned { steps } => self.lines(told::plan(steps)),
            Heard::Other(event) => {
                if let Event::ModelAsked { thread, .. } = event {
                    self.coming.remove(thread);
                }
                if matches!(event, Event::Ended { .. }) && self.section == Section::Lines {
                    self.page.gap();
                }
                self.lines(told::event(story, event));
            }
        }
    }

    /// Shows a piece of an answer.
    pub(crate) fn delta(&mut self, thread: ThreadId, depth: usize, delta: &Delta) {
        let (section, text, tone, sign) = match delta {
            Delta::Text(text) => {
                self.coming.entry(thread).or_default().text += text.len();
                (Section::Prose(thread), text, Tone::Plain, "")
            }
            Delta::Thinking(text) => (Section::Thinking(thread), text, Tone::Faint, "┊ "),
            Delta::Sealed(_)
            | Delta::CallBegun { .. }
            | Delta::Arguments { .. }
            | Delta::Used(_)
            | Delta::Stop(_) => return,
        };
        if self.section != section {
            if text.trim().is_empty() {
                return;
            }
            self.open(section);
            self.coming.entry(thread).or_default().seen = true;
        }
        let tamed = self.tamer.text(text);
        self.page.flow(Margin { indent: 2 * depth, sign }, tone, &tamed);
    }

    /// Shows what a call prints.
    pub(crate) fn output(&mut self, id: CallId, call: &mut Call, bytes: &[u8]) {
        call.stream.push(bytes);
        if !call.announced {
            self.announce(id, call);
        }
        if self.floor == Some(id) {
            for line in call.stream.unseen() {
                self.page.line(&output_line(call.depth, &line));
            }
        }
    }

    /// Time has passed: what still runs is announced.
    pub(crate) fn tick(&mut self, story: &mut Story) {
        for (id, call) in &mut story.running {
            if !call.announced {
                self.announce(*id, call);
            }
        }
    }

    /// Shows lines of ours.
    pub(crate) fn lines(&mut self, lines: Vec<Line>) {
        if lines.is_empty() {
            return;
        }
        self.open(Section::Lines);
        self.floor = None;
        for line in lines {
            self.page.line(&line);
        }
    }

    fn answered(&mut self, thread: ThreadId, depth: usize, answer: &Answer) {
        let came = self.coming.get(&thread).copied().unwrap_or_default();
        let text = |block: &Block| match block {
            Block::Text { text } => text.len(),
            Block::Thinking { .. } | Block::ToolCall(_) => 0,
        };
        if came.text == answer.blocks.iter().map(text).sum::<usize>() {
            self.coming.remove(&thread);
            self.close();
        } else {
            // Not all of it was seen as it came: here is what counts.
            self.withdraw(thread, depth);
            self.delta(thread, depth, &Delta::Text(answer.text()));
            self.coming.remove(&thread);
            self.close();
        }
        self.lines(cut_short(depth, answer.stop));
    }

    /// Marks what was seen of an answer that came to nothing.
    fn withdraw(&mut self, thread: ThreadId, depth: usize) {
        self.close();
        if self.coming.remove(&thread).is_some_and(|came| came.seen) {
            // Close below what it speaks of.
            self.section = Section::Lines;
            let line = Line::new(depth).own(Tone::Warning, "↶ ");
            self.lines(vec![line.own(Tone::Faint, "withdrawn: the answer above is not whole")]);
        }
    }

    fn announce(&mut self, id: CallId, call: &mut Call) {
        let width = self.page.width();
        self.lines(vec![call_line((Tone::Faint, "●"), call, "", width)]);
        call.announced = true;
        self.floor = Some(id);
    }

    fn ended(&mut self, id: CallId, call: &Call, output: &ToolOutput, took: Duration) {
        if is_silent(call, output.status) {
            return;
        }
        let outcome = Outcome::of(call, output, took);
        if self.floor == Some(id) {
            let (tone, sign) = outcome.mark;
            let result = Line::below(call.depth).own(tone, format!("{sign} "));
            let aside = if tone == Tone::Bad { Tone::Bad } else { Tone::Faint };
            self.lines(outcome.body);
            self.lines(vec![result.own(aside, outcome.aside)]);
        } else {
            let width = self.page.width();
            self.lines(vec![call_line(outcome.mark, call, &outcome.aside, width)]);
            self.lines(outcome.body);
        }
    }

    /// Begins a section, with a gap between what is said and what is done.
    fn open(&mut self, section: Section) {
        if self.section == section {
            return;
        }
        let first = self.section == Section::Nothing;
        self.close();
        if !first {
            self.page.gap();
        }
        self.section = section;
        self.floor = None;
    }

    /// Ends a paragraph.
    fn close(&mut self) {
        if let Section::Prose(_) | Section::Thinking(_) = self.section {
            let rest = self.tamer.finish();
            self.page.flow(Margin { indent: 0, sign: "" }, Tone::Plain, &rest);
            self.tamer = Tamer::default();
            self.section = Section::Closed;
        }
        self.page.end_line();
    }
}
