//! What the models of a job are told of their tools, and models that become others.

use cofferdam_engine::{Input, Run};
use cofferdam_types::{
    Answer, Budget, Event, FailureKind, JobSpec, ModelName, Record, Role, ThreadId, Tokens,
};

use crate::world::{World, calls, says, spec};

const GOOD: &str = "The parser was looked at and rewritten; its tests pass now, and nothing else \
                    was found that would matter for the task.";

fn name(text: &str) -> ModelName {
    ModelName(text.to_owned())
}

/// A job whose models read little.
fn narrow() -> World {
    let budget = Budget { turns: 500, tokens: None, cost: None, time: None };
    let mut world = World::created(JobSpec { budget, ..spec() });
    for role in [
        &mut world.settings.orchestrator,
        &mut world.settings.coder,
        &mut world.settings.summariser,
    ] {
        role.window = 16_000;
    }
    world.take_up();
    world.open_sandbox();
    world
}

fn silent(answer: Answer) -> Answer {
    Answer { tokens: Tokens::default(), ..answer }
}

/// One answer with a call that brings something long.
fn work(world: &mut World, round: usize) {
    let command = format!(r#"{{"command":"make {round}"}}"#);
    world.answer(silent(calls(&[("bash", &command)])));
    world.done(world.running()[0], &format!("made {round}\n").repeat(900));
}

/// The last question that was put.
fn asked(world: &World) -> (Role, ModelName) {
    let mut asked = world.log.iter().rev().filter_map(|record| match &record.event {
        Event::ModelAsked { role, model, .. } => Some((*role, model.clone())),
        _ => None,
    });
    asked.next().unwrap()
}

/// Works until a summary is asked for.
fn until_summary(world: &mut World) -> ModelName {
    for round in 0..100 {
        match asked(world) {
            (Role::Summariser, model) => return model,
            _ => work(world, round),
        }
    }
    panic!("nobody was asked for a summary");
}

/// Changes the models as whoever goes on with a job does.
fn change(world: &mut World, event: Event) {
    world.run.apply(world.now, &event);
    let seq = world.log.len() as u64 + 1;
    let v = cofferdam_types::LOG_VERSION;
    world.log.push(Record { v, seq, at: world.now, event });
    assert_eq!(Run::replay(&world.log).unwrap(), world.run);
}

fn models(orchestrator: &str, coder: &str, summariser: Option<&str>) -> Event {
    let summariser = summariser.map(name);
    Event::ModelsChanged { orchestrator: name(orchestrator), coder: name(coder), summariser }
}

#[test]
fn who_summarises_can_change_and_else_stays() {
    let mut world = narrow();
    assert_eq!(until_summary(&mut world), name("test/orchestrator"));
    world.answer(says(GOOD));
    change(&mut world, models("test/orchestrator", "test/coder", Some("test/brief")));
    assert_eq!(until_summary(&mut world), name("test/brief"));
    world.answer(says(GOOD));
    change(&mut world, models("test/other", "test/coder", None));
    assert_eq!(until_summary(&mut world), name("test/brief"));
    world.answer(says(GOOD));
    work(&mut world, 200);
    let orchestrator = world.log.iter().rev().find_map(|record| match &record.event {
        Event::ModelAsked { role: Role::Orchestrator, model, .. } => Some(model.clone()),
        _ => None,
    });
    assert_eq!(orchestrator, Some(name("test/other")));
}

#[test]
fn what_one_model_found_too_long_says_nothing_of_the_next() {
    let mut world = narrow();
    let refusals = |world: &World| world.run.conversation(ThreadId(0)).unwrap().refusals();
    work(&mut world, 0);
    world.fail(FailureKind::TooLong);
    assert_eq!(refusals(&world), 1);
    // Another coder reads no more of this conversation than the one before.
    change(&mut world, models("test/orchestrator", "test/writer", None));
    assert_eq!(refusals(&world), 1);
    change(&mut world, models("test/larger", "test/writer", None));
    assert_eq!(refusals(&world), 0);
}

#[test]
fn a_tool_that_is_not_there_is_not_named() {
    let mut world = narrow();
    world.hear(Input::UserSaid { text: "a line of a log\n".repeat(4_000) });
    for _ in 0..3 {
        until_summary(&mut world);
        world.answer(says(GOOD));
    }
    work(&mut world, 300);
    while let (Role::Summariser, _) = asked(&world) {
        world.answer(says(GOOD));
    }
    let mut said = |recalls| {
        world.settings.recalls = recalls;
        let prompt = world.run.prompt(&world.settings, ThreadId(0));
        (prompt.system.clone(), format!("{:?}", prompt.messages))
    };
    let (system, messages) = said(true);
    assert!(system.contains("`recall`") && messages.contains("`recall` with that id"));
    assert!(messages.contains("`recall` with id "), "{messages}");
    let (system, messages) = said(false);
    assert!(!system.contains("recall"), "{system}");
    assert!(!messages.contains("recall"), "{messages}");
    let said = world.log.iter().find(|one| matches!(one.event, Event::UserSaid { .. })).unwrap();
    let told = format!("; event {} has all of it]", said.seq);
    assert!(messages.contains("<memory>") && messages.contains(&told), "{messages}");
}
