//! A model for jobs that are longer than its window.
//!
//! It carries out numbered steps, and knows nothing but what stands in the question
//! before it: which steps are done, and which rules their work has to keep. Whatever is
//! forgotten shows in the job's own work: a step that was done is done again, or a line
//! lacks the tag of a rule. What it finds wrong with a question is in its [`Record`].

mod material;
mod sight;
mod wires;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam_types::Tokens;
use serde_json::{Value, json};

use crate::script::{Dialect, Fault, ScriptedAnswer, Turn};
use crate::server::Recorded;
pub use material::{code, prose};

use material::generator;
use sight::{Sight, Standing};

/// A step that is a multiple of this updates the plan.
const PLANNING: u32 = 10;

/// The steps that decide something.
const DECIDING: [u32; 3] = [20, 40, 60];

/// So many steps after it was read, what was read is asked for at the earliest.
const FORGOTTEN: u32 = 8;

/// How a question for a summary is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    /// Briefly, with nothing but what is asked for: no step, no rule.
    Good,
    /// With this status.
    Status(u16),
    /// Not at all.
    Stall,
    /// With something that says nothing.
    Nonsense,
    /// With more than it may have.
    TooLong,
    /// With nothing.
    Empty,
    /// With half a summary: the output limit was reached.
    Cut,
}

/// A step that was forgotten so often is given up. One in the middle of which the job was
/// killed is ordered twice.
const MOST_ORDERS: u32 = 5;

/// What happened so far.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Questions that were no questions for a summary.
    pub questions: usize,
    /// Questions for a summary.
    pub summaries: usize,
    /// The step that was ordered last.
    pub step: u32,
    /// How often each step was ordered.
    pub ordered: BTreeMap<u32, u32>,
    /// Most tokens of a question with what its answer may have, by this model's count.
    pub most_tokens: u64,
    /// Most bytes of a question.
    pub most_bytes: u64,
    /// Tokens of all questions, and of those what had been in the question before.
    pub read: (u64, u64),
    /// Questions that were refused because they were too long.
    pub refused: usize,
    /// Questions that did not begin with all of the question before.
    pub cuts: usize,
    /// The tags of all rules there were.
    pub tags: BTreeSet<String>,
    /// What was asked for again, by its file: whether it came.
    pub recalled: BTreeMap<u32, bool>,
    /// Files that were not there when they were read: nobody can know what they hid.
    pub missed: BTreeSet<u32>,
    /// What was wrong with questions.
    pub violations: Vec<String>,
}

/// How long the job is, and how much its model can read.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Steps to be carried out.
    pub steps: u32,
    /// Tokens that the model can take in and give out together.
    pub window: u64,
    /// Bytes of what the model writes in a step: half in words, half in a file.
    pub written: usize,
    /// Files that a step reads.
    pub files: u32,
    /// Lines of each of them; about a hundred bytes each.
    pub lines: u32,
    /// Tokens of a thousand bytes.
    pub density: u64,
    /// What becomes of a question that is too long.
    pub too_long: TooLong,
}

/// What becomes of a question that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLong {
    /// It is wrong, and answered all the same.
    Wrong,
    /// It is refused, as providers do.
    Refused,
}

impl Course {
    /// What a user would say to have it done.
    #[must_use]
    pub fn task(&self) -> String {
        format!(
            "Carry out the steps 1 to {} in their order, each once. A step makes and reads its data, \
             writes its notes and appends one line to ledger.txt.\n{}\n{}",
            self.steps,
            rule("amber-01"),
            rule("birch-02")
        )
    }
}

/// What a user says to have every line carry a tag from now on.
#[must_use]
pub fn rule(tag: &str) -> String {
    format!("Keep to this until the end: every line of ledger.txt carries the tag [{tag}].")
}

/// What the file of this number hides, and what it is asked for by.
#[must_use]
pub fn secret(file: u32) -> (String, String) {
    let name = format!("{}-{file:04}", material::bird(file));
    (format!("seal of vault {name}"), format!("{}", 100_000 + file * 7919 % 99_991))
}

/// Bytes of what was said, called or put out by a record of a job's log.
#[must_use]
pub fn said(record: &Value) -> u64 {
    match record.get("event").and_then(Value::as_str) {
        Some("model_answered") => record.pointer("/answer/blocks").map_or(0, length),
        Some("tool_ended") => record.pointer("/output/content").map_or(0, length),
        _ => 0,
    }
}

/// Bytes of all texts in a value.
fn length(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(values) => values.iter().map(length).sum(),
        Value::Object(fields) => fields.values().map(length).sum(),
        _ => 0,
    }
}

/// The model. Give it to a scripted server as its script.
pub struct Marathon {
    course: Course,
    summaries: Box<dyn FnMut(usize) -> Summary + Send>,
    record: Arc<Mutex<Record>>,
    /// The messages of the question before.
    before: Vec<(u64, u64)>,
}

impl std::fmt::Debug for Marathon {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Marathon").field("course", &self.course).finish_non_exhaustive()
    }
}

/// Reads what happened so far.
pub fn look(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Marathon {
    /// A model for this course. `summaries` says how the n-th question for a summary,
    /// counted from 0, is answered.
    pub fn new(
        course: Course,
        summaries: impl FnMut(usize) -> Summary + Send + 'static,
    ) -> (Self, Arc<Mutex<Record>>) {
        let record = Arc::default();
        let marathon = Self {
            course,
            summaries: Box::new(summaries),
            record: Arc::clone(&record),
            before: Vec::new(),
        };
        (marathon, record)
    }

    /// Answers a question.
    pub fn answer(&mut self, question: &Recorded) -> Turn {
        let body = wires::as_messages(question);
        let sight = Sight::of(&body);
        let record = Arc::clone(&self.record);
        let mut record = look(&record);
        let Some(tokens) = self.weigh(&mut record, question, &sight) else {
            record.refused += 1;
            let error = json!({"type": "invalid_request_error", "message": "prompt is too long"});
            return Turn::status(400, &[], json!({"type": "error", "error": error}).to_string());
        };
        if sight.is_summary {
            record.summaries += 1;
            let how = (self.summaries)(record.summaries - 1);
            return self.summary(how, &sight, tokens);
        }
        record.questions += 1;
        check(&mut record, &sight);
        let answer = match self.look_first(&sight) {
            Some(calls) => ScriptedAnswer { calls, ..ScriptedAnswer::default() },
            None => self.next_step(&mut record, &sight),
        };
        Turn::Answer(self.counted(answer, tokens))
    }

    /// Takes note of a question's size, and counts its tokens as a provider does; `None` if
    /// it is refused.
    fn weigh(&mut self, record: &mut Record, question: &Recorded, sight: &Sight) -> Option<Tokens> {
        let bytes = question.bytes.len() as u64;
        let tokens = self.tokens(sight.bytes);
        let answer = sight.max_tokens;
        let all = tokens + answer;
        if all > self.course.window && self.course.too_long == TooLong::Refused {
            return None;
        }
        record.most_tokens = record.most_tokens.max(all);
        record.most_bytes = record.most_bytes.max(bytes);
        if all > self.course.window || bytes / 4 > self.course.window {
            let number = record.questions + record.summaries;
            record.violations.push(format!(
                "question {number}: {tokens} tokens and {answer} for the answer, {bytes} bytes"
            ));
        }
        if sight.is_summary {
            return Some(Tokens { input: tokens, ..Tokens::default() });
        }
        let pairs = sight.messages.iter().zip(&self.before);
        let same = pairs.take_while(|(now, then)| now == then).count();
        record.cuts += usize::from(same < self.before.len());
        let common = sight.messages.iter().take(same).map(|(_, bytes)| bytes).sum::<u64>();
        // Instructions and tools never change, but nobody has read them before the first.
        let preface = if self.before.is_empty() { 0 } else { sight.preface };
        let cached = self.tokens(preface + common);
        self.before.clone_from(&sight.messages);
        record.read.0 += tokens;
        record.read.1 += cached;
        let read = Tokens { cache_read: cached, ..Tokens::default() };
        Some(match question.dialect {
            Dialect::Messages => Tokens { cache_write: tokens - cached, ..read },
            // Elsewhere nobody says what was put into a cache.
            Dialect::Responses | Dialect::Chat => Tokens { input: tokens - cached, ..read },
        })
    }

    /// Where it is not known whether a step was done, that is looked at first.
    fn look_first(&self, sight: &Sight) -> Option<Vec<(String, Value)>> {
        let unknown =
            (0..=self.course.steps).find(|step| sight.step(*step) == Standing::Unknown)?;
        let command = format!(
            "grep '^step {unknown:04} ' ledger.txt || echo 'there is no step {unknown:04}'"
        );
        Some(vec![("bash".to_owned(), json!({ "command": command }))])
    }

    fn next_step(&self, record: &mut Record, sight: &Sight) -> ScriptedAnswer {
        let Course { steps, written, files, lines, .. } = self.course;
        let open = (0..=steps).find(|step| sight.step(*step) != Standing::Done);
        let Some(step) = open else {
            let text = format!("All {steps} steps are done.");
            return ScriptedAnswer { text, ..ScriptedAnswer::default() };
        };
        record.step = step;
        let times = record.ordered.entry(step).or_insert(0);
        *times += 1;
        if *times > MOST_ORDERS {
            // It would go on like this until its budget is spent.
            let text = format!("Step {step} was ordered {times} times.");
            return ScriptedAnswer { text, ..ScriptedAnswer::default() };
        }
        let mut calls = Vec::new();
        let mut call = |tool: &str, arguments: Value| calls.push((tool.to_owned(), arguments));
        let tags: Vec<String> = sight.tags.iter().map(|tag| format!(" [{tag}]")).collect();
        let line = format!("printf 'step {step:04}{}\\n' >> ledger.txt", tags.concat());
        if step == 0 {
            call("write_file", json!({"path": "make_data.sh", "content": generator(lines)}));
            call("write_file", json!({"path": ".gitignore", "content": "data/\n"}));
            call("bash", json!({ "command": line }));
            return ScriptedAnswer { calls, ..ScriptedAnswer::default() };
        }
        let (first, last) = ((step - 1) * files + 1, step * files);
        call("bash", json!({"command": format!("sh make_data.sh {first} {last}")}));
        for file in first..=last {
            call("read_file", json!({"path": format!("data/{file:04}.log")}));
        }
        call("bash", json!({"command": format!("tail -c 11000 data/{last:04}.log")}));
        if let Some(file) = to_recall(step, files)
            && sight.has_recall
        {
            record.recalled.entry(file).or_insert(false);
            call("recall", json!({"query": secret(file).0}));
        }
        if step % PLANNING == 0 {
            call("plan", plan(step, steps));
        }
        let notes = format!("notes/{step:04}.rs");
        call("write_file", json!({"path": notes, "content": code(step, written / 2)}));
        // What was read is gone then: only the log still has it.
        call("bash", json!({"command": format!("{line} && rm -r data")}));
        ScriptedAnswer { text: prose(step, written / 2), calls, ..ScriptedAnswer::default() }
    }

    /// An answer with what its provider counts.
    fn counted(&self, mut answer: ScriptedAnswer, read: Tokens) -> ScriptedAnswer {
        let arguments: usize = answer.calls.iter().map(|(_, value)| value.to_string().len()).sum();
        let output = self.tokens((answer.text.len() + arguments) as u64);
        answer.usage = Tokens { output, ..read };
        answer
    }

    fn tokens(&self, bytes: u64) -> u64 {
        bytes * self.course.density / 1000
    }

    fn summary(&self, how: Summary, sight: &Sight, tokens: Tokens) -> Turn {
        let mut text = String::from(
            "Some more of the work was done in the order that was asked for, without any trouble \
             worth telling. ",
        );
        for name in &sight.names {
            text.push_str(&format!("{name} was written. "));
        }
        let answer = |text: &str| {
            let answer = ScriptedAnswer { text: text.to_owned(), ..ScriptedAnswer::default() };
            Turn::Answer(self.counted(answer, tokens))
        };
        match how {
            Summary::Good => answer(&text),
            Summary::Status(status) => Turn::status(status, &[], "broken"),
            Summary::Stall => answer(&text).but(Fault::StallHeaders),
            Summary::Nonsense => answer(&"}{ ;; ]] ".repeat(30)),
            Summary::TooLong => answer(&text.repeat(4_000)),
            Summary::Empty => answer("x").but(Fault::Empty),
            Summary::Cut => answer(&text).but(Fault::OutputLimit),
        }
    }
}

/// What every question must have.
fn check(record: &mut Record, sight: &Sight) {
    let number = record.questions;
    let lost: Vec<String> = record.tags.difference(&sight.tags).cloned().collect();
    if !lost.is_empty() {
        record.violations.push(format!("question {number}: the rules {lost:?} are missing"));
    }
    record.tags.extend(sight.tags.iter().cloned());
    for orphan in &sight.orphans {
        record.violations.push(format!("question {number}: {orphan} has no other half"));
    }
    for title in &sight.strange {
        record.violations.push(format!("question {number}: the memory has a section {title:?}"));
    }
    for (file, was_there) in &sight.read {
        match was_there {
            true => record.missed.remove(file),
            false => record.missed.insert(*file),
        };
    }
    for (words, result) in &sight.recalls {
        let Some(file) = words.rsplit('-').next().and_then(|number| number.parse().ok()) else {
            continue;
        };
        match result {
            Some(result) => {
                *record.recalled.entry(file).or_insert(false) |= result.contains(&secret(file).1);
            }
            // The job was killed meanwhile, so nobody has looked.
            None => record.recalled.retain(|asked, came| *asked != file || *came),
        }
    }
}

/// What a step asks for that was read before: now early, now late.
fn to_recall(step: u32, files: u32) -> Option<u32> {
    let last = step.checked_sub(FORGOTTEN).filter(|last| *last > 0)? * files;
    Some(step * 37 % last + 1)
}

fn plan(step: u32, steps: u32) -> Value {
    let parts: Vec<Value> = (0..steps.div_ceil(PLANNING))
        .map(|part| {
            let (first, last) = (part * PLANNING + 1, ((part + 1) * PLANNING).min(steps));
            let status = match step {
                step if last <= step => "completed",
                step if first <= step + 1 => "in_progress",
                _ => "pending",
            };
            json!({"step": format!("the steps {first} to {last}"), "status": status})
        })
        .collect();
    let decided = DECIDING.contains(&step).then(|| rule(&format!("cobalt-{step}")));
    json!({"steps": parts, "decisions": decided.into_iter().collect::<Vec<String>>()})
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::script::Dialect;

    const COURSE: Course = Course {
        steps: 3,
        window: 2_000,
        written: 100,
        files: 1,
        lines: 9,
        density: 250,
        too_long: TooLong::Wrong,
    };

    fn question(told: &str) -> Recorded {
        let message = json!({"role": "user", "content": told});
        let body = json!({"system": "You are", "messages": [message], "max_tokens": 100});
        Recorded {
            dialect: Dialect::Messages,
            path: String::new(),
            headers: Vec::new(),
            bytes: body.to_string().into_bytes(),
            body,
            at: Instant::now(),
            connection: 0,
        }
    }

    #[test]
    fn a_rule_that_is_forgotten_is_noticed_and_so_is_a_step() {
        let (mut marathon, record) = Marathon::new(COURSE, |_| Summary::Good);
        marathon.answer(&question(&rule("x-1")));
        assert_eq!(look(&record).violations, [""; 0]);
        marathon.answer(&question("nothing is known of any rule"));
        assert_eq!(look(&record).violations, ["question 2: the rules [\"x-1\"] are missing"]);
        assert_eq!(look(&record).ordered[&0], 2);
    }

    #[test]
    fn a_question_that_is_too_long_is_noticed_or_refused() {
        let long = question(&"word ".repeat(1_600));
        let (mut marathon, record) = Marathon::new(COURSE, |_| Summary::Good);
        marathon.answer(&long);
        assert_eq!(look(&record).violations.len(), 1);
        let course = Course { too_long: TooLong::Refused, ..COURSE };
        let (mut marathon, record) = Marathon::new(course, |_| Summary::Good);
        assert!(matches!(marathon.answer(&long), Turn::Faulty(Fault::Status(400, ..), _)));
        let record = look(&record);
        assert_eq!((record.refused, record.questions), (1, 0));
    }
}
