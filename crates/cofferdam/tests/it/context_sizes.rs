//! Questions that would be longer than they may be, for other reasons than a long job.

use cofferdam_testkit::marathon::{Course, TooLong};

use crate::agent::of_kind;
use crate::context_lab::{Long, SPRINT, cuts, ended};

#[test]
fn one_answer_whose_outputs_are_larger_than_the_window_is_cut_to_it() {
    // Each turn reads more than twice the window at once.
    let course = Course { steps: 6, files: 8, lines: 400, ..SPRINT };
    let long = Long::new(course);
    ended(long.start()).expect_code(0);
    let [pruned, ..] = cuts(&long.agent.transcript());
    assert!(pruned >= 6, "{pruned}");
    long.seen.went_well(&long.agent.file("ledger.txt"));
}

#[test]
fn a_text_of_more_tokens_than_was_thought_is_refused_once_and_then_fits() {
    // Hardly more than a byte a token where four were expected, and a lot of it at once.
    let course = Course { files: 3, density: 900, too_long: TooLong::Refused, ..SPRINT };
    let long = Long::new(course);
    ended(long.start()).expect_code(0);
    let transcript = long.agent.transcript();
    let refused = long.seen.record().refused;
    let failed = of_kind(&transcript, "model_failed");
    assert_eq!(failed.len(), refused, "{failed:?}");
    assert!((1..=3).contains(&refused), "{refused}");
    long.seen.went_well(&long.agent.file("ledger.txt"));
}
