//! One ledger for all roles.

use std::time::Duration;

use cofferdam_engine::{Effect, Input};
use cofferdam_types::{Answer, Budget, Ending, JobSpec, Limit, Price, Tokens, Usd};

use crate::world::{World, calls, says, spec};

fn with(change: impl FnOnce(&mut Budget)) -> JobSpec {
    let mut spec = spec();
    change(&mut spec.budget);
    spec
}

fn reached(world: &World, limit: Limit) -> bool {
    world.ending() == Ending::LimitReached { limit }
}

#[test]
fn turns_count_over_all_roles() {
    let mut world = World::asking(with(|budget| budget.turns = 3));
    world.answer(calls(&[("delegate", r#"{"instruction":"write"}"#)]));
    world.answer(calls(&[("write_file", "{}")]));
    world.done(world.running()[0], "written");
    world.answer(says("written"));
    assert!(reached(&world, Limit::Turns));
}

/// Makes calls, each with another result, until the job ends.
fn work_on(world: &mut World) {
    for round in 0..20 {
        if world.open.contains(&Effect::Deliver) {
            return;
        }
        world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
        world.done(world.running()[0], &format!("made {round}"));
    }
}

#[test]
fn tokens_leave_room_for_the_answer() {
    let mut world = World::asking(with(|budget| budget.tokens = Some(1200)));
    world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    let (_, effects) = world.done(world.running()[0], "made");
    // 110 are spent, and 110 will be read again.
    let [Effect::AskModel { max_output, .. }] = effects[..] else { panic!("{effects:?}") };
    assert!((960..=980).contains(&max_output), "{max_output}");
    work_on(&mut world);
    assert!(reached(&world, Limit::Tokens));
    assert!(world.run.spent().tokens.total() <= 1200);
}

#[test]
fn an_answer_is_no_longer_than_what_is_left_can_pay() {
    let price = Price {
        input: Usd::from_nanos(3_000),
        cache_read: Usd::from_nanos(300),
        cache_write: Usd::from_nanos(3_750),
        output: Usd::from_nanos(15_000),
    };
    let limit = Usd::from_nanos(9_000_000);
    let mut world = World::created(with(|budget| budget.cost = Some(limit)));
    world.settings.orchestrator.price = Some(price);
    world.take_up();
    world.open_sandbox();
    // Instructions and tools are to be read as well.
    let Some(Effect::AskModel { max_output, .. }) = world.open.last() else { panic!() };
    assert!((300..500).contains(max_output), "{max_output}");
    work_on(&mut world);
    assert!(reached(&world, Limit::Cost));
    assert!(world.run.spent().cost <= limit);
}

#[test]
fn what_a_model_says_it_has_read_counts_and_not_our_guess() {
    let price = Price { input: Usd::from_nanos(5_000), ..Price::FREE };
    let limit = Usd::from_nanos(1_000_000_000);
    let mut world = World::created(with(|budget| budget.cost = Some(limit)));
    world.settings.orchestrator.price = Some(Price { output: Usd::from_nanos(10_000), ..price });
    world.take_up();
    world.open_sandbox();
    let read = Tokens { input: 120_000, ..Tokens::default() };
    world.answer(Answer { tokens: read, ..calls(&[("bash", r#"{"command":"make"}"#)]) });
    // Reading as much again would cost more than is left.
    world.done(world.running()[0], "made");
    assert!(reached(&world, Limit::Cost));
}

#[test]
fn what_an_answer_had_used_when_the_job_was_stopped_is_paid() {
    let mut world = World::asking(spec());
    let request = world.question();
    world.hear(Input::Cancel { by: cofferdam_types::Cancel::User });
    let tokens = Tokens { input: 100, ..Tokens::default() };
    let role = cofferdam_types::Role::Orchestrator;
    world.hear(Input::ModelUsed { request, role, tokens });
    world.deliver();
    assert_eq!(world.run.spent().tokens, tokens);
}

#[test]
fn time_is_up_in_the_middle_of_anything() {
    let time = Some(Duration::from_secs(60));
    let mut world = World::asking(with(|budget| budget.time = time));
    world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    world.now = world.now.after(Duration::from_secs(61));
    world.hear(Input::Woken);
    assert!(reached(&world, Limit::Time));
}

#[test]
fn time_between_two_processes_does_not_count() {
    let time = Some(Duration::from_secs(60));
    let mut world = World::asking(with(|budget| budget.time = time));
    world.now = world.now.after(Duration::from_secs(50));
    world.hear(Input::Note { text: "still here".to_owned() });
    world.now = world.now.after(Duration::from_secs(3600));
    world.crash();
    world.open_sandbox();
    world.question();
    world.now = world.now.after(Duration::from_secs(11));
    world.hear(Input::Woken);
    assert!(reached(&world, Limit::Time));
}

#[test]
fn a_job_at_its_limit_goes_on_with_a_larger_one() {
    let mut world = World::asking(with(|budget| budget.turns = 1));
    world.answer(calls(&[("bash", r#"{"command":"make"}"#)]));
    world.done(world.running()[0], "made");
    assert!(reached(&world, Limit::Turns));
    world.deliver();
    let budget = Budget { turns: 2, ..world.run.spec().budget.clone() };
    world.hear(Input::BudgetChanged { budget });
    world.take_up();
    world.open_sandbox();
    world.answer(says("done"));
    assert!(matches!(world.ending(), Ending::Complete { .. }));
}
