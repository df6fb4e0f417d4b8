//! Summarisers that fail, stall, talk nonsense, say too much or nothing: the job goes on.

use cofferdam_testkit::marathon::{Course, Summary};

use crate::agent::of_kind;
use crate::context_lab::{Long, SPRINT, cuts, ended};

/// A job with this summariser goes on to its end, with summaries made by rule.
fn goes_on(how: Summary, told: &str) {
    let long = Long::with(SPRINT, move |_| how);
    ended(long.start()).expect_code(0);
    let transcript = long.agent.transcript();
    let [_, by_model, by_rule] = cuts(&transcript);
    assert!(by_model == 0 && by_rule > 1, "{by_model} by the model, {by_rule} by rule");
    // Asked for a few times, and not for ever.
    let asked = long.seen.record().summaries;
    assert!((by_rule..=by_rule * 12).contains(&asked), "{asked} for {by_rule}");
    let notes = of_kind(&transcript, "noted");
    assert!(notes.iter().any(|note| note["text"].as_str().unwrap().contains(told)), "{notes:?}");
    long.seen.went_well(&long.agent.file("ledger.txt"));
}

#[test]
fn one_that_fails() {
    goes_on(Summary::Status(500), "it did not come");
}

#[test]
fn one_that_is_refused_for_good() {
    goes_on(Summary::Status(400), "it did not come");
}

#[test]
fn one_that_talks_nonsense() {
    goes_on(Summary::Nonsense, "makes sense");
}

#[test]
fn one_that_says_too_much() {
    goes_on(Summary::TooLong, "too long");
}

#[test]
fn one_that_says_nothing() {
    goes_on(Summary::Empty, "empty");
}

#[test]
fn one_that_is_cut_at_the_output_limit() {
    goes_on(Summary::Cut, "it did not come");
}

#[test]
fn one_that_stalls_and_then_works() {
    let long = Long::with(SPRINT, |number| match number {
        0 => Summary::Stall,
        _ => Summary::Good,
    });
    long.agent.configure("[model]\nidle_timeout = \"10s\"\n");
    ended(long.start()).expect_code(0);
    let transcript = long.agent.transcript();
    let failed = of_kind(&transcript, "model_failed");
    assert!(failed.iter().any(|one| one["failure"]["kind"] == "stalled"), "{failed:?}");
    let [_, by_model, by_rule] = cuts(&transcript);
    assert!(by_model > 1 && by_rule == 0, "{by_model} by the model, {by_rule} by rule");
    long.seen.went_well(&long.agent.file("ledger.txt"));
}

#[test]
fn one_that_never_answers() {
    let course = Course { steps: 5, ..SPRINT };
    let long = Long::with(course, |_| Summary::Stall);
    long.agent.configure("[model]\nidle_timeout = \"2s\"\n");
    ended(long.start()).expect_code(0);
    let transcript = long.agent.transcript();
    let [_, by_model, by_rule] = cuts(&transcript);
    assert!(by_model == 0 && by_rule > 0, "{by_model} by the model, {by_rule} by rule");
    let (mut stalled, mut asked) = (0, "");
    for record in &transcript {
        match record["event"].as_str() {
            Some("model_asked") => asked = record["role"].as_str().unwrap(),
            Some("model_failed") if asked == "summariser" => {
                assert_eq!(record["failure"]["kind"], "stalled");
                stalled += 1;
            }
            // Three in a row, and not one more, before each that is made by rule.
            Some("context_cut") if record["cut"]["by"] == "rule" => {
                assert_eq!(std::mem::take(&mut stalled), 3);
            }
            _ => {}
        }
    }
    long.seen.went_well(&long.agent.file("ledger.txt"));
}
