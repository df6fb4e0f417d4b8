//! What a model sees before and after each kind of cut.

use cofferdam_context::Room;
use cofferdam_types::{Content, Cut, PlanStep, Span, StepStatus, Summariser, ToolStatus};

use crate::job::{Job, Made, bash, made, reads, room, shown, writes};

const TASK: &str = "Write a small web server in Rust that serves /health. Port 8137, no \
                    dependencies.";

/// A job that has gone on for a while.
fn job() -> Job {
    let mut job = Job::new(TASK, 32_000);
    let steps = |done: usize| {
        ["look around", "write the server", "test it"].into_iter().enumerate().map(
            move |(at, step)| {
                let status = match at.cmp(&done) {
                    std::cmp::Ordering::Less => StepStatus::Completed,
                    std::cmp::Ordering::Equal => StepStatus::InProgress,
                    std::cmp::Ordering::Greater => StepStatus::Pending,
                };
                PlanStep { step: step.to_owned(), status }
            },
        )
    };
    let plan = job.plans(steps(0).collect(), vec!["std::net only, one thread".to_owned()]);
    job.round("I make a plan first.", vec![plan]);
    let lines = |range: std::ops::Range<u32>, what: &str| -> String {
        range.map(|line| format!("{line:>6}\t{what} {line}\n")).collect()
    };
    job.round(
        "I look around.",
        vec![
            Made { changes: false, ..bash("ls -R", &lines(1..120, "./some/file")) },
            reads("src/main.rs", &lines(1..80, "fn old")),
        ],
    );
    let picture = Content::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    job.round(
        "The design is a picture.",
        vec![Made { output: vec![picture], ..reads("design.png", "") }],
    );
    job.user_says("It must answer HEAD as well.");
    let plan = job.plans(steps(1).collect(), Vec::new());
    job.round("Now I write it.", vec![plan, writes("src/main.rs", "fn main() {}\n")]);
    job.round(
        "I build it.",
        vec![Made {
            status: ToolStatus::Failed,
            ..bash("cargo build", "error[E0432]: unresolved import `std::nett`\n")
        }],
    );
    job.round(
        "A typing mistake.",
        vec![
            made(
                "edit_file",
                r#"{"path":"src/main.rs","old":"nett","new":"net"}"#.to_owned(),
                "edited",
            ),
            reads("src/main.rs", &lines(1..80, "fn new")),
        ],
    );
    job.round(
        "I commit, then test.",
        vec![
            bash("git commit -am 'Write the server'", "[main 1f0c2aa] Write the server\n"),
            bash("cargo test", "test health ... ok\n"),
        ],
    );
    job.conversation.tell(40, "Your last answer was empty. Go on with the task.");
    job.conversation.ask();
    job
}

fn after(job: &mut Job, cut: &Cut) -> String {
    let plan = job.plan.clone();
    job.conversation.cut(cut, &plan, 6_000);
    shown(job.conversation.messages())
}

fn summarised(span: Span, summary: &str, by: Summariser) -> Cut {
    Cut::Summarised { span, summary: summary.to_owned(), by }
}

#[test]
fn before_any_cut() {
    insta::assert_snapshot!(shown(job().conversation.messages()));
}

#[test]
fn long_texts_are_pruned_and_superseded_reads_are_gone() {
    let cut = Cut::Pruned { through: 19, keep: 400 };
    insta::assert_snapshot!(after(&mut job(), &cut));
}

#[test]
fn in_need_only_the_handles_stay() {
    let cut = Cut::Pruned { through: 40, keep: 0 };
    insta::assert_snapshot!(after(&mut job(), &cut));
}

const FIRST: &str = "The project was empty but for an old src/main.rs. The design (#9) wants one \
                     thread and plain text answers. src/main.rs was written anew.";

#[test]
fn a_part_is_summarised_by_a_model() {
    let cut = summarised(Span::Messages { through: 14 }, FIRST, Summariser::Model);
    insta::assert_snapshot!(after(&mut job(), &cut));
}

#[test]
fn a_part_is_summarised_by_rule() {
    let mut job = job();
    let room = Room { summariser: 32_000, output: 8_000, ..room(32_000) };
    let span = Span::Messages { through: 19 };
    let summary = job.conversation.rule_summary(span, room);
    let cut = summarised(span, &summary, Summariser::Rule);
    insta::assert_snapshot!(after(&mut job, &cut));
}

#[test]
fn summaries_are_merged() {
    let mut job = job();
    let cut = summarised(Span::Messages { through: 14 }, FIRST, Summariser::Model);
    let before = after(&mut job, &cut);
    let second = "The build failed on a typing mistake (#16), which was repaired; the tests pass.";
    let cut = summarised(Span::Messages { through: 19 }, second, Summariser::Model);
    let two = after(&mut job, &cut);
    assert!(two.len() < before.len());
    let merged = "src/main.rs was written anew: one thread, plain text answers. Its tests pass.";
    let cut = summarised(Span::Summaries { count: 2 }, merged, Summariser::Model);
    insta::assert_snapshot!(after(&mut job, &cut));
}

#[test]
fn what_a_summariser_is_given() {
    let job = job();
    let room = Room { summariser: 3_000, output: 8_000, ..room(32_000) };
    let span = Span::Messages { through: 14 };
    insta::assert_snapshot!(job.conversation.to_summarise(span, room, 1));
}
