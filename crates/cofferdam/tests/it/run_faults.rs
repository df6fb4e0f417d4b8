//! Models that fail in the middle of work: what can be recovered is recovered,
//! nothing is done twice or by halves, and the log says what happened.

use std::time::Duration;

use cofferdam_testkit::{Dialect, Fault, ScriptedAnswer, Turn};
use serde_json::Value;

use crate::agent::{Agent, SOON, bash, ending, of_kind, records};

/// What follows a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The question is put again.
    AskedAgain,
    /// The model is told, and makes its call anew.
    Told,
    /// Nothing: the answer can be used.
    Used,
}

/// Work before the fault, work hit by it, work after: the file must hold exactly
/// one, two, three, whatever happened on the way.
fn survives(fault: Fault, then: Then) {
    survives_from(fault, then, bash("echo two >> log.txt"));
}

fn survives_from(fault: Fault, then: Then, hit: Turn) {
    for dialect in Dialect::ALL {
        if !fault.dialects().contains(&dialect) {
            continue;
        }
        let mut turns = vec![bash("echo one >> log.txt"), hit.clone().but(fault.clone())];
        if then != Then::Used {
            turns.push(bash("echo two >> log.txt"));
        }
        turns.push(bash("echo three >> log.txt"));
        let agent = Agent::new(dialect, turns);
        agent.configure("[model]\nidle_timeout = \"500ms\"\n");
        let ran = agent.run(&["--json", "write it"]).run().expect_code(0);
        assert_eq!(agent.file("log.txt"), "one\ntwo\nthree\n", "{dialect:?} {fault:?}");
        assert!(ran.elapsed < SOON, "{dialect:?} {fault:?}: {:?}", ran.elapsed);
        let records = records(&ran.stdout);
        let failed = of_kind(&records, "model_failed").len();
        assert_eq!(failed, usize::from(then == Then::AskedAgain), "{dialect:?} {fault:?}");
        let refused = of_kind(&records, "tool_ended")
            .into_iter()
            .filter(|record| record["output"]["status"] == "refused");
        let told = refused.count() + usize::from(said_again(&agent));
        assert_eq!(told > 0, then == Then::Told, "{dialect:?} {fault:?}");
        assert_eq!(ending(&ran)["how"], "complete");
    }
}

/// Whether the model was told that its answer was empty or cut.
fn said_again(agent: &Agent) -> bool {
    agent.requests().iter().any(|request| {
        let body = request.body.to_string();
        body.contains("answer was empty") || body.contains("reached the output limit")
    })
}

#[test]
fn too_many_requests_are_waited_for() {
    for dialect in Dialect::ALL {
        let busy = Turn::status(429, &[("retry-after", "1")], "slow down");
        let agent =
            Agent::new(dialect, [bash("echo one >> log.txt"), busy, bash("echo two >> log.txt")]);
        let ran = agent.run(&["--json", "write it"]).run().expect_code(0);
        assert_eq!(agent.file("log.txt"), "one\ntwo\n");
        let requests = agent.requests();
        let waited = requests[2].at - requests[1].at;
        assert!(waited >= Duration::from_secs(1) && waited < SOON, "{waited:?}");
        let records = records(&ran.stdout);
        let failed = of_kind(&records, "model_failed");
        assert_eq!(failed[0]["failure"]["kind"], "rate_limited");
    }
}

#[test]
fn a_server_that_is_broken_for_a_moment_is_asked_again() {
    for status in [500, 503, 529] {
        survives(Fault::Status(status, Vec::new(), "broken".to_owned()), Then::AskedAgain);
    }
}

#[test]
fn an_error_event_inside_a_good_stream_is_asked_again() {
    survives(Fault::ErrorEvent, Then::AskedAgain);
}

#[test]
fn a_connection_reset_in_the_middle_of_a_call_runs_nothing() {
    survives(Fault::ResetMidCall, Then::AskedAgain);
}

#[test]
fn a_stream_that_ends_cleanly_in_the_middle_is_not_taken_for_an_answer() {
    for fault in [Fault::EndMidCall, Fault::EndMidEvent, Fault::NoStopReason] {
        survives(fault, Then::AskedAgain);
    }
}

#[test]
fn text_before_the_break_makes_no_difference() {
    let answer = |_| ScriptedAnswer {
        text: "I will now write the second line.".to_owned(),
        calls: vec![("bash".to_owned(), serde_json::json!({ "command": "echo two >> log.txt" }))],
        ..ScriptedAnswer::default()
    };
    for fault in
        [Fault::ResetMidCall, Fault::ResetAfterText, Fault::EndMidCall, Fault::EndAfterText]
    {
        survives_from(fault, Then::AskedAgain, Turn::Answer(answer(())));
    }
}

#[test]
fn a_stalled_answer_is_given_up_and_asked_for_again() {
    for fault in [Fault::StallHeaders, Fault::StallStream] {
        survives(fault, Then::AskedAgain);
    }
}

#[test]
fn cut_arguments_are_told_and_never_run() {
    survives(Fault::CutArguments, Then::Told);
}

#[test]
fn an_unknown_tool_is_told() {
    survives(Fault::UnknownTool, Then::Told);
}

#[test]
fn an_empty_answer_is_not_the_end() {
    survives(Fault::Empty, Then::Told);
}

#[test]
fn an_answer_cut_at_the_output_limit_is_not_the_end() {
    survives(Fault::OutputLimit, Then::Told);
    let text = Turn::text("I think that the second line should be written by");
    survives_from(Fault::OutputLimit, Then::Told, text);
}

#[test]
fn split_characters_come_together() {
    survives(Fault::SplitUtf8, Then::Used);
}

#[test]
fn bytes_that_are_no_text_do_not_stop_the_work() {
    for dialect in Dialect::ALL {
        let odd = ScriptedAnswer {
            text: "umlauts follow".to_owned(),
            calls: vec![("bash".to_owned(), serde_json::json!({"command": "echo two >> log.txt"}))],
            ..ScriptedAnswer::default()
        };
        let turns = [
            bash("echo one >> log.txt"),
            Turn::Answer(odd).but(Fault::InvalidUtf8),
            bash("echo three >> log.txt"),
        ];
        let agent = Agent::new(dialect, turns);
        agent.run(&["write it"]).run().expect_code(0);
        assert_eq!(agent.file("log.txt"), "one\ntwo\nthree\n", "{dialect:?}");
    }
}

#[test]
fn five_megabytes_of_text_are_taken() {
    for dialect in Dialect::ALL {
        let hit = Turn::calls([("bash", serde_json::json!({ "command": "echo two >> log.txt" }))]);
        let turns = [hit.but(Fault::HugeText(5_000_000)), bash("echo three >> log.txt")];
        let agent = Agent::new(dialect, turns);
        // More than the answer has: a summary of it would be asked of the same script.
        agent.configure("[model]\ncontext_window = 10000000\n");
        let ran = agent.run(&["--json", "write it"]).run().expect_code(0);
        assert_eq!(agent.file("log.txt"), "two\nthree\n", "{dialect:?}");
        let longest = records(&ran.stdout)
            .iter()
            .filter_map(|record| record["answer"]["blocks"][0]["text"].as_str().map(str::len))
            .max();
        assert!(longest.unwrap() >= 5_000_000, "{dialect:?} {longest:?}");
    }
}

#[test]
fn failure_for_ever_is_bounded_and_told() {
    for dialect in Dialect::ALL {
        let agent = Agent::with(dialect, |_, _| Turn::status(500, &[], "broken for good"));
        agent.configure("[model]\nretries = 2\n");
        let ran = agent.run(&["--json", "write it"]).run().expect_code(5);
        assert_eq!(agent.requests().len(), 3);
        let ending = ending(&ran);
        assert_eq!(ending["how"], "model_unavailable");
        let reason = ending["reason"].as_str().unwrap();
        assert!(reason.contains("3 times") && reason.contains("broken for good"), "{reason}");
    }
}

#[test]
fn a_wrong_key_is_told_at_once_and_never_shown() {
    for dialect in Dialect::ALL {
        let agent = Agent::with(dialect, |_, _| Turn::status(401, &[], "invalid key"));
        let ran = agent.run(&["write it"]).run().expect_error(5, &["invalid key"]);
        assert_eq!(agent.requests().len(), 1);
        let transcript: Vec<Value> = agent.transcript();
        let all = format!("{}{}{transcript:?}", ran.text(), ran.errors());
        assert!(!all.contains("key-of-the-test"));
    }
}
