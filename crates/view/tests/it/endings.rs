//! Every way a job can end says how, and how to go on.

use cofferdam_types::{Cancel, ChangeKind, Ending, Event, FileChange, Limit};
use cofferdam_view::{Style, closing};

use crate::world::World;

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
