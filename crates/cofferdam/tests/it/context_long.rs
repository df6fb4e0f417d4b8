//! A job of three million tokens in a window of 200,000: nothing that matters is
//! forgotten, nothing is done twice, and what was let go is found again.

use crate::context_lab::{Long, MARATHON, MARATHON_BYTES, cuts, ended, history};

#[test]
fn a_job_of_three_million_tokens_keeps_its_rules_and_repeats_nothing() {
    let long = Long::new(MARATHON);
    ended(long.start()).expect_code(0);
    let transcript = long.agent.transcript();
    let bytes = history(&transcript);
    let record = long.seen.record().clone();
    crate::tell(&format!(
        "{bytes} bytes, cuts {:?}, {} questions, {} of them after a cut, {} for summaries; at most \
         {} tokens, {} bytes; {} tokens read, {} of them from a cache",
        cuts(&transcript),
        record.questions,
        record.cuts,
        record.summaries,
        record.most_tokens,
        record.most_bytes,
        record.read.0,
        record.read.1
    ));
    // First what matters: whatever is missing makes the history another one.
    long.seen.went_well(&long.agent.file("ledger.txt"));
    long.seen.recalled_all();
    assert!(bytes >= MARATHON_BYTES, "{bytes}");
    // Of both kinds, and none of them by rule: the summariser does its work.
    let [pruned, summarised, by_rule] = cuts(&transcript);
    assert!(pruned > 5 && summarised > 10 && by_rule == 0, "{pruned} {summarised} {by_rule}");
    // Rules of the task, and what was decided on the way.
    assert_eq!(record.tags.len(), 2 + 3);
    assert!(record.ordered.values().all(|times| *times == 1), "{:?}", record.ordered);
    // Cuts are rare: between two of them the provider finds what it has read before.
    assert!(record.cuts * 2 < record.questions, "{} of {}", record.cuts, record.questions);
}
