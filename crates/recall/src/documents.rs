//! The documents of a job's log, event by event.
//!
//! Everything that was said, called, put out and checked becomes one document, or
//! several where it is long: nothing is left out.

use std::collections::{BTreeMap, VecDeque};

use cofferdam_types::{
    Answer, Block, CheckResult, Event, Record, RequestId, Role, ThreadId, ToolCall, ToolStatus,
};

use crate::index::{Document, Kind, Source};
use crate::mentioned;
use crate::words::head;

/// Bytes of a text that is one document.
const WHOLE: usize = 32 << 10;

/// Bytes of the documents that a longer one becomes.
const PART: usize = 16 << 10;

/// Bytes of what came before a document that are kept with it.
const BEFORE: usize = 1 << 10;

/// Calls that have not ended, questions without an answer and conversations that are
/// remembered, of each.
const OPEN: usize = 256;

/// The tool that finds again. What it is asked for and what it answers are copies, and
/// would be found in the place of what they are copies of.
const RECALL: &str = "recall";

/// Makes the documents of a log. Feed it every record, in order: what it remembers
/// of earlier ones goes into later documents. One that begins in the middle of a log
/// makes documents that say less of what came before them.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    questions: BTreeMap<RequestId, (ThreadId, Role)>,
    calls: VecDeque<Open>,
    before: BTreeMap<ThreadId, String>,
}

/// A call that has not ended.
#[derive(Clone, Debug)]
struct Open {
    thread: ThreadId,
    id: String,
    is_recall: bool,
    text: String,
    files: Vec<String>,
}

impl Documents {
    /// For a log that is fed from its beginning.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The documents of the next event; none for most kinds of events.
    pub fn of(&mut self, record: &Record) -> Vec<Document> {
        let mut made = Made { record, parts: 0, documents: Vec::new() };
        let first = ThreadId(0);
        match &record.event {
            Event::Created { spec } => {
                made.add(Kind::User, &spec.task, &[], "");
                self.now(first, &spec.task);
            }
            Event::UserSaid { text } => {
                made.add(Kind::User, text, &[], self.before(first));
                self.now(first, text);
            }
            Event::Delegated { thread, brief, .. } => {
                made.add(Kind::Call, brief, &[], self.before(first));
                self.now(*thread, brief);
            }
            Event::ModelAsked { thread, request, role, .. } => {
                self.questions.insert(*request, (*thread, *role));
                if self.questions.len() > OPEN {
                    self.questions.pop_first();
                }
            }
            Event::ModelFailed { request, retry_at: None, .. } => {
                self.questions.remove(request);
            }
            Event::ModelAnswered { request, answer, .. } => {
                let asked = self.questions.remove(request);
                let (thread, role) = asked.unwrap_or((first, Role::Orchestrator));
                // What a summary is made of is found itself.
                if role != Role::Summariser {
                    self.answered(thread, answer, &mut made);
                }
            }
            Event::ToolEnded { thread, id, output, .. } => {
                let call = self.ended(*thread, id);
                if call.as_ref().is_some_and(|call| call.is_recall) {
                    return Vec::new();
                }
                let (before, files) = call.map_or_else(
                    || (self.before(*thread).to_owned(), Vec::new()),
                    |call| (call.text, call.files),
                );
                let text = with_status(output.status, output.plain_text());
                made.add(Kind::Output, &text, &files, &before);
                if !text.trim().is_empty() {
                    self.now(*thread, &format!("{}\n{}", head(&before, BEFORE / 2), text));
                }
            }
            Event::CheckEnded { results, .. } => {
                for result in results {
                    made.add(Kind::Check, &checked(result), &[], self.before(first));
                }
                let all: Vec<String> = results.iter().map(checked).collect();
                self.now(first, &all.join("\n"));
            }
            _ => {}
        }
        made.documents
    }

    fn answered(&mut self, thread: ThreadId, answer: &Answer, made: &mut Made<'_>) {
        let before = self.before(thread).to_owned();
        let text = answer.text();
        made.add(Kind::Answer, &text, &[], &before);
        // What was said with a call says what it is for.
        let said = if text.trim().is_empty() { &before } else { &text };
        let mut calls = String::new();
        for block in &answer.blocks {
            let Block::ToolCall(call) = block else { continue };
            let (readable, files) = readable(call);
            let is_recall = call.name == RECALL;
            if !is_recall {
                made.add(Kind::Call, &readable, &files, said);
            }
            let text = format!("{}\n{}", head(said, BEFORE / 2), readable);
            let (id, text) = (call.id.clone(), head(&text, BEFORE).to_owned());
            self.calls.push_back(Open { thread, id, is_recall, text, files });
            if self.calls.len() > OPEN {
                self.calls.pop_front();
            }
            calls.push('\n');
            calls.push_str(head(&readable, BEFORE / 2));
        }
        self.now(thread, &format!("{}{calls}", head(said, BEFORE / 2)));
    }

    fn ended(&mut self, thread: ThreadId, id: &str) -> Option<Open> {
        // Providers may use a name again: the last of that name is meant.
        let at = self.calls.iter().rposition(|call| call.thread == thread && call.id == id)?;
        self.calls.remove(at)
    }

    fn before(&self, thread: ThreadId) -> &str {
        self.before.get(&thread).map_or("", String::as_str)
    }

    fn now(&mut self, thread: ThreadId, text: &str) {
        self.before.insert(thread, head(text.trim(), BEFORE).to_owned());
        // The first conversation goes on for as long as the job does.
        while self.before.len() > OPEN {
            let oldest = self.before.keys().find(|thread| thread.0 != 0).copied();
            let Some(oldest) = oldest else { break };
            self.before.remove(&oldest);
        }
    }
}

/// The documents of one event, as they are made.
struct Made<'a> {
    record: &'a Record,
    parts: u32,
    documents: Vec<Document>,
}

impl Made<'_> {
    fn add(&mut self, kind: Kind, text: &str, files: &[String], before: &str) {
        if text.trim().is_empty() {
            return;
        }
        for text in split(text) {
            let source = Source::Event { seq: self.record.seq, part: self.parts, kind };
            self.documents.push(Document {
                source,
                at: self.record.at,
                files: files.to_vec(),
                text: text.to_owned(),
                before: head(before.trim(), BEFORE).to_owned(),
            });
            self.parts += 1;
        }
    }
}

/// A text in parts that together are all of it.
fn split(text: &str) -> Vec<&str> {
    if text.len() <= WHOLE {
        return vec![text];
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > PART {
        let most = head(rest, PART);
        // A line that is longer than that is cut where it is.
        let end = most.rfind('\n').map_or(most.len(), |at| at + 1);
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts.retain(|part| !part.is_empty());
    parts
}

/// A call as people would write it, and the files it is about.
fn readable(call: &ToolCall) -> (String, Vec<String>) {
    let Ok(arguments) = call.arguments.object() else {
        return (format!("{}\n{}", call.name, call.arguments.0), Vec::new());
    };
    let mut text = call.name.clone();
    for (name, value) in &arguments {
        let value = match value.as_str() {
            Some(value) => value.to_owned(),
            None => value.to_string(),
        };
        let space = if value.contains('\n') { '\n' } else { ' ' };
        text.push_str(&format!("\n{name}:{space}{value}"));
    }
    (text, mentioned::files(&arguments))
}

fn with_status(status: ToolStatus, text: String) -> String {
    let word = match status {
        ToolStatus::Done | ToolStatus::Failed => return text,
        ToolStatus::Refused => "refused",
        ToolStatus::Unknown => "outcome unknown",
        ToolStatus::Cancelled => "cancelled",
    };
    format!("[{word}]\n{text}")
}

fn checked(result: &CheckResult) -> String {
    format!("{}\n{}\n{}", result.command, result.outcome, result.output)
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
