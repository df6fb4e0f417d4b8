//! A job where there is no terminal: whole lines, in the order of events, without
//! a single control character.

use cofferdam_types::{Event, ToolStatus};

use crate::calls::{call_line, cut_short, is_silent};
use crate::line::{Line, Tone};
use crate::result::Outcome;
use crate::story::{Heard, Story};
use crate::tame::tame;
use crate::told;

/// Cells of a line about a call: a log is read in some window after all.
const WIDTH: usize = 160;

/// The lines of an event.
pub(crate) fn lines(story: &Story, heard: Heard<'_>) -> Vec<Line> {
    match heard {
        Heard::Answered { depth, answer, .. } => {
            let text = tame(&answer.text());
            let said = text.trim().lines().map(|line| Line::new(depth).own(Tone::Plain, line));
            said.chain(cut_short(depth, answer.stop)).collect()
        }
        Heard::Failed { depth, failure, again, summary, .. } => {
            told::failure(depth, failure, again, summary)
        }
        Heard::Started(id) => {
            let call = story.running.get(&id);
            call.map(|call| call_line((Tone::Plain, "●"), call, "", WIDTH)).into_iter().collect()
        }
        Heard::Ended { call, output, .. } if is_silent(&call, output.status) => Vec::new(),
        Heard::Ended { call, output, took, .. } => {
            let outcome = Outcome::of(&call, output, took);
            let mut lines = vec![call_line(outcome.mark, &call, &outcome.aside, WIDTH)];
            // Whoever reads a log of a failure wants to see it.
            if !matches!(output.status, ToolStatus::Done | ToolStatus::Cancelled) {
                lines.extend(outcome.body);
            }
            lines
        }
        Heard::Planned { steps } => vec![told::plan_briefly(steps)],
        // A terminal has it in its status line.
        Heard::Other(Event::ModelAsked { span: Some(_), attempt: 1, .. }) => {
            vec![Line::new(0).own(Tone::Faint, "· summarising…")]
        }
        Heard::Other(event) => told::event(story, event),
    }
}

/// Lines as text.
pub(crate) fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{}\n", line.text().trim_end())).collect()
}
