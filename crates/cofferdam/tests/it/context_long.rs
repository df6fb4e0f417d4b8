//! A job of three million tokens in a window of 200,000: nothing that matters is
//! forgotten, nothing is done twice, and what was let go is found again.

use cofferdam_testkit::marathon::Course;

use crate::context_lab::{LARGE, Long, cuts, ended, history};

#[test]
fn a_job_of_three_million_tokens_keeps_its_rules_and_repeats_nothing() {
    let course = Course { steps: 96, window: LARGE, written: 32_000, lines: 420 };
    let long = Long::new(course);
    ended(long.start()).expect_code(0);
    let transcript = long.agent.transcript();
    let bytes = history(&transcript);
    crate::tell(&format!("{bytes} {:?}", cuts(&transcript)));
    let r = long.record().clone();
    crate::tell(&format!(
        "{} {} {} {} {:?} {} {:?} {:?}",
        r.questions, r.summaries, r.most_tokens, r.most_bytes, r.read, r.cuts, r.tags, r.recalled
    ));
    long.went_well(&long.agent.file("ledger.txt"));
}
