//! Jobs longer than their window with models of every wire format, and in a coder's own
//! conversation: no question is too long, and no call is without its result.

use cofferdam_testkit::Dialect;
use cofferdam_testkit::marathon::{Course, TooLong};

use crate::agent::of_kind;
use crate::context_lab::{Long, SPRINT, cuts, ended};

/// A job of this length goes to its end, cut on the way.
fn goes_well(long: &Long) {
    ended(long.start()).expect_code(0);
    let [_, by_model, by_rule] = cuts(&long.agent.transcript());
    assert!(by_model > 5 && by_rule == 0, "{by_model} {by_rule}");
    let record = long.seen.record().clone();
    assert!(record.most_tokens > SPRINT.window / 2, "{}", record.most_tokens);
    assert!(record.ordered.values().all(|times| *times == 1), "{:?}", record.ordered);
    long.seen.went_well(&long.agent.file("ledger.txt"));
}

#[test]
fn a_model_of_chat_completions() {
    goes_well(&Long::speaking(Dialect::Chat, SPRINT));
}

#[test]
fn a_model_of_responses() {
    goes_well(&Long::speaking(Dialect::Responses, SPRINT));
}

#[test]
fn a_model_that_finds_a_question_too_long_in_each_of_them() {
    for dialect in [Dialect::Chat, Dialect::Responses] {
        let course = Course { files: 3, density: 900, too_long: TooLong::Refused, ..SPRINT };
        let long = Long::speaking(dialect, course);
        ended(long.start()).expect_code(0);
        let refused = long.seen.record().refused;
        let transcript = long.agent.transcript();
        let [pruned, ..] = cuts(&transcript);
        assert!(pruned > 0);
        let failed = of_kind(&transcript, "model_failed").len();
        assert!((1..=3).contains(&refused) && failed == refused, "{refused} {failed}");
        long.seen.went_well(&long.agent.file("ledger.txt"));
    }
}

#[test]
fn a_coder_in_a_conversation_of_its_own() {
    let long = Long::delegated(SPRINT);
    goes_well(&long);
    let transcript = long.agent.transcript();
    let cut = of_kind(&transcript, "context_cut");
    assert!(cut.iter().all(|one| one["thread"] == 1), "{cut:?}");
    // Whoever delegated knows which files were changed, and is asked twice only.
    let asked = of_kind(&transcript, "model_asked");
    assert_eq!(asked.iter().filter(|one| one["role"] == "orchestrator").count(), 2);
}
