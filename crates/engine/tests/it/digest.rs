//! Something long is read piece by piece, and the call gets what was found.

use cofferdam_engine::{Effect, Input, digest_spec};
use cofferdam_types::{Event, FailureKind, Reading, Role, ThreadId, ToolStatus};

use crate::world::{World, calls, says, spec};

/// A world in which a file of so many pieces is being read.
fn reading(pieces: u32) -> World {
    let mut world = World::asking(spec());
    let tools = &mut world.settings.orchestrator.tools;
    *tools = tools.iter().cloned().chain([digest_spec()]).collect();
    world.answer(calls(&[("digest", r#"{"path":"big.log","question":"Why did it stop?"}"#)]));
    let call = world.running()[0];
    let reading = Reading { handle: "digest-1".to_owned(), pieces };
    world.hear(Input::Loaded { call, reading });
    world
}

fn piece(world: &World) -> Option<(String, u32)> {
    world.run.prompt(&world.settings, ThreadId(1)).piece
}

#[test]
fn each_piece_is_read_once_and_then_the_notes() {
    let mut world = reading(2);
    let asked = |effect: &Effect| matches!(effect, Effect::AskModel { role: Role::Summariser, .. });
    assert!(world.open.iter().any(asked), "{:?}", world.open);
    assert_eq!(piece(&world), Some(("digest-1".to_owned(), 0)));
    assert!(world.last_words(1).contains("Why did it stop?"));
    world.answer(says("nothing here"));
    assert_eq!(piece(&world), Some(("digest-1".to_owned(), 1)));
    world.answer(says("the disk was full at line 9"));
    assert_eq!(piece(&world), None);
    let notes = world.last_words(1);
    assert!(notes.contains("nothing here") && notes.contains("line 9"), "{notes}");
    let (events, _) = world.answer(says("The disk was full."));
    let ended = events.iter().find_map(|event| match event {
        Event::ToolEnded { output, thread: ThreadId(0), .. } => Some(output),
        _ => None,
    });
    assert_eq!(ended.unwrap().plain_text(), "The disk was full.");
    assert!(
        world
            .open
            .iter()
            .any(|effect| { matches!(effect, Effect::AskModel { role: Role::Orchestrator, .. }) })
    );
}

#[test]
fn what_was_read_is_not_read_again_after_a_crash() {
    let mut world = reading(3);
    world.answer(says("first"));
    world.crash();
    world.open_sandbox();
    assert_eq!(piece(&world), Some(("digest-1".to_owned(), 1)));
    assert_eq!(world.run, cofferdam_engine::Run::replay(&world.log).unwrap());
}

#[test]
fn a_reader_that_cannot_be_reached_fails_the_call_and_not_the_job() {
    let mut world = reading(2);
    let (events, _) = world.fail(FailureKind::Unauthorised);
    let ended = events.iter().find_map(|event| match event {
        Event::ToolEnded { output, .. } => Some(output.status),
        _ => None,
    });
    assert_eq!(ended, Some(ToolStatus::Failed));
    assert!(world.run.ending().is_none());
}
