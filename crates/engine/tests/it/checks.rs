//! Handing in: what the checks say decides, and nothing else.

use cofferdam_engine::{Effect, Input};
use cofferdam_types::{CallId, Ending, Event, JobSpec, ThreadId};

use crate::world::{World, calls, check, says, spec};

fn checked() -> JobSpec {
    JobSpec { checks: vec!["make test".to_owned()], ..spec() }
}

const FINISH: (&str, &str) = ("finish", r#"{"summary":"it works"}"#);

#[test]
fn without_checks_the_work_is_complete_and_not_verified() {
    let mut world = World::asking(spec());
    world.answer(calls(&[FINISH]));
    let summary = "it works".to_owned();
    assert_eq!(world.ending(), Ending::Complete { summary, verified: false });
}

#[test]
fn a_passed_check_verifies_the_work() {
    for handed_in in [calls(&[FINISH]), says("it works")] {
        let mut world = World::asking(checked());
        let (_, effects) = world.answer(handed_in);
        assert_eq!(effects, [Effect::Check]);
        world.hear(Input::Checked { results: vec![check(0)] });
        let summary = "it works".to_owned();
        assert_eq!(world.ending(), Ending::Complete { summary, verified: true });
    }
}

#[test]
fn fewer_results_than_checks_prove_nothing() {
    let mut spec = checked();
    spec.checks.push("make lint".to_owned());
    let mut world = World::asking(spec);
    world.answer(calls(&[FINISH]));
    world.hear(Input::Checked { results: vec![check(0)] });
    world.question();
}

#[test]
fn a_failed_check_is_told_to_the_model_which_tries_again() {
    let mut world = World::asking(checked());
    world.answer(calls(&[FINISH]));
    world.hear(Input::Checked { results: vec![check(1)] });
    let told = world.result_of(CallId(1));
    assert!(told.contains("its output") && told.contains("exit code: 1"), "{told}");
    world.answer(says("now it works"));
    world.hear(Input::Checked { results: vec![check(2)] });
    assert!(world.last_words(0).contains("exit code: 2"));
    world.question();
}

#[test]
fn work_that_fails_its_checks_to_the_last_attempt_is_unverified() {
    let mut world = World::asking(checked());
    for _ in 0..3 {
        world.answer(calls(&[FINISH]));
        world.hear(Input::Checked { results: vec![check(1)] });
    }
    assert_eq!(world.ending(), Ending::Unverified { summary: "it works".to_owned() });
}

#[test]
fn a_model_that_gives_up_is_believed_without_checks() {
    let mut world = World::asking(checked());
    world.answer(calls(&[("finish", r#"{"summary":"no compiler","success":false}"#)]));
    assert_eq!(world.ending(), Ending::Failed { reason: "no compiler".to_owned() });
}

#[test]
fn what_the_user_says_meanwhile_keeps_the_job_going() {
    for handed_in in [calls(&[FINISH]), says("it works")] {
        let mut world = World::asking(checked());
        world.answer(handed_in);
        world.hear(Input::UserSaid { text: "and add a README".to_owned() });
        world.hear(Input::Checked { results: vec![check(0)] });
        assert!(world.last_words(0).contains("and add a README"));
        world.question();
    }
}

#[test]
fn what_the_user_says_during_the_last_checks_keeps_the_job_going() {
    for handed_in in [calls(&[FINISH]), says("it works")] {
        let mut world = World::asking(JobSpec { attempts: 1, ..checked() });
        world.answer(handed_in);
        world.hear(Input::UserSaid { text: "and add a README".to_owned() });
        world.hear(Input::Checked { results: vec![check(1)] });
        assert!(world.last_words(0).contains("and add a README"));
        world.question();
    }
}

#[test]
fn fewer_results_than_checks_prove_nothing_and_keep_the_job_going() {
    for handed_in in [calls(&[FINISH]), says("it works")] {
        let mut world = World::asking(checked());
        world.answer(handed_in);
        world.hear(Input::Checked { results: Vec::new() });
        let messages = world.run.prompt(&world.settings, ThreadId(0)).messages;
        let last = format!("{:?}", messages.last().unwrap());
        assert!(last.contains("Not every check was run"), "{last}");
        world.question();
    }
}

#[test]
fn a_last_word_is_not_the_last_if_the_user_spoke_before_it_came() {
    for spec in [spec(), checked()] {
        let mut world = World::asking(spec);
        world.hear(Input::UserSaid { text: "and add a README".to_owned() });
        world.answer(says("it works"));
        assert!(world.last_words(0).contains("and add a README"));
        world.question();
    }
}

#[test]
fn work_that_cannot_be_handed_over_is_not_complete() {
    let mut world = World::asking(spec());
    world.answer(calls(&[FINISH]));
    let problem = Some("disk full".to_owned());
    let (events, _) = world.hear(Input::Delivered { changes: Vec::new(), problem });
    let [Event::Ended { ending: Ending::Failed { reason }, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(reason.contains("disk full"), "{reason}");
}
