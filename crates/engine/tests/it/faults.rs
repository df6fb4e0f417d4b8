//! Models that fail, stop short or say nothing.

use std::time::Duration;

use cofferdam_engine::{Effect, Input};
use cofferdam_types::{
    Answer, CallId, Ending, FailureKind, ModelFailure, StopReason, Tokens, ToolStatus,
};

use crate::world::{World, calls, says, spec};

#[test]
fn a_failure_that_passes_is_retried_later_each_time() {
    let mut world = World::asking(spec());
    let mut waits = Vec::new();
    for _ in 0..3 {
        let (_, effects) = world.fail(FailureKind::Unavailable);
        let [Effect::WakeAt(at)] = effects[..] else { panic!("{effects:?}") };
        waits.push(at.since(world.now));
        // Waking too early does not count.
        assert_eq!(world.hear(Input::Woken).1, []);
        world.now = at;
        world.hear(Input::Woken);
    }
    assert!(waits[0] < waits[1] && waits[1] < waits[2], "{waits:?}");
    world.answer(says("done"));
    assert!(matches!(world.ending(), Ending::Complete { .. }));
}

#[test]
fn a_failure_for_ever_ends_after_a_bounded_number_of_attempts() {
    let mut world = World::asking(spec());
    for _ in 0..3 {
        let (_, effects) = world.fail(FailureKind::RateLimited);
        let [Effect::WakeAt(at)] = effects[..] else { panic!("{effects:?}") };
        world.now = at;
        world.hear(Input::Woken);
    }
    world.fail(FailureKind::RateLimited);
    let Ending::ModelUnavailable { reason } = world.ending() else { panic!() };
    assert!(reason.contains("4 times"), "{reason}");
}

#[test]
fn a_failure_that_does_not_pass_is_not_retried() {
    let mut world = World::asking(spec());
    world.fail(FailureKind::Unauthorised);
    assert!(matches!(world.ending(), Ending::ModelUnavailable { .. }));
}

#[test]
fn the_providers_own_wait_is_kept_and_one_too_long_is_not_waited_for() {
    for (seconds, waits) in [(2, true), (3000, false)] {
        let mut world = World::asking(spec());
        let failure = ModelFailure {
            kind: FailureKind::RateLimited,
            message: "later".to_owned(),
            retry_after: Some(Duration::from_secs(seconds)),
        };
        let request = world.question();
        let input = Input::ModelFailed { request, failure, tokens: Tokens::default() };
        let (_, effects) = world.hear(input);
        let wanted = Effect::WakeAt(world.now.after(Duration::from_secs(seconds)));
        assert_eq!(effects == [wanted], waits);
    }
}

#[test]
fn an_empty_answer_is_not_done() {
    let mut world = World::asking(spec());
    world.answer(says(""));
    assert!(world.last_words(0).contains("empty"));
    world.answer(says("done"));
    assert!(matches!(world.ending(), Ending::Complete { .. }));
}

#[test]
fn empty_answers_for_ever_end() {
    let mut world = World::asking(spec());
    for _ in 0..4 {
        world.answer(says("  "));
    }
    assert!(matches!(world.ending(), Ending::ModelUnavailable { .. }));
}

#[test]
fn an_answer_cut_at_the_output_limit_goes_on_and_its_calls_are_not_run() {
    let mut world = World::asking(spec());
    world.answer(Answer { stop: StopReason::OutputLimit, ..says("first half") });
    assert!(world.last_words(0).contains("output limit"));
    let (_, effects) = world.answer(Answer {
        stop: StopReason::OutputLimit,
        ..calls(&[("bash", r#"{"command":"ls"}"#)])
    });
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::RunTool { .. })));
    assert!(world.result_of(CallId(1)).contains("output limit"));
    world.answer(says("done"));
    assert!(matches!(world.ending(), Ending::Complete { .. }));
}

#[test]
fn a_refusal_ends_the_job_and_the_coders_only_its_call() {
    let refusal = Answer { stop: StopReason::Refused, ..says("I will not") };
    let mut world = World::asking(spec());
    world.answer(refusal.clone());
    let Ending::ModelUnavailable { reason } = world.ending() else { panic!() };
    assert!(reason.contains("I will not"), "{reason}");

    let mut world = World::asking(spec());
    world.answer(calls(&[("delegate", r#"{"instruction":"write"}"#)]));
    world.answer(refusal);
    assert!(world.result_of(CallId(1)).contains("I will not"));
    world.question();
}

#[test]
fn an_answer_to_a_question_given_up_changes_nothing() {
    let mut world = World::asking(spec());
    let request = world.question();
    world.fail(FailureKind::Stalled);
    let (events, effects) = world.hear(Input::ModelAnswered { request, answer: says("late") });
    assert_eq!((events, effects), (Vec::new(), Vec::new()));
}

#[test]
fn a_failed_tool_is_an_output_and_no_error() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("bash", r#"{"command":"false"}"#)]));
    let output = cofferdam_types::ToolOutput::text(ToolStatus::Failed, "exit code: 1");
    world.hear(Input::ToolEnded { call: CallId(1), output });
    world.question();
}
