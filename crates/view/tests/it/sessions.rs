//! Whole jobs as a person sees them. Each is told once, and seen on a terminal of
//! 80 columns and in lines.

use cofferdam_model::Delta;
use cofferdam_types::{
    Block, Cancel, ChangeKind, CheckResult, Cut, Ending, Event, FailureKind, FileChange, Outcome,
    PlanStep, Reading, Span, StepStatus, StopReason, Summariser, ToolOutput, ToolStatus,
};
use cofferdam_view::Style;
use serde_json::json;
use std::time::Duration;

use crate::terminal::Terminal;
use crate::world::{CODER, MAIN, World, asks, cut_output, output, says};

const LIVE: Style = Style::Live { width: 80, colour: true };

/// What is left on a terminal when everything was written to it.
fn screen(told: fn(Style) -> World) -> String {
    let mut terminal = Terminal::new(70, 80);
    let world = told(LIVE);
    for text in &world.written {
        terminal.write(text);
    }
    assert_eq!(terminal.noticed().0, Vec::<String>::new());
    terminal.screen()
}

fn plain(told: fn(Style) -> World) -> String {
    let text = told(Style::Plain).text();
    assert!(text.chars().all(|character| character == '\n' || !character.is_control()));
    text
}

fn step(step: &str, status: StepStatus) -> PlanStep {
    PlanStep { step: step.to_owned(), status }
}

fn changed(path: &str, kind: ChangeKind, added: u64, removed: u64) -> FileChange {
    FileChange { path: path.to_owned(), kind, added: Some(added), removed: Some(removed) }
}

const FAILURE: &str = "F.\n======================================================\n\
    FAIL: test_keeps_header (test_filter.FilterTest)\n\
    ------------------------------------------------------\n\
    Traceback (most recent call last):\n  File \"test_filter.py\", line 12, in test_keeps_header\n    \
    self.assertEqual(rows[0], ['name', 'age'])\n\
    AssertionError: ['Ada', '36'] != ['name', 'age']\n\nRan 2 tests in 0.004s\n\n\
    FAILED (failures=1)\n";

/// A filter is written, its test fails, it is repaired, checked and handed over.
fn csv(style: Style) -> World {
    let mut world = World::begun(style, "Write a CSV filter with tests", &["python -m unittest"]);
    world.answer(
        MAIN,
        vec![
            Block::Thinking {
                text: "A small script with argparse will do; the header has to be kept.".to_owned(),
                seal: None,
            },
            says("I will write the filter, then its tests, and run them until they pass. \n\n"),
            asks("1", "plan", &json!({"steps": []})),
            asks("2", "write_file", &json!({"path": "filter.py", "content": "a\nb\nc\n"})),
            asks("3", "write_file", &json!({"path": "test_filter.py", "content": "a\nb\n"})),
            asks("4", "bash", &json!({"command": "python -m unittest"})),
        ],
    );
    let first =
        [step("write the filter", StepStatus::InProgress), step("test it", StepStatus::Pending)];
    world.event(Event::Planned { steps: first.to_vec(), decisions: Vec::new() });
    let noted = ToolOutput::text(ToolStatus::Done, "The plan is noted.");
    world.ended(cofferdam_types::CallId(900), MAIN, "1", noted);
    world.calls("2", "write_file", output(ToolStatus::Done, "created filter.py: 3 lines", 4));
    world.calls("3", "write_file", output(ToolStatus::Done, "created test_filter.py", 4));
    world.runs(MAIN, "4", FAILURE, 1, 420);
    let edit = json!({
        "path": "filter.py",
        "old_string": "rows = list(reader)\nprint(rows)\n",
        "new_string": "header, *rows = list(reader)\nprint(header)\nprint(rows)\n",
    });
    let again = asks("6", "bash", &json!({"command": "python -m unittest"}));
    world.answer(
        MAIN,
        vec![says("The header is filtered like a row."), asks("5", "edit_file", &edit), again],
    );
    world.calls("5", "edit_file", output(ToolStatus::Done, "edited filter.py at line 3", 3));
    world.runs(MAIN, "6", "..\n\nRan 2 tests in 0.003s\n\nOK\n", 0, 1_240);
    let done =
        [step("write the filter", StepStatus::Completed), step("test it", StepStatus::Completed)];
    world.event(Event::Planned { steps: done.to_vec(), decisions: Vec::new() });
    let summary = "A filter for CSV files.".to_owned();
    world.answer(MAIN, vec![asks("7", "finish", &json!({"summary": summary}))]);
    world.event(Event::CheckStarted { attempt: 1 });
    world.tick(900);
    let check = CheckResult {
        command: "python -m unittest".to_owned(),
        outcome: Outcome::Exited { exit_code: 0 },
        output: "OK\n".to_owned(),
        took: Duration::from_millis(900),
    };
    world.event(Event::CheckEnded { attempt: 1, results: vec![check] });
    world.finishes(
        Ending::Complete { summary, verified: true },
        vec![
            changed("filter.py", ChangeKind::Added, 4, 0),
            changed("test_filter.py", ChangeKind::Added, 2, 0),
        ],
    );
    world
}

#[test]
fn a_failing_test_and_its_repair_are_seen() {
    insta::assert_snapshot!("csv_live", screen(csv));
    insta::assert_snapshot!("csv_plain", plain(csv));
}

#[test]
fn quiet_shows_how_it_ended_and_nothing_that_went_well() {
    insta::assert_snapshot!(csv(Style::Quiet).text());
}

/// An overloaded model, then an answer that breaks off, then one that comes.
fn retry(style: Style) -> World {
    let mut world = World::begun(style, "Say hello", &[]);
    world.asked(MAIN, 1);
    world.failed(FailureKind::Unavailable, "529: overloaded_error", Some(2_000));
    world.tick(500);
    world.wait(1_500);
    world.asked(MAIN, 2);
    world.stream(MAIN, "I will write a greeting that nobody has ever", Delta::Text);
    world.failed(FailureKind::Interrupted, "the stream ended in the middle", Some(4_300));
    world.wait(4_300);
    world.asked(MAIN, 3);
    world.stream(MAIN, "Hello.", Delta::Text);
    world.answered(vec![says("Hello.")], StopReason::Done);
    world.finishes(Ending::Complete { summary: "Hello.".to_owned(), verified: false }, Vec::new());
    world
}

#[test]
fn an_answer_that_broke_off_is_withdrawn_and_asked_for_again() {
    insta::assert_snapshot!("retry_live", screen(retry));
    insta::assert_snapshot!("retry_plain", plain(retry));
}

/// Stopped by the user while a command runs and another one waits for it.
fn cancel(style: Style) -> World {
    let mut world = World::begun(style, "Count slowly", &[]);
    let commands = [("1", "for i in 1 2 3; do sleep 9; echo $i; done"), ("2", "echo done")];
    let commands = commands.map(|(id, text)| asks(id, "bash", &json!({"command": text})));
    world.answer(MAIN, commands.to_vec());
    let call = world.started(MAIN, "1", "bash");
    world.tick(100);
    world.printed(call, b"1\n");
    world.tick(4_000);
    world.event(Event::CancelAsked { by: Cancel::User });
    world.ended(
        call,
        MAIN,
        "1",
        output(ToolStatus::Cancelled, "Stopped because the job ended.", 0),
    );
    let unrun = output(ToolStatus::Cancelled, "Not run: the job ended first.", 0);
    world.ended(cofferdam_types::CallId(901), MAIN, "2", unrun);
    world.finishes(Ending::Cancelled { by: Cancel::User }, Vec::new());
    world
}

#[test]
fn a_job_that_is_stopped_says_what_was_stopped_and_how_to_go_on() {
    insta::assert_snapshot!("cancel_live", screen(cancel));
    insta::assert_snapshot!("cancel_plain", plain(cancel));
}

/// The work is handed in, and a check says no; the last hand-in fails as well.
fn check(style: Style) -> World {
    let mut world = World::begun(style, "Make it pass", &["cargo test", "cargo clippy", "true"]);
    world.answer(MAIN, vec![says("It is done.")]);
    for attempt in 1..=2 {
        world.event(Event::CheckStarted { attempt });
        world.tick(1_300);
        let result = |command: &str, exit_code, output: String| CheckResult {
            command: command.to_owned(),
            outcome: Outcome::Exited { exit_code },
            output,
            took: Duration::from_millis(650),
        };
        let log: String = (1..=30).map(|line| format!("error {line}\n")).collect();
        let results =
            vec![result("cargo test", 0, String::new()), result("cargo clippy", 101, log)];
        world.event(Event::CheckEnded { attempt, results });
    }
    world.finishes(
        Ending::Unverified { summary: "Everything passes.\nReally.".to_owned() },
        vec![changed("src/lib.rs", ChangeKind::Modified, 3, 12)],
    );
    world
}

#[test]
fn a_failing_check_shows_its_end() {
    insta::assert_snapshot!("check_live", screen(check));
    insta::assert_snapshot!("check_plain", plain(check));
    insta::assert_snapshot!("check_quiet", check(Style::Quiet).text());
}

/// A command prints 5000 lines, which the tool cuts for the model.
fn flood(style: Style) -> World {
    let mut world = World::begun(style, "Print a lot", &[]);
    world.answer(MAIN, vec![asks("1", "bash", &json!({"command": "seq 5000"}))]);
    let call = world.started(MAIN, "1", "bash");
    let lines: Vec<String> = (1..=5_000).map(|line| format!("{line}\n")).collect();
    for piece in lines.chunks(100) {
        world.wait(10);
        world.printed(call, piece.concat().as_bytes());
    }
    let whole: usize = lines.iter().map(String::len).sum();
    let tail = "4996\n4997\n4998\n4999\n5000\n";
    world.ended(call, MAIN, "1", cut_output("1\n2\n3\n4\n5\n", tail, whole as u64));
    world.finishes(Ending::Complete { summary: String::new(), verified: false }, Vec::new());
    world
}

#[test]
fn five_thousand_lines_are_folded() {
    insta::assert_snapshot!("flood_live", screen(flood));
    insta::assert_snapshot!("flood_plain", plain(flood));
}

/// Three calls that only read run side by side and end in another order.
fn parallel(style: Style) -> World {
    let mut world = World::begun(style, "Look around", &[]);
    world.answer(
        MAIN,
        vec![
            asks("1", "read_file", &json!({"path": "src/main.rs", "offset": 1, "limit": 40})),
            asks("2", "search_files", &json!({"pattern": "fn main", "glob": "*.rs"})),
            asks("3", "list_files", &json!({"path": "src"})),
        ],
    );
    let read = world.started(MAIN, "1", "read_file");
    let search = world.started(MAIN, "2", "search_files");
    let list = world.started(MAIN, "3", "list_files");
    world.wait(3);
    world.ended(list, MAIN, "3", output(ToolStatus::Done, "main.rs", 3));
    world.tick(2_000);
    world.ended(search, MAIN, "2", output(ToolStatus::Done, "src/main.rs:1", 2_003));
    let missing = "src/main.rs: there is no such file";
    world.ended(read, MAIN, "1", output(ToolStatus::Failed, missing, 2_003));
    let reason = "There is nothing to see.".to_owned();
    world.finishes(Ending::Failed { reason }, Vec::new());
    world
}

#[test]
fn calls_side_by_side_are_told_apart() {
    insta::assert_snapshot!("parallel_live", screen(parallel));
    insta::assert_snapshot!("parallel_plain", plain(parallel));
}

/// A part of the work is given to a coder.
fn delegation(style: Style) -> World {
    let mut world = World::begun(style, "Build a parser", &[]);
    let brief = "Write parser.py with a function parse(text) that returns a list of tokens.";
    let call = asks("1", "delegate", &json!({"instruction": brief}));
    world.answer(MAIN, vec![says("The parser is a task of its own."), call]);
    let delegate = world.delegated(brief);
    let patch = "*** Begin Patch\n*** Add File: parser.py\n+def parse(text):\n+    return []\n\
                 *** Update File: README.md\n@@\n-Nothing yet.\n+A parser.\n*** End Patch";
    let say = "Two files are needed, and a line in the README that tells people about them.";
    world.answer(
        CODER,
        vec![
            says(say),
            asks("1", "apply_patch", &json!({"input": patch})),
            asks("2", "bash", &json!({"command": "python -c 'import parser'"})),
        ],
    );
    let call = world.started(CODER, "1", "apply_patch");
    world.ended(call, CODER, "1", output(ToolStatus::Done, "2 files changed", 5));
    world.runs(CODER, "2", "", 0, 150);
    world.answer(CODER, vec![asks("3", "finish", &json!({"summary": "done"}))]);
    let report = "parser.py has parse(text).\nIt knows no comments yet.";
    let finished = output(ToolStatus::Done, report, 0);
    world.ended(cofferdam_types::CallId(902), CODER, "3", finished.clone());
    world.ended(delegate, MAIN, "1", finished);
    world.answer(MAIN, vec![says("The parser is there.")]);
    world.finishes(Ending::Complete { summary: String::new(), verified: false }, Vec::new());
    world
}

#[test]
fn what_a_coder_does_is_indented_below_the_call() {
    insta::assert_snapshot!("delegation_live", screen(delegation));
    insta::assert_snapshot!("delegation_plain", plain(delegation));
}

const SUMMARY: &str = "SECRET OF THE SUMMARY: the parser is in parse.rs, and its tests pass.";

fn cut(world: &mut World, cut: Cut, tokens: (u64, u64)) {
    world.event(Event::ContextCut { thread: MAIN, cut, pinned: 4_000, tokens });
}

/// A conversation gets too long twice; the second time nobody can summarise it.
fn long(style: Style) -> World {
    let mut world = World::begun(style, "Port the parser", &[]);
    world.answer(MAIN, vec![says("I look at what there is.")]);
    cut(&mut world, Cut::Pruned { through: 30, keep: 1_600 }, (151_000, 98_400));
    world.asked_for_summary(MAIN, 1);
    world.stream(MAIN, "This summary breaks off", Delta::Text);
    world.failed(FailureKind::Unavailable, "", Some(2_000));
    world.wait(2_000);
    world.asked_for_summary(MAIN, 2);
    world.stream(MAIN, "I think of what matters", Delta::Thinking);
    world.stream(MAIN, SUMMARY, Delta::Text);
    world.answered(vec![says(SUMMARY)], StopReason::Done);
    let span = Span::Messages { through: 40 };
    let summary = SUMMARY.to_owned();
    let by = Summariser::Model;
    cut(&mut world, Cut::Summarised { span, summary, by }, (98_400, 31_000));
    let words = "Port the parser\nand more of it".to_owned();
    world.event(Event::RecallAsked { thread: MAIN, words });
    let text = "x".repeat(1_234);
    world.event(Event::Offered { thread: MAIN, text });
    world.answer(MAIN, vec![says("I go on.")]);
    let span = Span::Summaries { count: 2 };
    let by = Summariser::Rule;
    let summary = SUMMARY.to_owned();
    cut(&mut world, Cut::Summarised { span, summary, by }, (98_400, 31_000));
    world.event(Event::RecallAsked { thread: MAIN, words: "w ".repeat(500) });
    world.event(Event::Offered { thread: MAIN, text: String::new() });
    world.asked_for_summary(MAIN, 1);
    world
}

#[test]
fn cuts_are_told_and_summaries_are_not_taken_for_answers() {
    for text in [screen(long), plain(long), long(LIVE).text()] {
        assert!(!text.contains("SECRET") && !text.contains("breaks off"), "{text}");
        assert!(!text.contains("what matters"), "{text}");
    }
    insta::assert_snapshot!("long_live", screen(long));
    insta::assert_snapshot!("long_plain", plain(long));
}

/// Something long is read piece by piece by another model, and something is recalled.
fn reading(style: Style) -> World {
    let mut world = World::begun(style, "Find the cause", &[]);
    let read = json!({"path": "big.log", "question": "What failed first?"});
    let recall = json!({"query": "port of the server", "limit": 3});
    world.answer(MAIN, vec![asks("1", "digest", &read), asks("2", "recall", &recall)]);
    let call = world.started(MAIN, "1", "digest");
    let reading = Some(Reading { handle: "h".to_owned(), pieces: 2 });
    let brief = "What failed first?".to_owned();
    world.event(Event::Delegated { thread: CODER, call, brief, reading });
    for _ in 0..2 {
        world.asked_to_read(CODER);
        world.stream(CODER, "SECRET NOTES of a piece", Delta::Text);
        world.answered(vec![says("SECRET NOTES of a piece")], StopReason::Done);
        world.tick(900);
    }
    world.ended(call, MAIN, "1", output(ToolStatus::Done, "The disk was full.", 2_000));
    world.calls("2", "recall", output(ToolStatus::Done, "#12: the port is 8000", 8));
    world.answer(MAIN, vec![says("The disk was full.")]);
    world
}

#[test]
fn what_is_noted_while_something_long_is_read_is_not_taken_for_an_answer() {
    for text in [screen(reading), plain(reading), reading(LIVE).text()] {
        assert!(!text.contains("SECRET"), "{text}");
    }
    insta::assert_snapshot!("reading_live", screen(reading));
    insta::assert_snapshot!("reading_plain", plain(reading));
}

#[test]
fn an_image_that_is_being_made_is_told_step_by_step() {
    let mut world = World::new(Style::Plain);
    world.event(Event::ImageStep { step: "install the system's \u{1b}[2Jpackages".to_owned() });
    world.event(Event::ImageReady { image: "5f3c5f3c5f3c".to_owned() });
    let text = world.text();
    assert!(text.contains("the image: install the system's"), "{text}");
    assert!(text.contains("image 5f3c5f3c5f3c") && !text.contains('\u{1b}'), "{text}");
}
