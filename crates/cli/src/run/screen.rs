//! What is shown of a job, and where: records as JSON on stdout, or a view of
//! them on stderr with the last word on stdout.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_runtime::Notice;
use cofferdam_types::{Ending, Event, Record};
use cofferdam_view::{Happening, Style, View};
use rustix::termios::{isatty, tcgetwinsize};
use tokio::time::Instant;

use crate::problem::Problem;
use crate::streams::Writer;

/// How often the status line is drawn anew while nothing happens.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// How a job is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// One JSON event a line.
    Json,
    /// For people.
    Told,
    /// Only what goes wrong and how it ends.
    Quiet,
}

impl Manner {
    /// As `--json` and `--quiet` ask for.
    pub(crate) fn of(json: bool, quiet: bool) -> Self {
        match (json, quiet) {
            (true, _) => Self::Json,
            (false, true) => Self::Quiet,
            (false, false) => Self::Told,
        }
    }
}

/// The screen of one job.
pub(crate) struct Screen {
    kind: Kind,
    stdout: Writer,
    stderr: Writer,
    begun: Instant,
    abandoned: bool,
}

enum Kind {
    Json,
    View(Box<View>),
}

impl Screen {
    pub(crate) fn new(manner: Manner) -> Self {
        let view = match manner {
            Manner::Json => return Self::of(Kind::Json),
            Manner::Told => View::new(style()),
            Manner::Quiet => View::new(Style::Quiet),
        };
        Self::of(Kind::View(Box::new(view)))
    }

    /// The screen of a server's job.
    pub(crate) fn of_a_server(manner: Manner) -> Self {
        let screen = Self::new(manner);
        match screen.kind {
            Kind::View(view) => Self::of(Kind::View(Box::new(view.of_a_server()))),
            Kind::Json => screen,
        }
    }

    fn of(kind: Kind) -> Self {
        Self {
            kind,
            stdout: Writer::stdout(),
            stderr: Writer::stderr(),
            begun: Instant::now(),
            abandoned: false,
        }
    }

    /// Waits while our readers are slow; the next thing is then shown at once. A
    /// call of this that is dropped changes nothing.
    pub(crate) async fn ready(&self) {
        if !self.abandoned {
            self.stdout.ready().await;
            self.stderr.ready().await;
        }
    }

    /// Waits for our readers no more: what they have not taken, they lose.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Whether time alone changes anything.
    pub(crate) fn ticks(&self) -> bool {
        matches!(self.kind, Kind::View(_)) && isatty(rustix::stdio::stderr())
    }

    /// Shows what happens.
    pub(crate) async fn show(&mut self, notice: &Notice) {
        match (&mut self.kind, notice) {
            (Kind::Json, Notice::Record(record)) => {
                let mut line = serde_json::to_vec(record).unwrap_or_default();
                line.push(b'\n');
                self.print(line.into()).await;
            }
            (Kind::Json, _) => {}
            (Kind::View(view), notice) => {
                let happening = match notice {
                    Notice::Record(record) => Happening::Record(record),
                    Notice::Delta { thread, delta } => Happening::Delta { thread: *thread, delta },
                    Notice::Output { call, bytes } => Happening::Output { call: *call, bytes },
                };
                let text = view.happen(self.begun.elapsed(), happening);
                self.tell(text).await;
                if let Notice::Record(record) = notice
                    && let Event::Ended { ending: Ending::Complete { summary, .. }, .. } =
                        &record.event
                {
                    let summary = cofferdam_view::tame(summary);
                    self.print(format!("{}\n", summary.trim_end()).into()).await;
                }
            }
        }
    }

    /// Shows an event as a server has stored it. One that this release does not
    /// know can only be shown as it is.
    pub(crate) async fn show_stored(&mut self, line: String, record: Option<Box<Record>>) {
        match (&self.kind, record) {
            (Kind::Json, _) => self.print(Bytes::from(line + "\n")).await,
            (Kind::View(_), Some(record)) => self.show(&Notice::Record(record)).await,
            (Kind::View(_), None) => {}
        }
    }

    /// Prints a line of data.
    pub(crate) async fn print_line(&mut self, line: &str) {
        self.print(Bytes::from(format!("{line}\n"))).await;
    }

    /// Time has passed.
    pub(crate) async fn tick(&mut self) {
        if let Kind::View(view) = &mut self.kind {
            let text = view.happen(self.begun.elapsed(), Happening::Tick);
            self.tell(text).await;
        }
    }

    /// The terminal has a new size.
    pub(crate) fn resize(&mut self) {
        if let Kind::View(view) = &mut self.kind {
            view.resize(width());
        }
    }

    /// Tells something beside the job.
    pub(crate) async fn warn(&mut self, text: &str) {
        let text = match &mut self.kind {
            Kind::Json => format!("{}\n", cofferdam_view::tame(text)),
            Kind::View(view) => view.say(self.begun.elapsed(), text),
        };
        self.tell(text).await;
    }

    /// Tells people that they were heard.
    pub(crate) async fn hurry(&mut self) {
        let ready = tokio::time::timeout(Duration::ZERO, self.ready()).await.is_ok();
        if ready && self.ticks() {
            self.warn("Stopping, and keeping what there is. Again to leave at once.").await;
        }
    }

    /// Takes in what happened before, without showing it.
    pub(crate) fn remember(&mut self, record: &Record) {
        if let Kind::View(view) = &mut self.kind {
            view.remember(record);
        }
    }

    /// Tells why it did not come to an end of its own: the last event.
    pub(crate) async fn failed(&mut self, problem: &Problem) {
        match self.kind {
            Kind::Json => {
                let line = crate::events::Event::Failed { problem }.line();
                self.print(line).await;
            }
            Kind::View(ref mut view) => {
                let cleared = view.end();
                self.tell(format!("{cleared}{problem}\n")).await;
            }
        }
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(mut self) {
        if let Kind::View(view) = &mut self.kind {
            let rest = view.end();
            self.tell(rest).await;
        }
        if !self.abandoned {
            self.stderr.finish().await;
            self.stdout.finish().await;
        }
    }

    async fn print(&mut self, bytes: Bytes) {
        if !self.abandoned {
            self.stdout.write(bytes).await;
        }
    }

    async fn tell(&mut self, text: String) {
        if !text.is_empty() && !self.abandoned {
            self.stderr.write(Bytes::from(text)).await;
        }
    }
}

fn style() -> Style {
    let dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    if isatty(rustix::stdio::stderr()) && !dumb {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Style::Live { width: width(), colour }
    } else {
        Style::Plain
    }
}

fn width() -> u16 {
    match tcgetwinsize(rustix::stdio::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col,
        _ => 80,
    }
}
