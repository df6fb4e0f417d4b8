//! `kill -9` in the middle of a long job, and while a summary is being asked for: it goes
//! on with everything it knew, and does nothing twice.

use cofferdam_testkit::marathon::{Record, Summary, rule};
use rustix::process::Signal;
use serde_json::Value;

use crate::agent::of_kind;
use crate::context_lab::{Long, MARATHON, MARATHON_BYTES, cuts, ended, history};

/// Those of the questions for a summary that nobody answers.
const UNANSWERED: [usize; 2] = [2, 9];

/// A moment at which the process is killed.
type Moment = (&'static str, fn(&Record) -> bool);

const MOMENTS: [Moment; 4] = [
    ("the first steps", |record| record.step >= 9),
    ("a summary that is asked for", |record| record.summaries > UNANSWERED[0]),
    ("the middle", |record| record.step >= 40),
    ("another summary that is asked for", |record| record.summaries > UNANSWERED[1]),
];

#[test]
fn a_long_job_that_is_killed_again_and_again_loses_nothing_and_repeats_nothing() {
    let long = Long::with(MARATHON, |number| match UNANSWERED.contains(&number) {
        true => Summary::Stall,
        false => Summary::Good,
    });
    let mut running = long.start();
    for (number, (what, is_so)) in (1..).zip(MOMENTS) {
        long.seen.until(what, |record| is_so(record) || running.has_ended());
        running.signal(Signal::KILL);
        running.wait().expect_code(-9);
        // Each time the user adds a rule.
        running = long.resume(&rule(&format!("delta-0{number}")));
    }
    ended(running).expect_code(0);
    let transcript = long.agent.transcript();
    assert!(history(&transcript) >= MARATHON_BYTES, "{}", history(&transcript));
    assert_eq!(of_kind(&transcript, "taken_up").len(), 1 + MOMENTS.len());
    // It may just have been asking for one of the others.
    let abandoned = abandoned_summaries(&transcript);
    assert!((UNANSWERED.len()..=MOMENTS.len()).contains(&abandoned), "{abandoned}");
    let [_, summarised, _] = cuts(&transcript);
    assert!(summarised > 10, "{summarised}");
    assert_eq!(long.seen.record().tags.len(), 2 + 3 + MOMENTS.len());
    long.seen.went_well(&long.agent.file("ledger.txt"));
    long.seen.recalled_all();
}

/// Questions for a summary that nobody waited for any more.
fn abandoned_summaries(transcript: &[Value]) -> usize {
    let failed = of_kind(transcript, "model_failed").into_iter();
    let abandoned: Vec<&Value> = failed
        .filter(|record| record["failure"]["kind"] == "abandoned")
        .map(|record| &record["request"])
        .collect();
    let asked = of_kind(transcript, "model_asked").into_iter();
    let summaries = asked.filter(|record| record["role"] == "summariser");
    summaries.filter(|record| abandoned.contains(&&record["request"])).count()
}
