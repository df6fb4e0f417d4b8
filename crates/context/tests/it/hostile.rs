//! Histories that nobody would wish for.

use cofferdam_context::{Counting, Need};
use cofferdam_types::{Cut, PlanStep, Span, StepStatus, Summariser};

use crate::job::{Job, Made, Mood, bash, made, room, shown, writes};

#[test]
fn a_task_larger_than_the_window_is_cut_and_can_be_read() {
    for window in [8_000, 200_000] {
        let task = format!("Build it.\n{}\nThe port is 8137.", "a line of it\n".repeat(200_000));
        let mut job = Job::new(&task, window);
        job.ask();
        let all = shown(job.conversation.messages());
        assert!(all.contains("Build it.") && all.contains("The port is 8137."), "{window}");
        assert!(all.contains("`recall` with id 1 has all of it"), "{window}");
        assert_eq!(job.cuts.len(), 1);
    }
}

#[test]
fn what_the_user_pastes_is_cut_before_it_is_asked_about() {
    let mut job = Job::new("Build it.", 8_000);
    job.round("I look.", vec![bash("make", "made")]);
    job.user_says(&format!("Look at this:\n{}\nWhy?", "a line of a log\n".repeat(50_000)));
    job.ask();
    let all = shown(job.conversation.messages());
    assert!(all.contains("Look at this:") && all.contains("Why?"), "{all}");
    // The number is that of the event that has the words.
    assert!(all.contains("`recall` with id 4 has all of it"), "{all}");
}

#[test]
fn hundreds_of_things_that_the_user_said_fit_into_a_small_window() {
    let mut job = Job::new("Build it.", 8_000);
    for number in 0..400 {
        job.user_says(&format!("user {number}: {}", "and this as well, please. ".repeat(6)));
        if number % 3 == 0 {
            job.round("I do.", vec![bash(&format!("do {number}"), "done")]);
        }
    }
    job.ask();
    let all = shown(job.conversation.messages());
    assert!(all.contains("## What the user has said since\n("), "{all}");
    assert!(all.contains("user 399:"), "{all}");
}

#[test]
fn all_that_the_user_said_is_there_word_for_word_where_there_is_room() {
    let mut job = Job::new("Build it.", 32_000);
    for number in 0..30 {
        job.user_says(&format!("constraint {number}: {} END{number}.", "keep to this. ".repeat(5)));
        for _ in 0..5 {
            job.round("I do.", vec![bash(&format!("do {number}"), &"output\n".repeat(600))]);
        }
    }
    job.ask();
    assert!(!job.conversation.summaries().is_empty());
    let all = shown(job.conversation.messages());
    for number in 0..30 {
        assert!(all.contains(&format!("END{number}.")), "constraint {number} is cut:\n{all}");
    }
}

#[test]
fn one_answer_with_many_calls_fits() {
    for (window, calls, bytes) in [(8_000, 100, 2_000), (8_000, 128, 300), (32_000, 128, 48_000)] {
        let mut job = Job::new("Build it.", window);
        let call = |number: usize| bash(&format!("ls {number}"), &"x ".repeat(bytes / 2));
        job.round("I look.", (0..calls).map(call).collect());
        job.ask();
    }
}

#[test]
fn an_answer_that_fills_the_window_alone_is_let_go() {
    let mut job = Job::new("Build it.", 8_000);
    job.round("I write.", vec![writes("big.rs", &"let x = 1;\n".repeat(4_000))]);
    job.ask();
    let all = shown(job.conversation.messages());
    assert!(all.contains("changed big.rs"), "{all}");
    assert!(matches!(job.cuts.last(), Some(Cut::Summarised { .. })));
}

#[test]
fn a_summariser_that_reads_little_is_given_little() {
    let mut job = Job::new("Build it.", 200_000);
    job.room.summariser = 8_000;
    for number in 0..2_000 {
        job.round("I do it.", vec![bash(&format!("do {number}"), &"x ".repeat(300))]);
    }
    assert!(job.cut_times > 0);
}

#[test]
fn summaries_from_a_larger_window_are_made_shorter() {
    let mut job = Job::new("Build it.", 400_000);
    for number in 0..1_000 {
        let output = "found something here\n".repeat(100);
        job.round("I look.", vec![bash(&format!("look {number}"), &output)]);
    }
    job.conversation.cut(
        &Cut::Summarised {
            span: Span::Messages { through: 400 },
            summary: "This was found there. ".repeat(700),
            by: Summariser::Model,
        },
        &[],
        10_000,
    );
    job.room = room(8_000);
    job.ask();
}

#[test]
fn plans_and_decisions_without_end_leave_room_for_the_rest() {
    let mut job = Job::new("Build it.", 8_000);
    for round in 0..40 {
        let steps = (0..50).map(|step| PlanStep {
            step: format!("step {step} of {round}: {}", "write it ".repeat(60)),
            status: StepStatus::Pending,
        });
        let decisions = (0..5).map(|one| format!("decision {one} of {round} {}", "x".repeat(400)));
        let plan = job.plans(steps.take(1 + round).collect(), decisions.collect());
        job.round("I plan.", vec![plan]);
        job.round("I do.", vec![bash(&format!("do {round}"), &"x ".repeat(400))]);
    }
    job.ask();
}

#[test]
fn a_window_that_holds_nothing_is_hopeless_and_known_to_be() {
    let mut job = Job::new("Build it.", 8_000);
    job.room.window = 3_300;
    job.room.output = 2_000;
    for _ in 0..3 {
        job.conversation.tell(9, "x ".repeat(9_000));
        if !job.prepare() {
            return;
        }
        job.conversation.ask();
    }
    assert!(
        job.conversation.tokens(1_200, Counting::Estimated) <= 1_300,
        "neither hopeless nor short enough"
    );
}

#[test]
fn a_provider_that_finds_it_too_long_again_and_again_is_given_less_each_time() {
    let mut job = Job::new("Build it.", 200_000);
    for number in 0..400 {
        let output = "found something here\n".repeat(60);
        job.round("I look.", vec![bash(&format!("look {number}"), &output)]);
    }
    // It can really read 16,000.
    let mut refusals = 0;
    let mut last = u64::MAX;
    loop {
        job.ask();
        let weight = job.conversation.weight();
        assert!(weight < last);
        if weight < 16_000 * 4 {
            break;
        }
        last = weight;
        job.conversation.refuse();
        refusals += 1;
    }
    assert!(refusals <= 4, "{refusals}");
    // From then on it knows.
    for number in 0..300 {
        job.round("I look.", vec![bash(&format!("look on {number}"), &"found\n".repeat(200))]);
        assert!(job.conversation.weight() < last, "it was forgotten what is too long");
    }
}

#[test]
fn a_conversation_that_was_refused_and_cannot_be_shorter_is_hopeless() {
    let mut job = Job::new("Build it.", 200_000);
    job.ask();
    job.conversation.refuse();
    assert_eq!(job.conversation.need(job.room), Need::Hopeless);
}

#[test]
fn a_summariser_that_never_does_it_well_makes_no_difference_to_the_job() {
    for mood in [Mood::Empty, Mood::TooLong, Mood::Nonsense, Mood::Forgetful, Mood::Silent] {
        let mut job = Job::new("Build it.", 16_000);
        job.mood = mood;
        for number in 0..200 {
            let calls = vec![
                writes(&format!("src/{number}.rs"), "x"),
                bash(&format!("run {number}"), &"output of it\n".repeat(40)),
            ];
            job.round("I do it.", calls);
        }
        let by_rule = |cut: &&Cut| matches!(cut, Cut::Summarised { by: Summariser::Rule, .. });
        assert!(job.cuts.iter().any(|cut| by_rule(&cut)), "{mood:?}");
    }
}

#[test]
fn what_the_model_thought_and_saw_counts() {
    use cofferdam_types::{Block, Content, Seal};
    let mut job = Job::new("Build it.", 200_000);
    let before = job.conversation.tokens(0, Counting::Estimated);
    let seal = Some(Seal { wire: "messages".to_owned(), data: "s".repeat(4_000) });
    let thought = Block::Thinking { text: "t".repeat(4_000), seal };
    job.conversation.answer(9, vec![thought]);
    assert!(job.conversation.tokens(0, Counting::Estimated) >= before + 2_000);
    let before = job.conversation.tokens(0, Counting::Estimated);
    let data = "A".repeat(4_000_000);
    let output = vec![Content::Image { media_type: "image/png".to_owned(), data }];
    let picture = Made { output, ..made("read_file", "{}".to_owned(), "") };
    job.conversation.tell(10, "Go on.");
    job.round("I look.", vec![picture]);
    // What a picture costs does not depend on its bytes.
    assert!((1_000..3_000).contains(&(job.conversation.tokens(0, Counting::Estimated) - before)));
}

#[test]
fn pictures_go_before_any_word_does() {
    use cofferdam_types::{Content, Message};
    let mut job = Job::new("Use the desktop.", 200_000);
    for round in 0..300 {
        let picture = Content::Image { media_type: "image/png".to_owned(), data: "A".repeat(99) };
        let output = vec![Content::text("screen, 1280x800:"), picture];
        let action = format!(r#"{{"action":"left_click","coordinate":[{round},7]}}"#);
        job.round(
            &format!("I click for time {round}."),
            vec![Made { output, ..made("computer", action, "") }],
        );
    }
    assert!(job.cuts.len() >= 2, "{:?}", job.cuts);
    assert!(job.cuts.iter().all(|cut| matches!(cut, Cut::Pruned { .. })), "{:?}", job.cuts);
    let messages = job.conversation.messages();
    let said = format!("{messages:?}");
    assert!((0..300).all(|round| said.contains(&format!("I click for time {round}."))));
    let pictures = |message: &Message| match message {
        Message::Tools { results } => {
            let content = results.iter().flat_map(|result| &result.content);
            content.filter(|part| matches!(part, Content::Image { .. })).count()
        }
        _ => 0,
    };
    let left: Vec<usize> = messages.iter().map(pictures).collect();
    // The latest are there to be seen, the first are not.
    let first = left.iter().position(|count| *count > 0).unwrap();
    assert!(first > messages.len() / 3, "{first} of {}", messages.len());
    let last = messages.iter().rposition(|message| matches!(message, Message::Tools { .. }));
    assert_eq!(last.map(|place| left[place]), Some(1));
}
