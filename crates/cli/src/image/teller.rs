//! What happens while an image is made: as JSON, or in words with a bar for how much is done.

use cofferdam_images::{Progress, Unit};
use cofferdam_view::tame_line;
use serde::Serialize;

use super::{VERSION, size};
use crate::streams;

/// How wide a bar is.
const BAR: u64 = 20;

/// What happens, for programs.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Told<'a> {
    Begun { version: u32 },
    Waiting,
    AlreadyThere { name: &'a str },
    Step { step: &'static str },
    Part { done: u64, of: u64, unit: &'static str },
    Line { text: &'a str },
    Without { text: &'a str },
    Ready { name: &'a str },
}

impl<'a> From<Progress<'a>> for Told<'a> {
    fn from(progress: Progress<'a>) -> Self {
        match progress {
            Progress::Waiting => Self::Waiting,
            Progress::AlreadyThere { name, .. } => Self::AlreadyThere { name },
            Progress::Step(step) => Self::Step { step: step.name() },
            Progress::Part { done, of, unit } => Self::Part { done, of, unit: unit_name(unit) },
            Progress::Line(text) => Self::Line { text },
            Progress::Without(text) => Self::Without { text },
            Progress::Ready { name, .. } => Self::Ready { name },
        }
    }
}

impl Told<'_> {
    fn print(&self) {
        // Each has a JSON form.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        streams::print(&line);
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Packages => "packages",
        Unit::Bytes => "bytes",
    }
}

/// Tells what happens. What programs say stays on a terminal only until the next line, and is
/// nobody's business elsewhere: an error repeats the last of it.
pub(super) struct Teller {
    json: bool,
    terminal: bool,
    /// Whether a line is there that the next one is written over.
    passing: bool,
    /// How much is done, as a bar.
    bar: String,
    /// The last tenth that was told where there is no terminal, and of how many.
    tenth: (u64, u64),
}

impl Teller {
    pub(super) fn new(json: bool) -> Self {
        if json {
            Told::Begun { version: VERSION }.print();
        }
        let terminal = streams::stderr_width().is_some();
        Self { json, terminal, passing: false, bar: String::new(), tenth: (0, 0) }
    }

    pub(super) fn tell(&mut self, progress: Progress<'_>) {
        if self.json {
            Told::from(progress).print();
            return;
        }
        let line = match progress {
            Progress::Line(text) => return self.pass(text),
            Progress::Part { done, of, unit } => return self.part(done, of, unit),
            Progress::Waiting => {
                "another process makes or removes an image; waiting for its end".to_owned()
            }
            Progress::AlreadyThere { name, root } => {
                format!("{name} is there: {}", root.display())
            }
            Progress::Step(step) => {
                (self.bar, self.tenth) = (String::new(), (0, 0));
                step.to_string()
            }
            Progress::Without(text) => format!("  without: {text}"),
            Progress::Ready { name, root } => format!("{name} is ready: {}", root.display()),
        };
        self.clear();
        streams::tell(&tame_line(&line));
    }

    fn pass(&mut self, text: &str) {
        if self.terminal {
            streams::tell_in_passing(&format!("  {}{}", self.bar, tame_line(text)));
            self.passing = true;
        }
    }

    fn part(&mut self, done: u64, of: u64, unit: Unit) {
        self.bar = format!("{}  ", bar(done, of, unit));
        if self.terminal {
            return self.pass("");
        }
        let tenth = done.saturating_mul(10).checked_div(of).unwrap_or(0);
        let (last, all) = self.tenth;
        if tenth > last || of != all {
            self.tenth = (tenth, of);
            streams::tell(&format!("  {}", counted(done, of, unit)));
        }
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.passing) {
            streams::tell_in_passing("");
        }
    }
}

/// `[#########           ] 412 of 843 packages`
fn bar(done: u64, of: u64, unit: Unit) -> String {
    let full = done.min(of).saturating_mul(BAR).checked_div(of).unwrap_or(0);
    let repeated = |letter: &str, times: u64| letter.repeat(usize::try_from(times).unwrap_or(0));
    let (full, empty) = (repeated("#", full), repeated(" ", BAR - full));
    format!("[{full}{empty}] {}", counted(done, of, unit))
}

fn counted(done: u64, of: u64, unit: Unit) -> String {
    match unit {
        Unit::Packages => format!("{done} of {of} packages"),
        Unit::Bytes => format!("{} of {}", size(done), size(of)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_says_how_much_is_done() {
        assert_eq!(bar(0, 0, Unit::Packages), "[                    ] 0 of 0 packages");
        assert_eq!(bar(5, 10, Unit::Packages), "[##########          ] 5 of 10 packages");
        assert_eq!(
            bar(9, 4, Unit::Bytes),
            "[####################] 0.0 MB of 0.0 MB",
            "what is more than all is all"
        );
    }
}
