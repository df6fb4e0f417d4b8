//! What is shown of a call that is over: a mark, a word why, and what came of it.

use std::time::Duration;

use cofferdam_types::{ToolOutput, ToolStatus};
use serde_json::{Map, Value};

use crate::edits::{self, Edit};
use crate::fold::{self, Folded};
use crate::line::{Line, Tone};
use crate::story::Call;
use crate::tame::tame;
use crate::text::{count, span};
use crate::words;

/// Lines of a change that are shown.
const CHANGED_LINES: usize = 6;

/// Shorter than this is no time worth telling.
const WORTH_TELLING: Duration = Duration::from_millis(50);

/// What is shown of a call at its end.
pub(crate) struct Outcome {
    pub(crate) mark: (Tone, &'static str),
    /// Why, how much, how long.
    pub(crate) aside: String,
    /// Its output or its change, each line below it.
    pub(crate) body: Vec<Line>,
}

impl Outcome {
    /// What became of a call.
    pub(crate) fn of(call: &Call, output: &ToolOutput, took: Duration) -> Self {
        let arguments = call.asked.arguments.object().unwrap_or_default();
        let text = tame(&output.plain_text());
        let (text, verdict) = match call.asked.name.as_str() {
            "bash" => split_verdict(&text),
            _ => (text.as_str(), String::new()),
        };
        let done = output.status == ToolStatus::Done;
        let why = match output.status {
            ToolStatus::Done | ToolStatus::Failed if !verdict.is_empty() => verdict,
            ToolStatus::Done => amount(call, &arguments),
            status => words::status(status, call.has_begun()).to_owned(),
        };
        let time = if took >= WORTH_TELLING { span(took) } else { String::new() };
        let parts: Vec<String> = [why, time].into_iter().filter(|part| !part.is_empty()).collect();
        let body = match call.asked.name.as_str() {
            "edit_file" if done => {
                edits::replacement(&arguments).map_or_else(Vec::new, |edit| change(call, &edit))
            }
            "apply_patch" if done => patch(call, &arguments),
            "read_file" | "list_files" | "search_files" | "write_file" if done => Vec::new(),
            // What there is to say of it, its word says.
            _ if output.status == ToolStatus::Cancelled => Vec::new(),
            _ => folded(
                call,
                &fold::fold(text, output.rest.as_ref().map(|rest| rest.bytes), &call.stream),
            ),
        };
        Self { mark: mark(output.status), aside: parts.join("  "), body }
    }
}

/// The sign of a status.
fn mark(status: ToolStatus) -> (Tone, &'static str) {
    match status {
        ToolStatus::Done => (Tone::Good, "✓"),
        ToolStatus::Failed | ToolStatus::Refused => (Tone::Bad, "✗"),
        ToolStatus::Unknown => (Tone::Warning, "?"),
        ToolStatus::Cancelled => (Tone::Warning, "–"),
    }
}

/// Parts the output of a command from the tool's last word on it, which is in its
/// last line, or in the one before if some of its processes still run.
fn split_verdict(text: &str) -> (&str, String) {
    let trimmed = text.trim_end_matches('\n');
    let (before, last) = last_line(trimmed);
    let (before, last) = match last_line(before) {
        (earlier, verdict) if last.starts_with('[') && is_verdict(verdict) => (earlier, verdict),
        _ => (before, last),
    };
    if !is_verdict(last) {
        return (text, String::new());
    }
    let verdict = last.split_once(" (").map_or(last, |(code, _)| code).replace("code: ", "code ");
    match last.split_once(" (").map(|(_, why)| why) {
        _ if verdict == "exit code 0" => (before, String::new()),
        Some(why) => {
            let why = why.split([';', ')']).next().unwrap_or_default();
            (before, format!("{verdict}, {why}"))
        }
        None => (before, verdict),
    }
}

fn last_line(text: &str) -> (&str, &str) {
    text.rsplit_once('\n').unwrap_or(("", text))
}

/// Whether a line is the tool's word on a command, or on a background process.
fn is_verdict(line: &str) -> bool {
    let of_process = line.strip_prefix('p').is_some_and(|rest| {
        rest.split_once(' ').is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    });
    line.starts_with("exit code: ") || of_process
}

/// How much a call that went well has changed.
fn amount(call: &Call, arguments: &Map<String, Value>) -> String {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    match call.asked.name.as_str() {
        "write_file" => {
            text("content").map(|content| count(content.lines().count() as u64, "line"))
        }
        "edit_file" => edits::replacement(arguments).map(|edit| {
            let all = arguments.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
            format!("{}{}", edit.counts(), if all { " in every place" } else { "" })
        }),
        "apply_patch" => text("input").and_then(|input| match edits::patch(input).as_slice() {
            [edit] => Some(edit.counts()),
            _ => None,
        }),
        _ => None,
    }
    .unwrap_or_default()
}

/// The first lines of a change.
fn change(call: &Call, edit: &Edit<'_>) -> Vec<Line> {
    let removed = edit.removed.iter().map(|line| (Tone::Bad, "−", *line));
    let added = edit.added.iter().map(|line| (Tone::Good, "+", *line));
    let changed: Vec<_> = removed.chain(added).collect();
    let mut lines: Vec<Line> = changed
        .iter()
        .take(CHANGED_LINES)
        .map(|(tone, sign, text)| {
            let below = Line::below(call.depth).own(*tone, format!("{sign} "));
            below.own(*tone, tame(text).replace('\n', " "))
        })
        .collect();
    if let Some(hidden @ 1..) = changed.len().checked_sub(CHANGED_LINES) {
        lines.push(Line::below(call.depth).own(Tone::Faint, fold::more(hidden as u64)));
    }
    lines
}

fn patch(call: &Call, arguments: &Map<String, Value>) -> Vec<Line> {
    let input = arguments.get("input").and_then(Value::as_str).unwrap_or_default();
    match edits::patch(input).as_slice() {
        [edit] => change(call, edit),
        edits => edits
            .iter()
            .map(|edit| {
                let line = Line::below(call.depth).own(Tone::Faint, format!("{} ", edit.kind));
                line.foreign(Tone::Plain, edit.path).aside(Tone::Faint, &edit.counts())
            })
            .collect(),
    }
}

fn folded(call: &Call, folded: &Folded) -> Vec<Line> {
    let head = folded.head.iter().map(|line| output_line(call.depth, line));
    let between = folded
        .between
        .iter()
        .map(|between| Line::below(call.depth).own(Tone::Faint, format!("│ {between}")));
    let tail = folded.tail.iter().map(|line| output_line(call.depth, line));
    head.chain(between).chain(tail).collect()
}

/// A line of an output, which is tame.
pub(crate) fn output_line(depth: usize, text: &str) -> Line {
    Line::below(depth).own(Tone::Faint, format!("│ {}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_a_command_is_parted_from_its_output() {
        for (text, output, verdict) in [
            ("a\nb\nexit code: 0", "a\nb", ""),
            ("exit code: 1", "", "exit code 1"),
            (
                "a\nexit code: 143 (ended by signal 15, SIGTERM)",
                "a",
                "exit code 143, ended by signal 15, SIGTERM",
            ),
            (
                "a\nexit code: 124 (timed out after 5 s and was ended; the output is …)",
                "a",
                "exit code 124, timed out after 5 s and was ended",
            ),
            ("exit code: 0\n[1 process that it started is still running]", "", ""),
            ("up\np1 has started and is running", "up", "p1 has started and is running"),
            ("p1 has ended, exit code: 3", "", "p1 has ended, exit code 3"),
            ("exit code: 7\nno verdict", "exit code: 7\nno verdict", ""),
            ("", "", ""),
        ] {
            assert_eq!(split_verdict(text), (output, verdict.to_owned()), "{text}");
        }
    }
}
