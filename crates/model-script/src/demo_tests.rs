//! Whole conversations with the demo, carried out for real and interfered with.

use std::time::{Duration, Instant};

use cofferdam_types::{
    Answer, Arguments, Block, Content, Message, StopReason, ToolCall, ToolResult, Toolbox,
};
use futures_util::StreamExt;

use super::workbench::{CODER, Course, ORCHESTRATOR, Workbench, ask, render};
use super::*;

const HELLO: &str = "Write a hello world script";
const HEALTH: &str = "Build a Flask API with a /health endpoint";
const CSV: &str = "Write a CSV filter with sample data and tests";
const TODO_APP: &str = "Build a todo web app";

/// What the loop says of a call that a crash interrupted.
const NOT_KNOWN: &str = "Whether it ran, and how far, is not known.";

/// Works on a task; calls whose id begins so have this output instead, once.
fn work_but(task: &str, id: &str, output: (bool, &str)) -> (Workbench, Course) {
    let mut workbench = Workbench::new();
    let mut left = 1;
    let course = workbench.work_with(&Demo::new(), task, &ORCHESTRATOR, &mut |call: &ToolCall| {
        (left > 0 && call.id.starts_with(id)).then(|| {
            left -= 1;
            (output.0, output.1.to_owned())
        })
    });
    assert_eq!(left, 0, "no call {id}: {}", render(&course.messages));
    (workbench, course)
}

fn assert_succeeded(course: &Course) {
    assert!(course.success, "{}\n{}", course.summary, render(&course.messages));
}

#[track_caller]
fn assert_stopped(course: &Course, why: &str) {
    let page = render(&course.messages);
    assert!(!course.success, "{page}");
    assert!(course.summary.contains(why), "{}\n{page}", course.summary);
}

fn continued(course: &Course, more: Message) -> Answer {
    let mut messages = course.messages.clone();
    messages.push(more);
    ask(&Demo::new(), &messages, &ORCHESTRATOR)
}

/// Whether an answer hands in as failed.
fn gives_up(answer: &Answer) -> bool {
    let calls: Vec<_> = answer.calls().collect();
    let arguments = calls[0].arguments.object().unwrap();
    calls.len() == 1 && calls[0].name == "finish" && arguments["success"] == false
}

#[test]
fn hello_is_written_and_run() {
    let mut workbench = Workbench::new();
    assert_succeeded(&workbench.work(&Demo::new(), HELLO));
    assert_eq!(workbench.bash("python3 hello.py").1, "Hello, world!\nexit code: 0");
}

#[test]
fn the_health_api_is_started_and_asked() {
    let mut workbench = Workbench::new();
    let course = workbench.work(&Demo::new(), HEALTH);
    assert_succeeded(&course);
    let page = format!("{:?}", course.messages);
    assert!(page.contains("HTTP 200 {"), "{page}");
    assert!(page.contains(r#"\"process\":\"p1\",\"stop\":true"#), "{page}");
}

#[test]
fn the_csv_filter_fails_its_tests_and_is_repaired() {
    let mut workbench = Workbench::new();
    let course = workbench.work(&Demo::new(), CSV);
    assert_succeeded(&course);
    insta::assert_snapshot!(render(&course.messages));
    assert_eq!(workbench.get("csv_filter.py"), csv_filter::repaired());
    assert!(!workbench.directory.path().join("__pycache__").exists());
}

#[test]
fn the_todo_app_is_delegated_and_checked() {
    let mut workbench = Workbench::new();
    let course = workbench.work(&Demo::new(), TODO_APP);
    assert_succeeded(&course);
    assert!(render(&course.messages).contains("demo-todo-delegate-1-0"));
    assert_eq!(workbench.get("index.html"), todo::PAGE);
}

#[test]
fn without_a_coder_and_a_plan_the_work_is_done_all_the_same() {
    for task in Demo::sample_tasks() {
        let mut workbench = Workbench::new();
        assert_succeeded(&workbench.work_with(&Demo::new(), task, &CODER, &mut |_| None));
    }
}

#[test]
fn where_nothing_can_be_handed_in_the_last_word_is_text() {
    let course =
        Workbench::new().work_with(&Demo::new(), HELLO, &["bash", "write_file"], &mut |_| None);
    assert!(course.summary.starts_with("Wrote `hello.py`"), "{}", course.summary);
    let mut messages = course.messages;
    let before_the_last = &messages[..messages.len() - 1];
    assert_eq!(ask(&Demo::new(), before_the_last, &[]).stop, StopReason::Done);
    messages.push(Message::user("and now?"));
    assert_eq!(ask(&Demo::new(), &messages, &[]).stop, StopReason::Refused);
    assert!(gives_up(&ask(&Demo::new(), &messages, &["finish"])));
}

#[test]
fn a_second_run_in_the_same_directory_does_the_same() {
    for task in Demo::sample_tasks() {
        let mut workbench = Workbench::new();
        assert_succeeded(&workbench.work(&Demo::new(), task));
        assert_succeeded(&workbench.work(&Demo::new(), task));
    }
}

#[test]
fn a_file_of_somebody_else_is_not_overwritten() {
    for (task, file) in [
        (HELLO, "hello.py"),
        (HEALTH, "test_app.py"),
        (CSV, "products.csv"),
        (TODO_APP, "check.py"),
    ] {
        let mut workbench = Workbench::new();
        workbench.put(file, "mine\n");
        assert_stopped(&workbench.work(&Demo::new(), task), &format!("`{file}`"));
        assert_eq!(workbench.get(file), "mine\n");
        assert_eq!(workbench.directory.path().read_dir().unwrap().count(), 1);
    }
}

#[test]
fn what_a_step_did_not_expect_ends_the_task_as_failed() {
    let failed = |output| (true, output);
    for (task, id, output) in [
        (HELLO, "demo-hello-look", failed("exit code: 1")),
        (HELLO, "demo-hello-write", failed("No space left on device")),
        (HELLO, "demo-hello-run", failed("python3: not found\nexit code: 127")),
        (HELLO, "demo-hello-run", (false, "Good night!\nexit code: 0")),
        (HELLO, "demo-hello-run", (false, "Hello, world!")),
        (HEALTH, "demo-health-test", failed("FAILED (errors=1)\nexit code: 1")),
        (HEALTH, "demo-health-start", failed("cannot fork")),
        (CSV, "demo-csv-write-1-1", failed("Read-only file system")),
        (CSV, "demo-csv-test-1-1", failed("No module named unittest\nexit code: 1")),
        (CSV, "demo-csv-test-1-1", (false, "OK\nexit code: 0")),
        (CSV, "demo-csv-examine", failed("no such file")),
        (CSV, "demo-csv-repair", failed("old_string occurs 0 times")),
        (CSV, "demo-csv-retest", failed("FAILED (failures=1)\nexit code: 1")),
        (CSV, "demo-csv-use-1-1", failed("killed\nexit code: 137")),
        (CSV, "demo-csv-use-1-1", (false, "Desk lamp,light,119.00,7\nexit code: 0")),
        (TODO_APP, "demo-todo-delegate", failed("The coder declined: no")),
        (TODO_APP, "demo-todo-check-", failed("no element \"list\"\nexit code: 1")),
    ] {
        let (_, course) = work_but(task, id, output);
        assert_stopped(&course, "The built-in demo stopped: ");
    }
}

#[test]
fn a_failure_is_shown_with_its_output() {
    let (_, course) = work_but(HELLO, "demo-hello-run", (true, "Killed by the moon\nexit code: 9"));
    assert_stopped(&course, "Killed by the moon\nexit code: 9");
}

#[test]
fn a_step_whose_outcome_is_not_known_is_taken_again() {
    for (task, id) in [
        (HELLO, "demo-hello-look"),
        (HELLO, "demo-hello-run"),
        (HELLO, "demo-hello-finish"),
        (HEALTH, "demo-health-start"),
        (HEALTH, "demo-health-ask"),
        (CSV, "demo-csv-test"),
        (CSV, "demo-csv-repair"),
        (TODO_APP, "demo-todo-delegate"),
    ] {
        let (_, course) = work_but(task, id, (true, NOT_KNOWN));
        assert_succeeded(&course);
        assert!(render(&course.messages).contains("It is not known"), "{id}");
    }
}

#[test]
fn a_repair_that_was_made_before_the_crash_does_no_harm() {
    let mut workbench = Workbench::new();
    let program = workbench.directory.path().join("csv_filter.py");
    let mut interrupted = false;
    let course = workbench.work_with(&Demo::new(), CSV, &ORCHESTRATOR, &mut |call: &ToolCall| {
        (call.name == "edit_file" && !interrupted).then(|| {
            interrupted = true;
            std::fs::write(&program, csv_filter::repaired()).unwrap();
            (true, NOT_KNOWN.to_owned())
        })
    });
    assert_succeeded(&course);
    assert_eq!(workbench.get("csv_filter.py"), csv_filter::repaired());
}

#[test]
fn endless_interruptions_end_in_failure() {
    let course = Workbench::new().work_with(&Demo::new(), HELLO, &ORCHESTRATOR, &mut |call| {
        (call.name != "finish").then(|| (true, NOT_KNOWN.to_owned()))
    });
    assert_stopped(&course, "interrupted too often");
}

#[test]
fn a_service_that_is_gone_is_started_again_but_not_for_ever() {
    let gone = "no answer: Connection refused\nexit code: 1";
    let (_, course) = work_but(HEALTH, "demo-health-ask", (true, gone));
    assert_succeeded(&course);
    assert!(render(&course.messages).contains("demo-health-start-2-0"));

    let course = Workbench::new().work_with(&Demo::new(), HEALTH, &ORCHESTRATOR, &mut |call| {
        call.id.starts_with("demo-health-ask").then(|| (true, gone.to_owned()))
    });
    assert_stopped(&course, "Connection refused");
    assert!(render(&course.messages).contains("demo-health-ask-3-0"));
    assert!(!render(&course.messages).contains("demo-health-ask-4-0"));
}

#[test]
fn a_check_that_fails_is_beyond_the_script() {
    let course = Workbench::new().work(&Demo::new(), HELLO);
    assert!(gives_up(&continued(&course, Message::user("The check `make` failed: exit code: 2"))));
    let id = "demo-hello-finish-1-0".to_owned();
    let said = "The work is not accepted: a check failed. Its end is not known.";
    let content = vec![Content::text(said)];
    let refused = Message::Tools { results: vec![ToolResult { id, content, failed: true }] };
    let answer = continued(&course, refused);
    assert!(gives_up(&answer));
    assert!(answer.calls().all(|call| call.arguments.0.contains("cannot repair")));
    assert_ne!(answer.calls().next().unwrap().id, "demo-hello-finish-1-0");
}

#[test]
fn words_in_between_are_heard_and_change_nothing() {
    let task = Message::user(HELLO);
    let first = ask(&Demo::new(), std::slice::from_ref(&task), &ORCHESTRATOR);
    let id = first.calls().next().unwrap().id.clone();
    let content = vec![Content::text("exit code: 0")];
    let results = Message::Tools { results: vec![ToolResult { id, content, failed: false }] };
    let messages =
        [task, Message::Model { blocks: first.blocks }, results, Message::user("Use Perl")];
    let answer = ask(&Demo::new(), &messages, &ORCHESTRATOR);
    assert!(answer.text().contains("a script cannot answer"), "{}", answer.text());
    assert_eq!(answer.calls().next().unwrap().id, "demo-hello-write-1-0");
}

#[test]
fn a_conversation_that_another_model_led_is_not_gone_on_with() {
    for id in ["toolu_1", "demo-csv-write-1-0", "demo-hello-sing-1-0"] {
        let arguments = Arguments("{}".to_owned());
        let call = ToolCall { id: id.to_owned(), name: "bash".to_owned(), arguments };
        let blocks = vec![Block::ToolCall(call)];
        let messages = [Message::user(HELLO), Message::Model { blocks }];
        let answer = ask(&Demo::new(), &messages, &ORCHESTRATOR);
        assert!(gives_up(&answer), "{id}");
        assert!(answer.calls().all(|call| call.arguments.0.contains("another model")), "{id}");
    }
}

#[test]
fn any_other_task_is_declined_with_what_to_configure() {
    let course = Workbench::new().work(&Demo::new(), "Write a chess engine");
    assert_stopped(&course, "Configure a language model");
    insta::assert_snapshot!(render(&course.messages));
}

#[test]
fn every_conversation_says_that_it_is_a_script() {
    for task in Demo::sample_tasks().into_iter().chain(["Write a chess engine"]) {
        let answer = ask(&Demo::new(), &[Message::user(task)], &ORCHESTRATOR);
        let label = "This is Cofferdam's built-in demo: a script, no language model.";
        assert!(answer.text().starts_with(label), "{task}");
        assert!(answer.tokens.input > 0 && answer.tokens.output > 0);
    }
}

#[tokio::test]
async fn a_pace_slows_the_words_and_changes_none() {
    let request = |task: &str| Request {
        system: String::new(),
        messages: vec![Message::user(task)],
        tools: Toolbox::default(),
        max_output: 1000,
        cache_key: String::new(),
        which: cofferdam_model::Which::FIRST,
    };
    let pace = Duration::from_millis(1);
    let begun = Instant::now();
    let paced: Vec<_> = Demo::paced(pace).ask(request(HELLO)).collect().await;
    let words = paced.iter().filter(|piece| matches!(piece, Ok(Delta::Text(_)))).count();
    assert!(words > 10);
    assert!(begun.elapsed() >= pace * u32::try_from(words).unwrap());
    assert_eq!(paced, Demo::new().ask(request(HELLO)).collect::<Vec<_>>().await);
}
