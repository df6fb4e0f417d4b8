//! What must be true of a job after whatever has happened to its servers.

use std::collections::HashMap;
use std::io::{Cursor, Read};

use cofferdam_types::{CallId, Ending, Event, FailureKind, Record, RequestId, ToolStatus};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::api::Api;
use super::model::Model;
use super::scene::{Expected, Job};
use super::violation::{Violation, ensure};

/// The file that each command counts itself in.
const COUNTER: &str = "counter.txt";

/// A job's log, read to its end.
pub(super) struct Log {
    pub(super) records: Vec<Record>,
}

#[derive(Deserialize)]
struct Page {
    events: Vec<Box<RawValue>>,
    after: u64,
    more: bool,
}

/// All events of a job as they are stored.
pub(super) fn lines(api: &Api, job: &str) -> Result<Vec<String>, Violation> {
    let mut lines = Vec::new();
    let mut after = 0;
    loop {
        let path = format!("/api/v1/jobs/{job}/events?after={after}&limit=1000");
        let answer = api.get(&path)?;
        ensure(answer.status == 200, || format!("events of {job}: {}", answer.text()))?;
        let page: Page = serde_json::from_slice(&answer.body)?;
        lines.extend(page.events.iter().map(|event| event.get().to_owned()));
        if !page.more {
            return Ok(lines);
        }
        ensure(page.after > after, || format!("the pages of {job} do not go on"))?;
        after = page.after;
    }
}

impl Log {
    /// Events without a gap, that end once and at the end.
    pub(super) fn read(lines: &[String]) -> Result<Self, Violation> {
        let mut records = Vec::new();
        for (number, line) in (1..).zip(lines) {
            let record: Record = serde_json::from_str(line)?;
            ensure(record.seq == number, || format!("event {number} is {}", record.seq))?;
            records.push(record);
        }
        let endings = records.iter().filter(|record| matches!(record.event, Event::Ended { .. }));
        let endings = endings.count();
        ensure(endings == 1, || format!("the job ended {endings} times"))?;
        let last = records.last().map(|record| &record.event);
        ensure(matches!(last, Some(Event::Ended { .. })), || "something follows the end".into())?;
        Ok(Self { records })
    }

    fn ending(&self) -> Option<&Ending> {
        self.records.iter().find_map(|record| match &record.event {
            Event::Ended { ending, .. } => Some(ending),
            _ => None,
        })
    }

    /// Whether the files were lost with a server.
    fn moved(&self) -> bool {
        self.records.iter().any(|record| match &record.event {
            Event::UserSaid { text } => text.contains("the files of the workspace with it"),
            _ => false,
        })
    }

    /// It ended as it should, and handed over what it had.
    pub(super) fn ended_as(&self, expected: Expected) -> Result<(), Violation> {
        let ending = self.ending();
        let right = match expected {
            Expected::Complete => matches!(ending, Some(Ending::Complete { .. })),
            Expected::Cancelled => matches!(ending, Some(Ending::Cancelled { .. })),
            Expected::Any => ending.is_some(),
        };
        ensure(right, || format!("it ended as {ending:?} instead of {expected:?}"))?;
        for record in &self.records {
            if let Event::Ended { delivery_problem: Some(problem), .. } = &record.event {
                return Err(Violation(format!("it was not handed over: {problem}")));
            }
        }
        Ok(())
    }

    /// Each call began once and ended once; what is not known was told.
    pub(super) fn calls(&self, job: &Job, model: &Model) -> Result<(), Violation> {
        let mut calls: HashMap<CallId, (u32, u32)> = HashMap::new();
        let mut told = true;
        for record in &self.records {
            match &record.event {
                Event::ToolStarted { call, .. } => calls.entry(*call).or_default().0 += 1,
                Event::ToolEnded { call, output, .. } => {
                    calls.entry(*call).or_default().1 += 1;
                    told &= output.status != ToolStatus::Unknown || model.doubts(&job.mark);
                }
                _ => {}
            }
        }
        for (call, (started, ended)) in calls {
            ensure(started <= 1 && ended == 1, || {
                format!("call {call} began {started} times and ended {ended} times")
            })?;
        }
        let asked_again = job.expected == Expected::Complete;
        ensure(told || !asked_again, || "the model was not told what is not known".to_owned())
    }

    /// Each question was answered once, and asked no more than the log says.
    pub(super) fn questions(&self, job: &Job, model: &Model) -> Result<(), Violation> {
        let mut turn = 0;
        let mut asked_in_turn = 0;
        let mut open: Vec<RequestId> = Vec::new();
        for record in &self.records {
            match &record.event {
                Event::ModelAsked { request, .. } => {
                    asked_in_turn += 1;
                    open.push(*request);
                }
                Event::ModelFailed { request, failure, .. } => {
                    open.retain(|asked| asked != request);
                    ensure(failure.kind == FailureKind::Abandoned, || {
                        format!("a question failed: {}", failure.message)
                    })?;
                }
                Event::ModelUsed { request, .. } => open.retain(|asked| asked != request),
                Event::ModelAnswered { request, .. } => {
                    open.retain(|asked| asked != request);
                    let asked = model.asked(&job.mark, turn);
                    ensure((1..=asked_in_turn).contains(&asked), || {
                        format!(
                            "answer {turn} was asked for {asked} times; the log says \
                             {asked_in_turn}"
                        )
                    })?;
                    (turn, asked_in_turn) = (turn + 1, 0);
                }
                _ => {}
            }
        }
        // A question that nobody waited for need not have been put.
        let asked = model.asked(&job.mark, turn);
        ensure(asked <= asked_in_turn, || {
            format!("answer {turn} was asked for {asked} times; the log says {asked_in_turn}")
        })?;
        let left = job.expected == Expected::Complete && !open.is_empty();
        ensure(!left, || format!("questions without an end: {open:?}"))
    }

    /// No command ran twice, and none that the log says has run is without effect.
    pub(super) fn effects(&self, counter: &str) -> Result<(), Violation> {
        let mut steps: HashMap<&str, String> = HashMap::new();
        let mut ended: HashMap<String, ToolStatus> = HashMap::new();
        for record in &self.records {
            match &record.event {
                Event::ModelAnswered { answer, .. } => {
                    for call in answer.calls() {
                        let arguments = call.arguments.object().unwrap_or_default();
                        let command = arguments.get("command").and_then(|value| value.as_str());
                        if let Some(step) = command.and_then(counted) {
                            steps.insert(&call.id, step.to_owned());
                        }
                    }
                }
                Event::ToolEnded { id, output, .. } => {
                    if let Some(step) = steps.remove(id.as_str()) {
                        ended.insert(step, output.status);
                    }
                }
                _ => {}
            }
        }
        let mut counts: HashMap<&str, u32> = HashMap::new();
        for line in counter.lines() {
            *counts.entry(line).or_default() += 1;
        }
        for (step, count) in &counts {
            ensure(*count == 1, || format!("{step} was run {count} times"))?;
            ensure(ended.contains_key(*step), || format!("{step} was run and is not in the log"))?;
        }
        for (step, status) in &ended {
            let is_there = counts.contains_key(step.as_str()) || self.moved();
            ensure(*status != ToolStatus::Done || is_there, || {
                format!("{step} is done by the log, and its effect is gone")
            })?;
        }
        Ok(())
    }
}

/// What a command counts.
fn counted(command: &str) -> Option<&str> {
    command.split_once(&format!(" >> {COUNTER}"))?.0.rsplit(' ').next()
}

/// The counter in the delivered ZIP, which is the one that its row tells.
pub(super) fn delivered(api: &Api, job: &str) -> Result<String, Violation> {
    let answer = api.get(&format!("/api/v1/jobs/{job}/artifacts"))?;
    let list = answer.json()?;
    let rows = list.get("artifacts").and_then(|rows| rows.as_array()).cloned().unwrap_or_default();
    let row = |name: &str| {
        let named = |row: &&serde_json::Value| {
            row.get("name")
                .and_then(|found| found.as_str())
                .is_some_and(|found| found.starts_with(name))
        };
        let row = rows.iter().find(named);
        row.cloned().ok_or_else(|| Violation(format!("there is no {name}: {}", answer.text())))
    };
    row("audit-")?;
    let row = row("output.zip")?;
    let zip = api.get(&format!("/jobs/{job}/output.zip"))?;
    ensure(zip.status == 200, || format!("output.zip: {}", zip.text()))?;
    let digest = Sha256::digest(&zip.body);
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let told = row.get("sha256").and_then(|hash| hash.as_str()).unwrap_or_default();
    ensure(hash == told, || format!("output.zip has the hash {hash}, its row says {told}"))?;
    let broken = |error: zip::result::ZipError| Violation(format!("output.zip: {error}"));
    let mut archive = zip::ZipArchive::new(Cursor::new(zip.body)).map_err(broken)?;
    let names: Vec<String> = archive.file_names().flatten().map(Into::into).collect();
    ensure(names.iter().any(|name| name.ends_with("MANIFEST.json")), || {
        format!("output.zip has no manifest: {names:?}")
    })?;
    let mut text = String::new();
    if let Some(name) = names.iter().find(|name| name.ends_with(COUNTER)) {
        archive.by_name(name).map_err(broken)?.read_to_string(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_tells_what_it_counts() {
        assert_eq!(counted("echo a; echo run-3 >> counter.txt; sleep 1"), Some("run-3"));
        assert_eq!(counted("echo run-3"), None);
    }

    #[test]
    fn a_gap_and_a_second_end_are_found() {
        let line = |seq: u64, event: &str| format!(r#"{{"v":1,"seq":{seq},"at":1,{event}}}"#);
        let noted = r#""event":"noted","text":"x""#;
        let gap = Log::read(&[line(1, noted), line(3, noted)]);
        assert!(gap.err().unwrap().to_string().contains("event 2 is 3"));
        let endless = Log::read(&[line(1, noted)]);
        assert!(endless.err().unwrap().to_string().contains("ended 0 times"));
    }
}
