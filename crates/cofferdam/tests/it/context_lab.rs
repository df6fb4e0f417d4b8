//! Jobs that are longer than their model's window, beside a model that knows nothing
//! but what it is sent.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use cofferdam_testkit::marathon::{Course, Marathon, Record, Summary, TooLong, look, said};
use cofferdam_testkit::{Dialect, Recorded, Turn};
use serde_json::{Value, json};

use crate::agent::{Agent, of_kind};
use crate::invocation::{Invocation, Ran, Running};

/// Longer than the longest job here takes, also where everything is slow.
const PATIENCE: Duration = Duration::from_secs(500);

/// Three million tokens of answers and outputs in a large window.
pub(crate) const MARATHON: Course = Course {
    steps: 96,
    window: 200_000,
    written: 32_000,
    files: 2,
    lines: 420,
    density: 285,
    too_long: TooLong::Wrong,
};

/// Less, in a small window.
pub(crate) const SPRINT: Course =
    Course { steps: 12, window: 32_000, written: 8_000, lines: 100, ..MARATHON };

/// So many bytes they are at least.
pub(crate) const MARATHON_BYTES: u64 = 12_000_000;

/// A long job: its model with a directory to work in, and what the model sees.
pub(crate) struct Long {
    pub(crate) agent: Agent,
    pub(crate) seen: Seen,
}

impl Long {
    /// One whose summaries are all good.
    pub(crate) fn new(course: Course) -> Self {
        Self::with(course, |_| Summary::Good)
    }

    /// One whose n-th summary is this.
    pub(crate) fn with(
        course: Course,
        summaries: impl FnMut(usize) -> Summary + Send + 'static,
    ) -> Self {
        let (mut marathon, record) = Marathon::new(course, summaries);
        Self::of(Dialect::Messages, course, record, move |request| marathon.answer(request))
    }

    /// One in another wire format.
    pub(crate) fn speaking(dialect: Dialect, course: Course) -> Self {
        let (mut marathon, record) = Marathon::new(course, |_| Summary::Good);
        Self::of(dialect, course, record, move |request| marathon.answer(request))
    }

    /// One whose work is all done by the coder.
    pub(crate) fn delegated(course: Course) -> Self {
        let (mut marathon, record) = Marathon::new(course, |_| Summary::Good);
        Self::of(Dialect::Messages, course, record, move |request| {
            let system = request.body["system"].to_string();
            match request.body["messages"].as_array().map_or(0, Vec::len) {
                _ if !system.contains("You are Cofferdam") => marathon.answer(request),
                1 => Turn::call("delegate", json!({ "instruction": course.task() })),
                _ => Turn::text("The coder has done it."),
            }
        })
    }

    fn of(
        dialect: Dialect,
        course: Course,
        record: Arc<Mutex<Record>>,
        mut model: impl FnMut(&Recorded) -> Turn + Send + 'static,
    ) -> Self {
        let agent = Agent::with(dialect, move |request, _| model(request));
        Self { agent, seen: Seen { course, record } }
    }

    fn run(&self, words: &[&str]) -> Invocation {
        let window = self.seen.course.window.to_string();
        self.agent.run(&["--json", "--context-window", &window]).words(words)
    }

    /// `cofferdam run` of the task.
    pub(crate) fn start(&self) -> Running {
        self.run(&["--max-turns", "5000", &self.seen.course.task()]).spawn()
    }

    /// `cofferdam run --last`, with something to say.
    pub(crate) fn resume(&self, words: &str) -> Running {
        self.run(&["--last", words]).spawn()
    }
}

/// What the model of a long job sees.
pub(crate) struct Seen {
    course: Course,
    record: Arc<Mutex<Record>>,
}

impl Seen {
    /// What happened so far.
    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        look(&self.record)
    }

    /// Waits until something is so of what happened.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Record) -> bool) {
        patiently(what, || is_so(&self.record()));
    }

    /// Nothing was wrong with any question, and each step was done once, in its order,
    /// with the tags of all rules that were known; the last line has all there are.
    #[track_caller]
    pub(crate) fn went_well(&self, ledger: &str) {
        let record = self.record();
        assert_eq!(record.violations, [""; 0]);
        let steps: Vec<&str> = ledger.lines().map(|line| line.get(..9).unwrap()).collect();
        let wanted: Vec<String> =
            (0..=self.course.steps).map(|step| format!("step {step:04}")).collect();
        assert_eq!(steps, wanted);
        for tag in &record.tags {
            let tag = format!(" [{tag}]");
            let with: Vec<bool> = ledger.lines().map(|line| line.contains(&tag)).collect();
            assert!(with.is_sorted() && with.last() == Some(&true), "{tag}: {with:?}");
        }
    }

    /// What was asked for again has come, each time, if it had ever been read.
    #[track_caller]
    pub(crate) fn recalled_all(&self) {
        let record = self.record();
        let missing = record.recalled.iter().filter(|(_, came)| !**came);
        let missing: Vec<_> = missing.filter(|(file, _)| !record.missed.contains(file)).collect();
        assert!(!record.recalled.is_empty() && missing.is_empty(), "{missing:?}");
    }
}

/// Waits for the end of a long run.
pub(crate) fn ended(running: Running) -> Ran {
    patiently("the end of the job", || running.has_ended());
    running.wait()
}

/// Waits until something is so, for as long as a long job takes.
pub(crate) fn patiently(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Bytes of everything that was said, called and put out, by the job's log.
pub(crate) fn history(records: &[Value]) -> u64 {
    records.iter().map(said).sum()
}

/// How often the conversation was shortened so: pruned, by a model's summary, by rule.
pub(crate) fn cuts(records: &[Value]) -> [usize; 3] {
    let cuts = of_kind(records, "context_cut");
    let count = |is: fn(&Value) -> bool| cuts.iter().filter(|cut| is(&cut["cut"])).count();
    [
        count(|cut| cut["how"] == "pruned"),
        count(|cut| cut["by"] == "model"),
        count(|cut| cut["by"] == "rule"),
    ]
}
