//! The view: what happens in, text out.

use std::time::Duration;

use cofferdam_model::Delta;
use cofferdam_types::{CallId, Event, Record, ThreadId};

use crate::closing::Site;
use crate::line::{Line, Tone, Weight};
use crate::live::Live;
use crate::plain;
use crate::story::Story;
use crate::tame::tame;

/// How a job is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// On a terminal, as it happens.
    Live {
        /// Its width in cells; 0 where it is not known.
        width: u16,
        /// Whether it shows colours and wants them.
        colour: bool,
    },
    /// In lines, without control characters.
    Plain,
    /// Only what goes wrong, and the ending.
    Quiet,
}

/// Something that happens in a job.
#[derive(Clone, Copy, Debug)]
pub enum Happening<'a> {
    /// An event, now durable.
    Record(&'a Record),
    /// A piece of an answer that is still coming.
    Delta {
        /// The conversation.
        thread: ThreadId,
        /// The piece.
        delta: &'a Delta,
    },
    /// Output of a call that still runs. Pieces may be missing.
    Output {
        /// The call.
        call: CallId,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Time has passed.
    Tick,
}

/// What a person sees of a job. It writes nothing itself: every text it returns
/// is to be written, whole and in order.
#[derive(Debug)]
pub struct View {
    story: Story,
    screen: Screen,
}

#[derive(Debug)]
enum Screen {
    Live(Box<Live>),
    Plain,
    Quiet,
}

impl View {
    /// Nothing has been seen yet.
    #[must_use]
    pub fn new(style: Style) -> Self {
        let screen = match style {
            Style::Live { width, colour } => Screen::Live(Box::new(Live::new(width, colour))),
            Style::Plain => Screen::Plain,
            Style::Quiet => Screen::Quiet,
        };
        Self { story: Story::default(), screen }
    }

    /// The job is worked on by a server: that is where it can be taken up again.
    #[must_use]
    pub fn of_a_server(mut self) -> Self {
        self.story.site = Site::Server;
        self
    }

    /// Takes in an event of long ago, of a job that is taken up again: it counts,
    /// and is not shown.
    pub fn remember(&mut self, record: &Record) {
        self.story.hear(Duration::ZERO, record);
    }

    /// What is to be written because of this, so long after the beginning.
    #[must_use]
    pub fn happen(&mut self, now: Duration, happening: Happening<'_>) -> String {
        match happening {
            Happening::Record(record) => self.record(now, record),
            Happening::Delta { thread, delta } => {
                self.story.hear_delta(thread, delta);
                if let Screen::Live(live) = &mut self.screen
                    && !self.story.summarises(thread)
                {
                    live.delta(thread, self.story.depth(thread), delta);
                }
                self.redrawn(now)
            }
            Happening::Output { call: id, bytes } => {
                if let Screen::Live(live) = &mut self.screen
                    && let Some(call) = self.story.running.get_mut(&id)
                {
                    live.output(id, call, bytes);
                }
                self.redrawn(now)
            }
            Happening::Tick => {
                if let Screen::Live(live) = &mut self.screen {
                    live.tick(&mut self.story);
                }
                self.redrawn(now)
            }
        }
    }

    /// What is to be written to say something beside the job.
    #[must_use]
    pub fn say(&mut self, now: Duration, text: &str) -> String {
        let text = tame(text);
        let lines = text.trim().lines().map(|line| Line::new(0).own(Tone::Plain, line).wrapped());
        let lines: Vec<Line> = lines.collect();
        match &mut self.screen {
            Screen::Live(live) => {
                live.lines(lines);
                self.redrawn(now)
            }
            Screen::Plain | Screen::Quiet => plain::text(&lines),
        }
    }

    /// The terminal has another width now.
    pub fn resize(&mut self, width: u16) {
        if let Screen::Live(live) = &mut self.screen {
            live.resize(width);
        }
    }

    /// What is to be written last, however the job ended: the terminal is left
    /// with text alone, the cursor at the beginning of a line.
    #[must_use]
    pub fn end(&mut self) -> String {
        match &mut self.screen {
            Screen::Live(live) => live.end(),
            Screen::Plain | Screen::Quiet => String::new(),
        }
    }

    fn record(&mut self, now: Duration, record: &Record) -> String {
        let heard = self.story.hear(now, record);
        match &mut self.screen {
            Screen::Live(live) => {
                live.hear(&mut self.story, heard);
                self.redrawn(now)
            }
            Screen::Plain => plain::text(&plain::lines(&self.story, heard)),
            Screen::Quiet => {
                let mut lines = plain::lines(&self.story, heard);
                lines.retain(|line| line.weight == Weight::Problem);
                plain::text(&lines)
            }
        }
    }

    fn redrawn(&mut self, now: Duration) -> String {
        match &mut self.screen {
            Screen::Live(live) => live.take(self.story.status(now).as_deref()),
            Screen::Plain | Screen::Quiet => String::new(),
        }
    }
}

/// The report of a job that has ended, from its log alone; nothing if it has not.
#[must_use]
pub fn closing(style: Style, records: &[Record]) -> String {
    let ended = |record: &Record| matches!(record.event, Event::Ended { .. });
    let Some(end) = records.iter().rposition(ended) else { return String::new() };
    let mut view = View::new(style);
    let mut report = String::new();
    for (index, record) in records.iter().enumerate().take(end + 1) {
        if index < end {
            view.remember(record);
        } else {
            report = view.happen(Duration::ZERO, Happening::Record(record));
        }
    }
    report
}
