//! Conversations that become too long, and whoever summarises them.

use std::time::Duration;

use cofferdam_engine::{Effect, Input, Run};
use cofferdam_types::{
    Answer, Budget, Cancel, Cut, Ending, Event, FailureKind, JobSpec, Limit, Message, ModelFailure,
    ModelName, Price, Role, Span, StopReason, Summariser, ThreadId, Tokens, Usd,
};

use crate::world::{World, calls, says, spec};

const GOOD: &str = "The parser was looked at and rewritten; its tests pass now, and nothing else \
                    was found that would matter for the task.";

/// A job whose models read little.
fn narrow(spec: JobSpec) -> World {
    let mut world = World::created(spec);
    world.settings.orchestrator.window = 16_000;
    world.settings.coder.window = 16_000;
    world.settings.summariser.window = 32_000;
    world.take_up();
    world.open_sandbox();
    world
}

fn roomy() -> JobSpec {
    let budget = Budget { turns: 500, tokens: None, cost: None, time: None };
    JobSpec { budget, summariser: Some(ModelName("test/summariser".to_owned())), ..spec() }
}

/// Who is asked now, and which conversation it is about.
fn asked(world: &World) -> Option<(Role, ThreadId)> {
    world.open.iter().find_map(|effect| match effect {
        Effect::AskModel { role, thread, .. } => Some((*role, *thread)),
        _ => None,
    })
}

/// Works until a summary is asked for.
fn until_summary(world: &mut World) {
    for round in 0..100 {
        if asked(world).is_some_and(|(role, _)| role == Role::Summariser) {
            return;
        }
        work(world, round);
    }
    panic!("nobody was asked for a summary");
}

/// One answer with a call that ends.
fn work(world: &mut World, round: usize) {
    let command = format!(r#"{{"command":"make {round}"}}"#);
    world.answer(silent(calls(&[("bash", &command)])));
    world.done(world.running()[0], &format!("made {round}\n").repeat(80));
}

/// A provider that does not count.
fn silent(answer: Answer) -> Answer {
    Answer { tokens: Tokens::default(), ..answer }
}

fn cuts(world: &World) -> Vec<(ThreadId, Cut)> {
    let cuts = world.log.iter().filter_map(|record| match &record.event {
        Event::ContextCut { thread, cut, .. } => Some((*thread, cut.clone())),
        _ => None,
    });
    cuts.collect()
}

fn by_rule(world: &World) -> bool {
    let rule =
        |cut: &(ThreadId, Cut)| matches!(cut.1, Cut::Summarised { by: Summariser::Rule, .. });
    cuts(world).iter().any(rule)
}

fn notes(world: &World) -> Vec<String> {
    let notes = world.log.iter().filter_map(|record| match &record.event {
        Event::Noted { text } => Some(text.clone()),
        _ => None,
    });
    notes.collect()
}

/// Replaying the log leads to the same state, and the job can go on and be done.
fn goes_on(mut world: World) {
    assert_eq!(Run::replay(&world.log).unwrap(), world.run);
    for round in 500..503 {
        while asked(&world).is_some_and(|(role, _)| role == Role::Summariser) {
            world.answer(says(GOOD));
        }
        work(&mut world, round);
    }
    while asked(&world).is_some_and(|(role, _)| role == Role::Summariser) {
        world.answer(says(GOOD));
    }
    assert_eq!(asked(&world), Some((Role::Orchestrator, ThreadId(0))));
    world.answer(says("done"));
    assert!(matches!(world.ending(), Ending::Complete { .. }));
    assert_eq!(Run::replay(&world.log).unwrap(), world.run);
}

#[test]
fn a_summary_is_asked_of_its_own_model_and_takes_the_place_of_what_it_is_about() {
    let mut world = narrow(roomy());
    until_summary(&mut world);
    let Some(Event::ModelAsked { model, role, span, .. }) =
        world.log.last().map(|record| &record.event)
    else {
        panic!("{:?}", world.log.last())
    };
    assert_eq!((model.0.as_str(), *role), ("test/summariser", Role::Summariser));
    assert!(matches!(span, Some(Span::Messages { .. })));
    let prompt = world.run.prompt(&world.settings, ThreadId(0));
    let [Message::User { .. }] = &*prompt.messages else { panic!("{:?}", prompt.messages) };
    assert!(prompt.system.starts_with("You summarise"), "{}", prompt.system);
    world.answer(says(GOOD));
    assert_eq!(asked(&world), Some((Role::Orchestrator, ThreadId(0))));
    let prompt = world.run.prompt(&world.settings, ThreadId(0));
    let Some(Message::User { content }) = prompt.messages.first() else { panic!() };
    let memory = format!("{content:?}");
    assert!(memory.contains("make it work") && memory.contains(GOOD), "{memory}");
    goes_on(world);
}

#[test]
fn a_summary_is_paid_by_its_own_price_and_counts() {
    let mut world = narrow(roomy());
    let price = Price { input: Usd::from_nanos(7), output: Usd::from_nanos(11), ..Price::FREE };
    world.settings.summariser.price = Some(price);
    until_summary(&mut world);
    let before = world.run.spent();
    let tokens = Tokens { input: 1_000, output: 100, ..Tokens::default() };
    world.answer(Answer { tokens, ..says(GOOD) });
    let after = world.run.spent();
    assert_eq!(after.cost, before.cost + Usd::from_nanos(8_100));
    assert_eq!(after.turns, before.turns + 1);
    assert_eq!(after.tokens.total(), before.tokens.total() + 1_100);
}

#[test]
fn a_summary_that_is_no_good_is_asked_for_three_times_and_then_made_by_rule() {
    let wrong: [Answer; 6] = [
        says(" "),
        says("}{}{}{}{}{}{}{}{"),
        says(&"It was long, and longer, and it did not end. ".repeat(2_000)),
        says("yes"),
        Answer { stop: StopReason::OutputLimit, ..says(GOOD) },
        Answer { stop: StopReason::Refused, ..says("I will not.") },
    ];
    for wrong in wrong {
        let mut world = narrow(roomy());
        until_summary(&mut world);
        for attempt in 0..3 {
            assert_eq!(asked(&world).map(|(role, _)| role), Some(Role::Summariser), "{attempt}");
            world.answer(wrong.clone());
        }
        assert!(by_rule(&world), "{wrong:?}");
        assert_eq!(notes(&world).len(), 3, "{wrong:?}: {:?}", notes(&world));
        assert!(notes(&world)[2].contains("one was made by rule"), "{:?}", notes(&world));
        goes_on(world);
    }
}

#[test]
fn a_summary_must_name_the_files_that_were_changed() {
    let mut world = narrow(roomy());
    world.answer(silent(calls(&[("write_file", r#"{"path":"src/parser.rs","content":"x"}"#)])));
    world.done(world.running()[0], "written");
    until_summary(&mut world);
    let prompt = format!("{:?}", world.run.prompt(&world.settings, ThreadId(0)).messages);
    assert!(prompt.contains("Name each of these exactly as it is written: src/parser.rs."));
    world.answer(says(GOOD));
    assert!(notes(&world)[0].contains("it left out src/parser.rs"), "{:?}", notes(&world));
    world.answer(says(&format!("{GOOD} It is in src/parser.rs.")));
    assert!(!by_rule(&world));
    goes_on(world);
}

#[test]
fn a_summariser_that_fails_for_good_is_not_asked_again() {
    for kind in [FailureKind::Unauthorised, FailureKind::NoSuchModel, FailureKind::Rejected] {
        let mut world = narrow(roomy());
        until_summary(&mut world);
        world.fail(kind);
        assert!(by_rule(&world), "{kind:?}");
        assert_eq!(notes(&world).len(), 1);
        goes_on(world);
    }
}

#[test]
fn a_summariser_that_stalls_or_is_overrun_is_waited_for_and_then_done_without() {
    for kind in [FailureKind::Stalled, FailureKind::RateLimited, FailureKind::Interrupted] {
        let mut world = narrow(roomy());
        until_summary(&mut world);
        for attempt in 1..=3 {
            let (_, effects) = world.fail(kind);
            if attempt == 3 && by_rule(&world) {
                break;
            }
            let [Effect::WakeAt(at)] = effects[..] else { panic!("{kind:?}: {effects:?}") };
            assert_eq!(world.hear(Input::Woken).1, [], "it is not asked too early");
            world.now = at;
            world.hear(Input::Woken);
        }
        assert!(by_rule(&world), "{kind:?}");
        goes_on(world);
    }
}

#[test]
fn a_summariser_that_wants_a_long_rest_is_done_without() {
    let mut world = narrow(roomy());
    until_summary(&mut world);
    let failure = ModelFailure {
        kind: FailureKind::RateLimited,
        message: "come back tomorrow".to_owned(),
        retry_after: Some(Duration::from_secs(86_400)),
    };
    let request = world.question();
    world.hear(Input::ModelFailed { request, failure, tokens: Tokens::default() });
    assert!(by_rule(&world));
    goes_on(world);
}

#[test]
fn a_summariser_that_finds_it_too_long_is_given_less() {
    let mut world = narrow(roomy());
    world.settings.summariser.window = 8_000;
    until_summary(&mut world);
    let length = |world: &World| {
        format!("{:?}", world.run.prompt(&world.settings, ThreadId(0)).messages).len()
    };
    let first = length(&world);
    world.fail(FailureKind::TooLong);
    assert_eq!(asked(&world).map(|(role, _)| role), Some(Role::Summariser));
    assert!(length(&world) < first);
    world.answer(says(GOOD));
    assert!(!by_rule(&world));
    goes_on(world);
}

#[test]
fn where_nothing_is_left_to_pay_a_summary_with_it_is_made_by_rule() {
    let mut world = narrow(roomy());
    world.settings.summariser.price =
        Some(Price { input: Usd::from_nanos(1_000_000_000), ..Price::FREE });
    let budget = Budget { cost: Some(Usd::from_nanos(1_000)), ..roomy().budget };
    world.hear(Input::BudgetChanged { budget });
    for round in 0..80 {
        assert_ne!(asked(&world).map(|(role, _)| role), Some(Role::Summariser));
        work(&mut world, round);
    }
    assert!(by_rule(&world));
    world.settings.summariser.price = None;
    goes_on(world);
}

#[test]
fn the_last_turns_are_for_the_work_and_not_for_summaries() {
    let mut world = narrow(JobSpec { budget: Budget { turns: 500, ..roomy().budget }, ..roomy() });
    until_summary(&mut world);
    let turns = world.run.spent().turns;
    let budget = Budget { turns: turns + 2, ..roomy().budget };
    world.hear(Input::BudgetChanged { budget });
    // The one that is under way is no good, and another would take the last turn.
    world.answer(says(""));
    assert!(by_rule(&world));
    assert_eq!(asked(&world), Some((Role::Orchestrator, ThreadId(0))));
    work(&mut world, 900);
    assert_eq!(world.ending(), Ending::LimitReached { limit: Limit::Turns });
}

#[test]
fn a_crash_in_the_middle_of_a_summary_has_it_asked_for_again() {
    let mut world = narrow(roomy());
    until_summary(&mut world);
    for _ in 0..5 {
        let before = world.question();
        world.crash();
        world.open_sandbox();
        assert_eq!(asked(&world), Some((Role::Summariser, ThreadId(0))));
        assert_ne!(world.question(), before);
    }
    world.answer(says(GOOD));
    assert!(!by_rule(&world));
    // What the model was to be told is told after the cut.
    assert!(world.last_words(0).contains("taken up again"));
    goes_on(world);
}

#[test]
fn a_crash_between_a_summary_and_its_cut_loses_nothing() {
    let mut world = narrow(roomy());
    until_summary(&mut world);
    world.run.hold();
    let (events, _) = world.answer(says(GOOD));
    assert!(matches!(events[..], [Event::ModelAnswered { .. }]), "{events:?}");
    world.crash();
    world.open_sandbox();
    let summarised = |cut: &(ThreadId, Cut)| matches!(&cut.1, Cut::Summarised { summary, .. } if summary == GOOD);
    assert!(cuts(&world).iter().any(summarised));
    goes_on(world);
}

#[test]
fn a_job_that_rests_during_a_summary_goes_on_with_it() {
    let mut world = narrow(roomy());
    until_summary(&mut world);
    world.hear(Input::Pause);
    let (_, effects) = world.answer(says(GOOD));
    assert_eq!((effects, cuts(&world).len()), (Vec::new(), 0));
    world.hear(Input::Resume { say: Some("quickly".to_owned()) });
    assert_eq!(cuts(&world).len(), 1);
    assert!(world.last_words(0).contains("quickly"));
    goes_on(world);
}

#[test]
fn a_job_that_is_stopped_during_a_summary_can_be_taken_up() {
    let mut world = narrow(roomy());
    until_summary(&mut world);
    let request = world.question();
    world.hear(Input::Cancel { by: Cancel::User });
    let tokens = Tokens { input: 77, ..Tokens::default() };
    world.hear(Input::ModelUsed { request, role: Role::Summariser, tokens });
    world.deliver();
    assert!(matches!(world.run.ended(), Some(Ending::Cancelled { .. })));
    assert_eq!(Run::replay(&world.log).unwrap(), world.run);
    world.crash();
    world.open_sandbox();
    goes_on(world);
}

#[test]
fn what_the_user_says_during_a_summary_is_heard_once_and_never_forgotten() {
    let mut world = narrow(roomy());
    until_summary(&mut world);
    world.hear(Input::UserSaid { text: "and keep to port 8137".to_owned() });
    world.answer(says(GOOD));
    let told = |world: &World| {
        let messages = &world.run.prompt(&world.settings, ThreadId(0)).messages;
        format!("{messages:?}").matches("and keep to port 8137").count()
    };
    assert_eq!(told(&world), 1);
    for round in 600..660 {
        while asked(&world).is_some_and(|(role, _)| role == Role::Summariser) {
            world.answer(says(GOOD));
        }
        assert_eq!(told(&world), 1, "{round}");
        work(&mut world, round);
    }
    assert!(cuts(&world).len() > 1);
    goes_on(world);
}

#[test]
fn what_the_user_pastes_never_makes_a_question_too_long() {
    let mut world = narrow(roomy());
    let paste = format!("look:\n{}why?", "a line of a log\n".repeat(20_000));
    world.hear(Input::UserSaid { text: paste });
    world.answer(silent(calls(&[("bash", r#"{"command":"make"}"#)])));
    world.done(world.running()[0], "made");
    world.settings.recalls = true;
    let messages = format!("{:?}", world.run.prompt(&world.settings, ThreadId(0)).messages);
    world.settings.recalls = false;
    assert!(messages.len() < 15_000 * 4, "{}", messages.len());
    assert!(messages.contains("look:") && messages.contains("why?"));
    let said = world.log.iter().find(|one| matches!(one.event, Event::UserSaid { .. })).unwrap();
    assert!(messages.contains(&format!("`recall` with id {} has all of it", said.seq)));
    goes_on(world);
}

#[test]
fn what_a_provider_finds_too_long_is_cut_and_asked_again_a_bounded_number_of_times() {
    let mut world = World::asking(roomy());
    for round in 0..60 {
        work(&mut world, round);
    }
    let mut weights = vec![world.run.conversation(ThreadId(0)).unwrap().weight()];
    for _ in 0..2 {
        world.fail(FailureKind::TooLong);
        while asked(&world).is_some_and(|(role, _)| role == Role::Summariser) {
            world.answer(says(GOOD));
        }
        weights.push(world.run.conversation(ThreadId(0)).unwrap().weight());
    }
    assert!(weights[1] < weights[0] && weights[2] < weights[1], "{weights:?}");
    assert_eq!(Run::replay(&world.log).unwrap(), world.run);
    for _ in 0..20 {
        if world.open.contains(&Effect::Deliver) {
            break;
        }
        match asked(&world) {
            Some((Role::Summariser, _)) => world.answer(says(GOOD)),
            _ => world.fail(FailureKind::TooLong),
        };
    }
    assert!(matches!(world.ending(), Ending::ModelUnavailable { .. }));
}

#[test]
fn a_coder_s_conversation_is_cut_too() {
    let mut world = narrow(roomy());
    world.answer(silent(calls(&[("delegate", r#"{"instruction":"write the parser"}"#)])));
    world.answer(silent(calls(&[("write_file", r#"{"path":"src/a.rs","content":"x"}"#)])));
    world.done(world.running()[0], "written");
    until_summary(&mut world);
    assert_eq!(asked(&world), Some((Role::Summariser, ThreadId(1))));
    let prompt = format!("{:?}", world.run.prompt(&world.settings, ThreadId(1)).messages);
    assert!(prompt.contains("The task of the whole conversation:\\nwrite the parser"), "{prompt}");
    world.answer(says(&format!("{GOOD} It is in src/a.rs.")));
    assert_eq!(asked(&world), Some((Role::Coder, ThreadId(1))));
    assert!(cuts(&world).iter().all(|(thread, _)| *thread == ThreadId(1)));
    world.answer(says("written"));
    assert_eq!(asked(&world), Some((Role::Orchestrator, ThreadId(0))));
    assert_eq!(world.run.conversation(ThreadId(1)).unwrap().messages().len(), 1);
    // The orchestrator knows what the coder changed, however much is cut.
    for _ in 0..2 {
        until_summary(&mut world);
        world.answer(says(&format!("{GOOD} It is in src/a.rs.")));
    }
    let messages = format!("{:?}", world.run.prompt(&world.settings, ThreadId(0)).messages);
    assert!(messages.contains("changed src/a.rs"), "{messages}");
    goes_on(world);
}

#[test]
fn what_may_be_needed_is_looked_for_after_a_cut_and_offered_once() {
    let mut world = narrow(roomy());
    world.settings.recalls = true;
    world.hear(Input::UserSaid { text: "the parser first".to_owned() });
    until_summary(&mut world);
    let (_, effects) = world.answer(says(GOOD));
    let [Effect::Recall { thread, words }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(*thread, ThreadId(0));
    assert!(words.contains("the parser first"), "{words}");
    // A process that dies while it looks looks again.
    world.crash();
    world.open_sandbox();
    let recalls = |effect: &&Effect| matches!(effect, Effect::Recall { .. });
    assert_eq!(world.open.iter().filter(recalls).count(), 1, "{:?}", world.open);
    assert_eq!(asked(&world), None);
    let text = "<offered>#3: the parser</offered>".to_owned();
    world.hear(Input::Offered { thread: ThreadId(0), text: text.clone() });
    assert!(world.last_words(0).contains(&text));
    assert_eq!(asked(&world), Some((Role::Orchestrator, ThreadId(0))));
    let (events, _) = world.hear(Input::Offered { thread: ThreadId(0), text });
    assert_eq!(events, [], "it was not asked for again");
    world.settings.recalls = false;
    goes_on(world);
}

#[test]
fn a_coder_whose_call_has_ended_without_it_says_nothing_more() {
    let mut world = narrow(roomy());
    world.answer(silent(calls(&[("delegate", r#"{"instruction":"write the parser"}"#)])));
    world.answer(silent(calls(&[("bash", r#"{"command":"make"}"#)])));
    let [running] = world.running()[..] else { panic!("{:?}", world.open) };
    world.done(cofferdam_types::CallId(1), "ended elsewhere");
    assert_eq!(world.done(running, "made"), (Vec::new(), Vec::new()));
    assert_eq!(asked(&world), Some((Role::Orchestrator, ThreadId(0))));
    assert_eq!(Run::replay(&world.log).unwrap(), world.run);
}

/// Text of few bytes a token: by its bytes there is room for it, by its tokens there is not.
#[test]
fn where_a_model_s_table_is_known_its_tokens_are_counted_and_not_guessed() {
    let mark = |number: u64| char::from(b'!' + u8::try_from(number * number * 7 % 90).unwrap());
    let dense: String = (0..9_000).map(mark).collect();
    let shortened = |model: &str| {
        let mut world = narrow(JobSpec { orchestrator: ModelName(model.to_owned()), ..roomy() });
        for round in 0..2 {
            let command = format!(r#"{{"command":"make {round}"}}"#);
            world.answer(silent(calls(&[("bash", &command)])));
            world.done(world.running()[0], &dense);
        }
        let summarises = asked(&world).is_some_and(|(role, _)| role == Role::Summariser);
        summarises || !cuts(&world).is_empty()
    };
    assert!(!shortened("test/any"));
    for model in ["openai/gpt-4o", "router/openai/gpt-5-mini", "openai/gpt-4"] {
        assert!(shortened(model), "{model}");
    }
}
