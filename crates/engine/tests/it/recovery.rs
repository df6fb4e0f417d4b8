//! A log that ends anywhere can be taken up.

use cofferdam_engine::{Effect, Input, ReplayError, Run};
use cofferdam_types::{
    CallId, Ending, Event, JobSpec, Message, Place, ThreadId, ToolOutput, ToolStatus,
};

use crate::world::{World, calls, check, says, spec};

#[test]
fn an_answer_that_was_not_stored_is_asked_for_again() {
    let mut world = World::asking(spec());
    let before = world.question();
    world.crash();
    world.open_sandbox();
    assert_ne!(world.question(), before);
    world.answer(says("done"));
    assert!(matches!(world.ending(), Ending::Complete { .. }));
}

#[test]
fn a_call_without_a_result_is_unknown_and_never_run_again() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("bash", r#"{"command":"make"}"#), ("write_file", "{}")]));
    world.crash();
    assert!(world.result_of(CallId(1)).contains("not known"));
    world.open_sandbox();
    // The one that had not begun begins now.
    assert_eq!(world.running(), [CallId(2)]);
}

#[test]
fn a_result_that_the_sandbox_kept_is_collected() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    world.run = Run::replay(&world.log).unwrap();
    let kept = ToolOutput::text(ToolStatus::Done, "made");
    world.hear(Input::TakeUp {
        version: "2".to_owned(),
        collected: vec![(CallId(1), kept)],
        say: None,
        finish: true,
    });
    assert_eq!(world.result_of(CallId(1)), "made");
}

#[test]
fn a_coder_goes_on_where_it_was() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("delegate", r#"{"instruction":"write"}"#)]));
    world.answer(calls(&[("write_file", "{}")]));
    world.crash();
    world.open_sandbox();
    world.answer(says("written"));
    assert_eq!(world.result_of(CallId(1)), "written");
    world.question();
}

#[test]
fn checks_that_were_cut_off_run_again_and_cost_no_attempt() {
    let mut world =
        World::asking(JobSpec { checks: vec!["make test".to_owned()], attempts: 1, ..spec() });
    world.answer(says("done"));
    world.crash();
    world.open_sandbox();
    assert!(world.open.contains(&Effect::Check));
    world.hear(Input::Checked { results: vec![check(0)] });
    assert!(matches!(world.ending(), Ending::Complete { verified: true, .. }));
}

#[test]
fn what_the_user_said_during_checks_is_heard_by_whoever_takes_the_job_up() {
    for handed_in in [calls(&[("finish", r#"{"summary":"done"}"#)]), says("done")] {
        let mut world = World::asking(JobSpec { checks: vec!["make test".to_owned()], ..spec() });
        world.answer(handed_in);
        world.hear(Input::UserSaid { text: "and a README".to_owned() });
        world.crash();
        world.open_sandbox();
        assert!(world.last_words(0).contains("and a README"));
        world.question();
    }
}

#[test]
fn a_job_that_was_being_handed_over_is_handed_over() {
    let mut world = World::asking(spec());
    world.answer(says("done"));
    world.crash();
    assert_eq!(world.open, [Effect::Deliver]);
    world.deliver();
    assert!(matches!(world.run.ended(), Some(Ending::Complete { .. })));
}

#[test]
fn a_cancelled_job_goes_on_when_it_is_taken_up() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    world.hear(Input::Cancel { by: cofferdam_types::Cancel::User });
    world.deliver();
    world.crash();
    world.open_sandbox();
    assert!(world.last_words(0).contains("taken up again"));
    world.answer(says("done"));
    assert!(matches!(world.ending(), Ending::Complete { .. }));
}

#[test]
fn a_job_that_was_stopped_and_not_handed_over_goes_on() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    world.hear(Input::Cancel { by: cofferdam_types::Cancel::User });
    world.crash();
    world.open_sandbox();
    world.answer(says("done"));
    assert!(matches!(world.ending(), Ending::Complete { .. }));
}

#[test]
fn what_is_said_to_a_job_that_was_done_is_heard() {
    let mut world = World::asking(spec());
    world.answer(says("done"));
    world.run = Run::replay(&world.log).unwrap();
    let say = Some("and a README".to_owned());
    world.hear(Input::TakeUp {
        version: "2".to_owned(),
        collected: Vec::new(),
        say,
        finish: false,
    });
    world.open_sandbox();
    assert!(world.last_words(0).contains("and a README"));
    world.question();
}

#[test]
fn a_wait_goes_on_after_a_crash() {
    let mut world = World::asking(spec());
    world.fail(cofferdam_types::FailureKind::Unavailable);
    world.crash();
    let wakes = world.open.iter().filter(|effect| matches!(effect, Effect::WakeAt(_)));
    assert_eq!(wakes.count(), 1);
}

#[test]
fn crashes_are_no_failures_of_the_model() {
    let mut world = World::asking(spec());
    for _ in 0..10 {
        world.crash();
        world.open_sandbox();
    }
    let (_, effects) = world.fail(cofferdam_types::FailureKind::RateLimited);
    assert!(matches!(effects[..], [Effect::WakeAt(_)]), "{effects:?}");
}

#[test]
fn the_workspace_is_looked_at_once() {
    let mut world = World::asking(spec());
    world.crash();
    let (_, effects) = world.hear(crate::world::opened());
    assert!(!effects.contains(&Effect::Prepare));
}

#[test]
fn a_log_with_a_gap_is_refused() {
    let mut world = World::asking(spec());
    world.log.remove(2);
    assert_eq!(Run::replay(&world.log), Err(ReplayError::Gap { expected: 3, found: 4 }));
    assert_eq!(Run::replay(&[]), Err(ReplayError::Empty));
    assert_eq!(Run::replay(&world.log[1..2]), Err(ReplayError::Gap { expected: 1, found: 2 }));
    world.log[0].event = Event::Noted { text: String::new() };
    assert_eq!(Run::replay(&world.log[..1]), Err(ReplayError::NoBeginning));
    world.log[0].v = 99;
    assert_eq!(Run::replay(&world.log), Err(ReplayError::Newer { version: 99 }));
}

#[test]
fn a_job_that_was_stopped_and_is_only_to_end_stays_stopped() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    world.hear(Input::Cancel { by: cofferdam_types::Cancel::User });
    world.run = Run::replay(&world.log).unwrap();
    world.hear(Input::TakeUp {
        version: "2".to_owned(),
        collected: Vec::new(),
        say: None,
        finish: true,
    });
    world.hear(Input::Delivered { changes: Vec::new(), problem: None });
    assert!(matches!(world.run.ended(), Some(Ending::Cancelled { .. })));
}

#[test]
fn a_job_that_is_paused_begins_nothing_until_it_is_taken_up() {
    let mut world = World::asking(spec());
    world.hear(Input::Pause);
    let (_, effects) = world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    assert_eq!(effects, []);
    assert!(world.run.paused());
    world.crash();
    assert!(!world.run.paused());
    world.open_sandbox();
    assert_eq!(world.running(), [CallId(1)]);
}

#[test]
fn a_job_that_is_resumed_before_it_rests_goes_on() {
    let mut world = World::asking(spec());
    world.hear(Input::Pause);
    world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    let say = Some("quickly".to_owned());
    let (events, _) = world.hear(Input::Resume { say });
    assert_eq!(events[0], cofferdam_types::Event::Resumed);
    assert!(!world.run.paused());
    assert_eq!(world.running(), [CallId(1)]);
}

#[test]
fn a_process_that_is_about_to_stop_begins_nothing_but_hears_what_comes() {
    let mut world = World::asking(spec());
    world.run.hold();
    let (events, effects) = world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    assert_eq!((events.len(), effects), (1, Vec::new()));
    world.crash();
    world.open_sandbox();
    assert_eq!(world.running(), [CallId(1)]);
}

/// What the model of the first conversation was shown.
fn shown(world: &World) -> Vec<Message> {
    world.run.prompt(&world.settings, ThreadId(0)).messages.into_owned()
}

#[test]
fn a_model_is_told_whether_its_sandbox_is_the_one_it_had() {
    let mut world = World::asking(spec());
    world.crash();
    world.find_sandbox();
    let words = world.last_words(0);
    assert!(words.contains("the same sandbox") && words.contains("still runs"), "{words}");
    assert!(!words.contains("new sandbox") && !words.contains("gone"), "{words}");
    let before = shown(&world);

    world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    world.crash();
    world.open_sandbox();
    let words = world.last_words(0);
    assert!(words.contains("a new sandbox") && words.contains("are gone"), "{words}");
    assert!(!words.contains("same sandbox"), "{words}");
    // What was said of the first time stays as it was said.
    assert!(shown(&world).starts_with(&before));
    assert_eq!(Run::replay(&world.log).unwrap(), world.run);
}

#[test]
fn a_process_that_dies_before_it_has_its_sandbox_says_nothing_false_of_it() {
    let mut world = World::asking(spec());
    let first = shown(&world);
    world.crash();
    world.crash();
    world.hear(Input::UserSaid { text: "and a README".to_owned() });
    world.crash();
    world.find_sandbox();
    let words = world.last_words(0);
    assert_eq!(words.matches("the same sandbox").count(), 3, "{words}");
    assert!(!words.contains("new sandbox"), "{words}");
    // In the order in which it happened.
    let (before, after) = words.split_once("and a README").unwrap();
    assert_eq!(before.matches("the same sandbox").count(), 2, "{words}");
    assert!(after.contains("the same sandbox"), "{words}");
    assert!(shown(&world).starts_with(&first));
    assert_eq!(Run::replay(&world.log).unwrap(), world.run);
}

#[test]
fn what_a_model_is_told_late_is_true_of_the_time_it_is_about() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("write_file", "{}"), ("bash", r#"{"command":"make"}"#)]));
    world.crash();
    world.find_sandbox();
    // Before the model is asked again, the next process dies, and its sandbox with it.
    assert_eq!(world.running(), [CallId(2)]);
    world.crash();
    world.open_sandbox();
    let words = world.last_words(0);
    let (same, new) = (words.find("the same sandbox"), words.find("a new sandbox"));
    assert!(same.is_some() && new.is_some() && same < new, "{words}");
}

/// A job whose image is what its own files ask for.
fn with_task_image() -> JobSpec {
    let mut spec = spec();
    spec.place.image = Some(Place::TASK_IMAGE.into());
    spec
}

#[test]
fn an_image_is_made_before_the_sandbox_and_stays_the_same_to_the_end() {
    let ready = |image: &str| Input::ImageReady { image: image.to_owned() };
    let mut world = World::created(with_task_image());
    world.take_up();
    assert_eq!(world.open, [Effect::MakeImage]);
    world.hear(Input::ImageStep { step: "install".to_owned() });
    assert_eq!(world.open, [Effect::MakeImage]);
    world.hear(ready("one"));
    assert_eq!((world.run.image(), &*world.open), (Some("one"), &[Effect::OpenSandbox][..]));
    world.open_sandbox();
    world.question();
    // Whoever takes it up has it made again where it is not there, and no other.
    world.crash();
    assert_eq!((world.run.image(), world.open.contains(&Effect::MakeImage)), (Some("one"), true));
    world.hear(ready("other"));
    assert_eq!(world.run.image(), Some("one"));
    // What comes when the sandbox is there is too late.
    world.open_sandbox();
    assert_eq!(world.hear(ready("third")), (Vec::new(), Vec::new()));
}

#[test]
fn without_its_image_a_job_ends_before_a_model_is_asked() {
    let mut world = World::created(with_task_image());
    world.take_up();
    world.hear(Input::SandboxFailed { reason: "no mmdebstrap".to_owned() });
    let Ending::SandboxUnavailable { reason } = world.ending() else { panic!() };
    assert_eq!(reason, "no mmdebstrap");
    assert!(!world.log.iter().any(|record| matches!(record.event, Event::ModelAsked { .. })));
}
