//! Which calls begin when, and what becomes of those that make no sense.

use cofferdam_engine::Effect;
use cofferdam_types::{CallId, Ending, Event, Message, StepStatus, ThreadId, ToolStatus};

use crate::world::{World, calls, says, spec};

#[test]
fn calls_that_only_read_run_side_by_side() {
    let mut world = World::asking(spec());
    world.answer(calls(&[
        ("bash", r#"{"command":"sleep 1"}"#),
        ("read_file", r#"{"path":"a"}"#),
        ("bash", r#"{"command":"sleep 1 && ls"}"#),
    ]));
    assert_eq!(world.running(), [CallId(1), CallId(2), CallId(3)]);
}

#[test]
fn a_call_that_may_change_something_runs_alone_and_in_its_place() {
    let mut world = World::asking(spec());
    world.answer(calls(&[
        ("read_file", r#"{"path":"a"}"#),
        ("bash", r#"{"command":"make"}"#),
        ("read_file", r#"{"path":"b"}"#),
    ]));
    assert_eq!(world.running(), [CallId(1)]);
    world.done(CallId(1), "a");
    assert_eq!(world.running(), [CallId(2)]);
    world.done(CallId(2), "made");
    assert_eq!(world.running(), [CallId(3)]);
    world.done(CallId(3), "b");
    world.question();
}

#[test]
fn results_reach_the_model_in_the_order_of_the_calls() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("read_file", r#"{"path":"a"}"#), ("read_file", r#"{"path":"b"}"#)]));
    world.done(CallId(2), "second");
    world.done(CallId(1), "first");
    let prompt = world.run.prompt(&world.settings, ThreadId(0));
    let Some(Message::Tools { results }) = prompt.messages.last() else { panic!("no results") };
    let ids: Vec<&str> = results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(ids, ["id0", "id1"]);
}

#[test]
fn cut_arguments_are_told_to_the_model_and_never_run() {
    let mut world = World::asking(spec());
    let (_, effects) = world.answer(calls(&[("bash", r#"{"command":"rm -rf bu"#)]));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::RunTool { .. })));
    assert!(world.result_of(CallId(1)).contains("not valid JSON"));
    world.question();
}

#[test]
fn an_unknown_tool_is_told_with_those_there_are() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("shell", "{}")]));
    let told = world.result_of(CallId(1));
    assert!(told.contains("no tool \"shell\"") && told.contains("bash"), "{told}");
}

#[test]
fn a_plan_is_an_event_and_the_model_goes_on() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("plan", r#"{"steps":[{"step":"a","status":"in_progress"}]}"#)]));
    assert_eq!(world.run.plan()[0].status, StepStatus::InProgress);
    world.question();
}

#[test]
fn a_delegated_instruction_has_a_conversation_of_its_own() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("delegate", r#"{"instruction":"write a.py"}"#)]));
    assert_eq!(world.last_words(1), "write a.py");
    // The coder works with tools and reports.
    world.answer(calls(&[("write_file", "{}")]));
    world.done(world.running()[0], "written");
    world.answer(calls(&[("finish", r#"{"summary":"a.py is there"}"#)]));
    assert_eq!(world.result_of(CallId(1)), "a.py is there");
    // And the orchestrator is asked again.
    world.answer(says("all done"));
    assert_eq!(
        world.ending(),
        Ending::Complete { summary: "all done".to_owned(), verified: false }
    );
}

#[test]
fn the_coder_cannot_delegate() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("delegate", r#"{"instruction":"write a.py"}"#)]));
    world.answer(calls(&[("delegate", r#"{"instruction":"you do it"}"#)]));
    assert!(world.result_of(CallId(2)).contains("no tool"));
}

#[test]
fn the_same_call_with_the_same_result_again_and_again_is_stuck() {
    let mut world = World::asking(spec());
    for round in 1..=6 {
        world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
        world.done(world.running()[0], "error");
        if round == 3 {
            assert!(world.last_words(0).contains("same call with the same result"));
        }
    }
    let Ending::Failed { reason } = world.ending() else { panic!("{:?}", world.ending()) };
    assert!(reason.contains("stuck"), "{reason}");
}

#[test]
fn two_calls_that_take_turns_go_nowhere_either() {
    let mut world = World::asking(spec());
    for round in 0..12 {
        let command = ["make", "make clean"][round % 2];
        world.answer(calls(&[("bash", &format!(r#"{{"command":"{command}"}}"#))]));
        world.done(world.running()[0], command);
    }
    assert!(matches!(world.ending(), Ending::Failed { .. }));
}

#[test]
fn an_answer_with_more_calls_than_anybody_needs_is_cut_down() {
    let mut world = World::asking(spec());
    world.answer(calls(&vec![("read_file", r#"{"path":"a"}"#); 10_000]));
    for _ in 0..128 {
        world.done(world.running()[0], "a");
    }
    assert!(world.result_of(CallId(129)).contains("128 calls"));
    world.question();
}

#[test]
fn the_same_call_with_another_result_is_progress() {
    let mut world = World::asking(spec());
    for round in 0..10 {
        world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
        world.done(world.running()[0], &format!("error {round}"));
    }
    world.question();
}

#[test]
fn a_cancel_gives_every_call_its_end_and_starts_nothing() {
    let mut world = World::asking(spec());
    world.answer(calls(&[("bash", r#"{"command":"make"}"#), ("write_file", "{}")]));
    let cancel = cofferdam_engine::Input::Cancel { by: cofferdam_types::Cancel::User };
    let (events, effects) = world.hear(cancel);
    assert_eq!(effects, [Effect::Deliver]);
    let cancelled = events.iter().filter(|event| {
        matches!(event, Event::ToolEnded { output, .. } if output.status == ToolStatus::Cancelled)
    });
    assert_eq!(cancelled.count(), 2);
    // What still comes in changes nothing.
    assert_eq!(world.done(CallId(1), "late").0, []);
    let (events, _) = world.deliver();
    assert!(matches!(events[..], [Event::Ended { .. }]));
}
