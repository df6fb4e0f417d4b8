//! Every way a job can end says how, and how to go on.

use std::time::Duration;

use cofferdam_model::Delta;
use cofferdam_types::{
    Budget, Cancel, ChangeKind, Ending, Event, FileChange, Limit, Spent, StopReason, Tokens,
    ToolStatus, Usd,
};
use cofferdam_view::{Style, closing};
use serde_json::json;

use crate::world::{MAIN, World, asks, output, says, taken_up};

fn report(ending: Ending) -> String {
    let mut world = World::begun(Style::Plain, "Do it", &["true", "false"]);
    world.finishes(ending, Vec::new());
    let report = closing(Style::Plain, &world.records);
    assert!(world.text().ends_with(&report), "the log alone tells the same");
    report
}

#[test]
fn every_ending_has_a_clear_sentence() {
    let text = |text: &str| text.to_owned();
    let endings = [
        Ending::Complete { summary: text("well"), verified: true },
        Ending::Complete { summary: text("well"), verified: false },
        Ending::Unverified { summary: text("well") },
        Ending::Failed { reason: text("stuck: the same call again and again") },
        Ending::LimitReached { limit: Limit::Turns },
        Ending::LimitReached { limit: Limit::Tokens },
        Ending::LimitReached { limit: Limit::Cost },
        Ending::LimitReached { limit: Limit::Time },
        Ending::ModelUnavailable { reason: text("acme/large-1: the key is wrong") },
        Ending::SandboxUnavailable { reason: text("no user namespaces") },
        Ending::Cancelled { by: Cancel::User },
        Ending::Cancelled { by: Cancel::System },
    ];
    let reports: Vec<String> = endings.into_iter().map(report).collect();
    insta::assert_snapshot!(reports.join("\n"));
}

#[test]
fn a_long_list_of_files_is_cut_and_counted() {
    let mut world = World::begun(Style::Plain, "Do it", &[]);
    let file = |number: u64| FileChange {
        path: format!("src/{number}.bin"),
        kind: if number == 2 { ChangeKind::Deleted } else { ChangeKind::Modified },
        added: (number > 1).then_some(0),
        removed: (number > 1).then_some(number),
    };
    let ending = Ending::Complete { summary: String::new(), verified: false };
    world.finishes(ending, (1..=33).map(file).collect());
    let report = closing(Style::Plain, &world.records);
    assert!(report.contains("\n  M src/1.bin  not text\n  D src/2.bin  −2\n"), "{report}");
    assert!(report.contains("\n  M src/20.bin  −20\n  … 13 more files\n"), "{report}");
}

#[test]
fn a_job_that_has_not_ended_has_no_report() {
    let world = World::begun(Style::Plain, "Do it", &[]);
    assert_eq!(closing(Style::Plain, &world.records), "");
}

#[test]
fn what_could_not_be_handed_over_is_said_even_to_those_who_want_quiet() {
    let mut world = World::begun(Style::Quiet, "Do it", &[]);
    world.event(Event::Ended {
        ending: Ending::Complete { summary: String::new(), verified: false },
        spent: cofferdam_types::Spent::default(),
        changes: Vec::new(),
        delivery_problem: Some("out.zip: no space left".to_owned()),
    });
    assert!(world.text().contains("Not handed over: out.zip: no space left"), "{}", world.text());
}

/// The report of a job that reached a limit of a budget, having used this much.
fn limited(limit: Limit, budget: Budget, spent: Spent) -> String {
    let mut world = World::begun(Style::Plain, "Do it", &[]);
    world.event(Event::BudgetChanged { budget });
    world.event(ended(Ending::LimitReached { limit }, spent));
    closing(Style::Plain, &world.records)
}

fn ended(ending: Ending, spent: Spent) -> Event {
    Event::Ended { ending, spent, changes: Vec::new(), delivery_problem: None }
}

#[test]
fn a_limit_that_was_too_small_is_not_recommended_again() {
    let nothing =
        Budget { turns: 0, tokens: Some(0), cost: Some(Usd::ZERO), time: Some(Duration::ZERO) };
    let used = Spent {
        turns: 1,
        tokens: Tokens { output: 3_000, ..Tokens::default() },
        cost: "0.25".parse().unwrap(),
        unpriced: 0,
        time: Duration::from_secs(7),
    };
    for (limit, spent, expected) in [
        (Limit::Turns, Spent::default(), "--max-turns N"),
        (Limit::Tokens, Spent::default(), "--max-tokens N"),
        (Limit::Cost, Spent::default(), "--max-cost USD"),
        (Limit::Time, Spent::default(), "--timeout 1s"),
        (Limit::Turns, used, "--max-turns 2"),
        (Limit::Tokens, used, "--max-tokens 6000"),
        (Limit::Cost, used, "--max-cost 0.5000"),
        (Limit::Time, used, "--timeout 14s"),
    ] {
        let report = limited(limit, nothing.clone(), spent);
        assert!(report.trim_end().ends_with(expected), "{expected}: {report}");
    }
}

#[test]
fn that_no_file_has_changed_is_only_said_where_it_is_known() {
    let done = || Ending::Complete { summary: String::new(), verified: false };
    let delivers = || Event::TakenUp { version: "0.1.0".to_owned(), only_delivers: true };
    let noted = || Event::Noted { text: "what has changed cannot be listed".to_owned() };
    let ending = || Event::Ending { ending: done() };
    let end = || ended(done(), Spent::default());
    let all = Some("No file has changed.");
    let later = Some("No file has changed since it was taken up again.");
    for (events, expected) in [
        (vec![ending(), end()], all),
        (vec![noted(), ending(), end()], all),
        (vec![ending(), noted(), end()], None),
        (vec![taken_up(), ending(), end()], later),
        (vec![taken_up(), ending(), noted(), end()], None),
        (vec![ending(), noted(), taken_up(), ending(), end()], later),
        (vec![ending(), delivers(), end()], later),
        (vec![ending(), delivers(), noted(), end()], None),
    ] {
        let mut world = World::begun(Style::Plain, "Do it", &[]);
        for event in events {
            world.event(event);
        }
        let report = closing(Style::Plain, &world.records);
        let said = report.lines().map(str::trim).find(|line| line.starts_with("No file"));
        assert_eq!(said, expected, "{report}");
    }
}

#[test]
fn a_long_task_is_shown_by_its_beginning() {
    let task = "word\n".repeat(200_000);
    for style in [Style::Plain, Style::Live { width: 80, colour: false }] {
        let mut world = World::begun(style, &task, &[]);
        world.event(Event::UserSaid { text: task.clone() });
        let name = "n".repeat(100_000);
        world.answer(MAIN, vec![asks("1", &name, &json!({ "a": task }))]);
        world.calls("1", &name, output(ToolStatus::Refused, "no such tool", 0));
        let text = world.text();
        assert!(text.contains("(1.0 MB in all)"), "{text}");
        assert!(text.len() < 8_000, "{} bytes", text.len());
    }
}

#[test]
fn nothing_is_said_of_the_cost_before_an_answer_is_paid_for() {
    let style = Style::Live { width: 160, colour: false };
    let mut world = World::begun(style, "Do it", &[]);
    world.asked(MAIN, 1);
    let using = Tokens { input: 1_000, ..Tokens::default() };
    world.delta(MAIN, &Delta::Used(using));
    world.tick(100);
    assert!(world.text().contains("1.0k tokens"), "{}", world.text());
    assert!(!world.text().contains('$'), "{}", world.text());
    world.answered(vec![says("Hello.")], StopReason::Done);
    world.tick(100);
    assert!(world.text().contains("$0.0041"), "{}", world.text());
}
