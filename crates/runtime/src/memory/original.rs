//! An event as it was, in full or in part: from the log, and what was kept apart from
//! where it is kept.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Cursor};

use cofferdam_types::{
    Answer, Block, CheckResult, Content, Cut, Event, PlanStep, Record, StepStatus, ToolOutput,
    ToolStatus,
};

use super::Memory;
use super::moment::in_words;
use super::window::{Range, SHOWN, Window, window};

/// Records before an output in which its call is looked for.
const CALL_WITHIN: u64 = 128;

/// Characters of a call that are shown with its output.
const CALL_SHOWN: usize = 300;

/// Pictures of one event that are shown.
const PICTURES: usize = 4;

/// An event as it was.
pub(super) struct Original {
    /// What it is, and when it was.
    pub(super) title: String,
    pub(super) body: Body,
    pictures: Vec<Content>,
    note: Option<String>,
}

pub(super) enum Body {
    Text(String),
    /// In a file of ours.
    Kept(File),
}

impl Memory {
    /// An event, in full or in part.
    pub(super) async fn read(&self, id: u64, range: Range) -> ToolOutput {
        let Original { title, body, pictures, note } = match self.original(id).await {
            Ok(original) => original,
            Err(reason) => return failed(&reason),
        };
        let looking = tokio::task::spawn_blocking(move || match body {
            Body::Text(text) => window(&mut Cursor::new(text.as_bytes()), range),
            Body::Kept(file) => window(&mut BufReader::with_capacity(64 << 10, file), range),
        });
        let looked = looking.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let window = match looked {
            Ok(window) => window,
            Err(error) => return failed(&format!("#{id} cannot be read: {error}")),
        };
        if window.last == 0 && window.lines > 0 && range.line > window.lines {
            let Range { line, .. } = range;
            return failed(&format!("#{id} has {} lines; there is no line {line}", window.lines));
        }
        let mut text = shown(id, &title, &window, range);
        if let Some(note) = note {
            writeln!(text, "[{note}]").ok();
        }
        let mut content = vec![Content::text(text)];
        content.extend(pictures.into_iter().take(PICTURES));
        ToolOutput { content, ..ToolOutput::text(ToolStatus::Done, "") }
    }

    /// An event as it was.
    pub(super) async fn original(&self, id: u64) -> Result<Original, String> {
        let Some(before) = id.checked_sub(1) else {
            return Err("events are numbered from 1".to_owned());
        };
        let page = self.past.after(before, 1).await;
        let page = page.map_err(|error| format!("the job's log cannot be read: {error}"))?;
        let Some(record) = page.into_iter().find(|record| record.seq == id) else {
            return Err(format!("there is no event #{id} in this job yet"));
        };
        let at = in_words(record.at);
        let mut original = match record.event {
            Event::ToolEnded { id: name, output, .. } => {
                let call = self.call_of(id, &name).await;
                self.output(output, call)
            }
            _ => {
                let (what, text) = told(&record);
                Original { title: what, body: Body::Text(text), pictures: Vec::new(), note: None }
            }
        };
        original.title = format!("#{id}: {}, {at}", original.title);
        Ok(original)
    }

    fn output(&self, output: ToolOutput, call: Option<String>) -> Original {
        let status = match output.status {
            ToolStatus::Done => "",
            ToolStatus::Failed => " (failed)",
            ToolStatus::Refused => " (refused)",
            ToolStatus::Unknown => " (outcome unknown)",
            ToolStatus::Cancelled => " (cancelled)",
        };
        let title = match call {
            Some(call) => format!("output{status} of {call}"),
            None => format!("output{status} of a tool"),
        };
        let text = output.plain_text();
        let (body, note) = match output.rest.as_ref().map(|rest| self.outputs.kept(&rest.handle)) {
            Some(Ok(file)) => (Body::Kept(file), None),
            Some(Err(error)) => {
                let note = format!("the part that was kept apart cannot be read: {error}");
                (Body::Text(text), Some(note))
            }
            None => (Body::Text(text), None),
        };
        let pictures = output.content.into_iter();
        let pictures = pictures.filter(|part| matches!(part, Content::Image { .. })).collect();
        Original { title, body, pictures, note }
    }

    /// What an output is the output of, in short.
    async fn call_of(&self, seq: u64, name: &str) -> Option<String> {
        let mut last = seq.saturating_sub(CALL_WITHIN + 1);
        let mut found = None;
        while last + 1 < seq {
            let most = usize::try_from(seq - 1 - last).unwrap_or(usize::MAX);
            let page = self.past.after(last, most).await.ok()?;
            last = page.last()?.seq;
            for record in page.iter().filter(|record| record.seq < seq) {
                let Event::ModelAnswered { answer, .. } = &record.event else { continue };
                if let Some(call) = answer.calls().find(|call| call.id == name) {
                    let text = format!("{} {}", call.name, call.arguments.0);
                    found = Some(text.chars().take(CALL_SHOWN).collect());
                }
            }
        }
        found
    }
}

pub(super) fn failed(reason: &str) -> ToolOutput {
    ToolOutput::text(ToolStatus::Failed, format!("recall: {reason}"))
}

/// A part of an event, and how to go on.
fn shown(id: u64, title: &str, window: &Window, range: Range) -> String {
    let Window { text: part, last, next, lines, bytes } = window;
    let mut text = format!("{title}: {lines} lines, {bytes} bytes\n---\n{part}");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let first = range.line;
    match next {
        Some((line, 0)) => {
            writeln!(
                text,
                "---\n[lines {first} to {last} of {lines}; go on with id {id} and offset {line}]"
            )
            .ok();
        }
        Some((line, byte)) => {
            writeln!(
                text,
                "---\n[line {line} goes on; go on with id {id}, offset {line} and byte {byte}. \
                 All of it is about {} such pieces; with `query` too, only the places that fit]",
                bytes.div_ceil(SHOWN as u64)
            )
            .ok();
        }
        None => {}
    }
    text
}

/// What an event is, and what it says. Outputs are told elsewhere.
fn told(record: &Record) -> (String, String) {
    let (what, text) = match &record.event {
        Event::Created { spec } => ("the task", spec.task.clone()),
        Event::UserSaid { text } => ("what the user said", text.clone()),
        Event::Delegated { brief, .. } => ("what a coder was told", brief.clone()),
        Event::ModelAnswered { answer, .. } => ("what a model said", said(answer)),
        Event::ModelFailed { failure, .. } => ("a model failed", failure.message.clone()),
        Event::Planned { steps, decisions } => ("the plan", plan(steps, decisions)),
        Event::CheckEnded { results, .. } => ("what the checks found", checks(results)),
        Event::ContextCut { cut: Cut::Summarised { summary, .. }, .. } => {
            ("a summary", summary.clone())
        }
        Event::Offered { text, .. } => ("what was offered again", text.clone()),
        Event::Noted { text } => ("a note", text.clone()),
        other => ("an event", serde_json::to_string_pretty(other).unwrap_or_default()),
    };
    (what.to_owned(), text)
}

fn said(answer: &Answer) -> String {
    let parts = answer.blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.clone()),
        Block::ToolCall(call) => {
            let arguments = match call.arguments.object() {
                Ok(arguments) => named(&arguments),
                Err(_) => call.arguments.0.clone(),
            };
            Some(format!("[calls {}]\n{arguments}", call.name))
        }
        Block::Thinking { .. } => None,
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// Arguments as people would write them: their lines are lines.
fn named(arguments: &serde_json::Map<String, serde_json::Value>) -> String {
    let mut text = String::new();
    for (name, value) in arguments {
        match value.as_str() {
            Some(value) if value.contains('\n') => write!(text, "{name}:\n{value}\n").ok(),
            Some(value) => writeln!(text, "{name}: {value}").ok(),
            None => writeln!(text, "{name}: {value}").ok(),
        };
    }
    text
}

fn plan(steps: &[PlanStep], decisions: &[String]) -> String {
    let mut text = String::new();
    for step in steps {
        let mark = match step.status {
            StepStatus::Pending => "[ ]",
            StepStatus::InProgress => "[>]",
            StepStatus::Completed => "[x]",
        };
        writeln!(text, "{mark} {}", step.step).ok();
    }
    for decision in decisions {
        writeln!(text, "decided: {decision}").ok();
    }
    text
}

fn checks(results: &[CheckResult]) -> String {
    let one = |result: &CheckResult| {
        format!("$ {}\n{}\n{}", result.command, result.outcome, result.output)
    };
    results.iter().map(one).collect::<Vec<_>>().join("\n\n")
}
