//! A job that finds again what it has let go.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cofferdam_model::Request;
use cofferdam_runtime::Driven;
use cofferdam_types::{Block, Content, Ending, Event, Message, Record, ToolOutput, ToolStatus};
use serde_json::{Value, json};

use crate::lab::{Lab, Say};

/// Tokens that the models here can read: little more than what stands before every
/// conversation.
const WINDOW: u64 = 12_000;

/// The fact that is let go.
const FACT: &str = "zebra_port = 48217";

/// Everything that a model is shown.
fn shown(question: &Request) -> String {
    let mut text = String::new();
    for message in &question.messages {
        match message {
            Message::User { content } => content.iter().for_each(|part| push(&mut text, part)),
            Message::Model { blocks } => {
                for block in blocks {
                    match block {
                        Block::Text { text: words } => text.push_str(words),
                        Block::ToolCall(call) => text.push_str(&call.arguments.0),
                        Block::Thinking { .. } => {}
                    }
                }
            }
            Message::Tools { results } => {
                results
                    .iter()
                    .for_each(|one| one.content.iter().for_each(|part| push(&mut text, part)));
            }
        }
        text.push('\n');
    }
    text
}

fn push(text: &mut String, part: &Content) {
    if let Content::Text { text: words } = part {
        text.push_str(words);
        text.push('\n');
    }
}

/// The results of the calls that were made last; nothing if there are none.
fn results(question: &Request) -> String {
    let mut text = String::new();
    if let Some(Message::Tools { results }) = question.messages.last() {
        results.iter().for_each(|one| one.content.iter().for_each(|part| push(&mut text, part)));
    }
    text
}

fn bash(command: &str) -> Say {
    Say::Calls(vec![("bash", json!({ "command": command }))])
}

fn recall(arguments: Value) -> Say {
    Say::Calls(vec![("recall", arguments)])
}

/// Whoever is asked for a summary writes one that says little.
fn summary(question: &Request) -> Option<Say> {
    let text = "Several files were looked at one after another, and nothing in them was of note.";
    question.tools.is_empty().then(|| Say::Text(text.to_owned()))
}

/// Something to forget other things by, another each time.
fn noise(times: &AtomicUsize) -> Say {
    let number = times.fetch_add(1, Ordering::SeqCst);
    bash(&format!("seq -f 'row {number}-%g says nothing' 1 120"))
}

fn outputs_of(records: &[Record], tool: &str) -> Vec<ToolOutput> {
    let calls: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::ToolStarted { call, tool: name, .. } if name == tool => Some(*call),
            _ => None,
        })
        .collect();
    let ended = records.iter().filter_map(|record| match &record.event {
        Event::ToolEnded { call, output, .. } if calls.contains(call) => Some(output.clone()),
        _ => None,
    });
    ended.collect()
}

fn said(driven: &Driven) -> &str {
    match driven {
        Driven::Ended(Ending::Complete { summary, .. }) => summary,
        other => panic!("{other:?}"),
    }
}

/// Learns the fact, does other things until it is gone, and then looks for it.
fn forgetful(question: &Request, times: &AtomicUsize, looked: &AtomicBool) -> Say {
    let all = shown(question);
    let last = results(question);
    if let Some(summary) = summary(question) {
        summary
    } else if question.messages.len() == 1 && !all.contains("<memory>") {
        bash(&format!("echo '{FACT}'"))
    } else if looked.load(Ordering::SeqCst) {
        Say::Text(format!("I have: {last}"))
    } else if all.contains(FACT) || !all.contains("<memory>") {
        noise(times)
    } else {
        looked.store(true, Ordering::SeqCst);
        recall(json!({ "query": "which zebra port was it?" }))
    }
}

#[tokio::test]
async fn a_fact_from_before_a_cut_is_found_by_its_words() {
    let (times, looked) = (AtomicUsize::new(0), AtomicBool::new(false));
    let lab =
        Lab::recalling(WINDOW, "look around", move |question| forgetful(question, &times, &looked));
    let driven = lab.drive().end().await;
    assert!(said(&driven).contains(FACT), "{driven:?}");
    let records = lab.records();
    let cut = |record: &Record| matches!(record.event, Event::ContextCut { .. });
    assert!(records.iter().any(cut));
    let [found] = &outputs_of(&records, "recall")[..] else { panic!("one recall") };
    assert_eq!(found.status, ToolStatus::Done);
    assert!(found.plain_text().starts_with("1. #"), "{}", found.plain_text());
    // What people can read of it.
    let told = std::fs::read_to_string(lab.directory().join("context.md")).unwrap();
    assert!(told.contains("> look around") && told.contains("## Summary of #"), "{told}");
    assert!(told.contains("nothing in them was of note") && told.contains("| #"), "{told}");
    assert!(lab.directory().join("recall.db").is_file());
}

#[tokio::test]
async fn a_short_job_pays_nothing_for_what_it_does_not_need() {
    let lab = Lab::recalling(WINDOW, "be quick", |question| match question.messages.len() {
        1 => bash("echo hello"),
        _ => Say::Text("done".to_owned()),
    });
    said(&lab.drive().end().await);
    assert!(!lab.directory().exists());
}

#[tokio::test]
async fn what_the_next_question_may_need_is_offered_without_being_asked_for() {
    let (times, offered) = (AtomicUsize::new(0), AtomicBool::new(false));
    let lab = Lab::recalling(WINDOW, "look around", move |question| {
        let all = shown(question);
        if let Some(summary) = summary(question) {
            return summary;
        }
        if let Some((_, block)) = all.split_once("<recalled>") {
            offered.store(true, Ordering::SeqCst);
            return Say::Text(format!("offered: {block}"));
        }
        match question.messages.len() {
            1 => bash(&format!("echo '{FACT}'")),
            3 => {
                let step = "write the zebra_port into the configuration";
                let steps = json!([{ "step": step, "status": "in_progress" }]);
                Say::Calls(vec![("plan", json!({ "steps": steps }))])
            }
            _ if times.load(Ordering::SeqCst) > 60 => Say::Text("nothing came".to_owned()),
            _ => noise(&times),
        }
    });
    let driven = lab.drive().end().await;
    assert!(said(&driven).starts_with("offered:") && said(&driven).contains(FACT), "{driven:?}");
    let records = lab.records();
    let asked = records.iter().filter(|one| matches!(one.event, Event::RecallAsked { .. }));
    let text = records.iter().find_map(|record| match &record.event {
        Event::Offered { text, .. } if !text.is_empty() => Some(text.clone()),
        _ => None,
    });
    let text = text.expect("something was offered");
    assert!(asked.count() >= 1);
    assert!(text.starts_with("<recalled>") && text.ends_with("</recalled>"), "{text}");
    assert!(text.chars().count() <= 1_500 && text.matches("\n#").count() <= 4, "{text}");
}

/// Makes these calls of `recall`, one an answer, after some commands.
fn lookups(commands: Vec<String>, lookups: Vec<Value>) -> impl Fn(&Request) -> Say + Send + Sync {
    let turn = AtomicUsize::new(0);
    move |question: &Request| {
        if let Some(summary) = summary(question) {
            return summary;
        }
        let turn = turn.fetch_add(1, Ordering::SeqCst);
        match (commands.get(turn), lookups.get(turn.saturating_sub(commands.len()))) {
            (Some(command), _) => bash(command),
            (None, Some(arguments)) => recall(arguments.clone()),
            (None, None) => Say::Text("done".to_owned()),
        }
    }
}

/// The event in which the output of the first command is.
fn first_output(records: &[Record]) -> u64 {
    let ended = |record: &&Record| matches!(record.event, Event::ToolEnded { .. });
    records.iter().find(ended).map(|record| record.seq).expect("a command has ended")
}

/// What came of each recall of a job that runs one command. The event of the command's
/// output is always the same.
async fn recalled(command: &str, wanted: Vec<Value>) -> Vec<(ToolStatus, String)> {
    let lab = Lab::recalling(200_000, "the task itself", lookups(vec![command.to_owned()], wanted));
    said(&lab.drive().end().await);
    let records = lab.records();
    assert_eq!(first_output(&records), OUTPUT);
    let outputs = outputs_of(&records, "recall");
    outputs.iter().map(|output| (output.status, output.plain_text())).collect()
}

const OUTPUT: u64 = 8;

#[tokio::test]
async fn an_original_is_read_whole_or_in_ranges_also_where_it_was_kept_apart() {
    let long = "seq -f 'entry %g' 1 60000; printf '%050000d\\n' 7; echo the end";
    let found = recalled(
        long,
        vec![
            json!({ "id": OUTPUT, "offset": 30_000, "limit": 2 }),
            json!({ "id": OUTPUT, "offset": 60_001 }),
            json!({ "id": OUTPUT, "offset": 60_001, "byte": 49_990 }),
            json!({ "id": OUTPUT, "query": "entry 41234" }),
            json!({ "id": OUTPUT, "offset": 99_999 }),
            json!({ "id": "#1" }),
            json!({ "id": 9_999 }),
            json!({ "id": OUTPUT, "file": "x" }),
        ],
    )
    .await;
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert!(texts[0].contains("---\nentry 30000\nentry 30001\n---\n"), "{}", texts[0]);
    assert!(texts[0].contains("go on with id 8 and offset 30002"), "{}", texts[0]);
    assert!(texts[0].starts_with("#8: output of bash {\"command\":\"seq"), "{}", texts[0]);
    assert!(texts[1].contains("line 60001 goes on; go on with id 8, offset 60001 and byte 12000"));
    assert!(texts[2].contains("---\n0000000007\nthe end\n"), "{}", texts[2]);
    assert!(texts[3].contains("| entry 41234"), "{}", texts[3]);
    assert!(texts[4].contains("there is no line 99999"), "{}", texts[4]);
    assert!(texts[5].contains("---\nthe task itself\n"), "{}", texts[5]);
    assert!(texts[6].contains("there is no event #9999"), "{}", texts[6]);
    assert!(texts[7].contains("`id` goes with"), "{}", texts[7]);
    let statuses: Vec<ToolStatus> = found.iter().map(|(status, _)| *status).collect();
    assert_eq!(
        statuses[4..],
        [ToolStatus::Failed, ToolStatus::Done, ToolStatus::Failed, ToolStatus::Refused]
    );
    assert!(texts.iter().all(|text| text.len() < 13_000));
}

#[tokio::test]
async fn what_is_about_a_file_or_from_a_time_is_found() {
    let found = recalled(
        "mkdir -p src && echo 'fn quagga() {}' > src/quagga.rs && cat src/quagga.rs",
        vec![
            json!({ "file": "/workspace/src/quagga.rs" }),
            json!({ "from": "1h ago", "to": "now", "limit": 2 }),
            json!({ "to": "1h ago" }),
        ],
    )
    .await;
    assert!(found[0].1.contains("#6 call") && found[0].1.contains("#8 output"), "{}", found[0].1);
    assert!(found[1].1.starts_with("1. #") && found[1].1.contains("\n2. #"), "{}", found[1].1);
    assert!(!found[1].1.contains("\n3. #"), "{}", found[1].1);
    assert!(found[2].1.starts_with("Nothing was found."), "{}", found[2].1);
}

#[tokio::test]
async fn files_of_the_workspace_are_found_as_they_are_now() {
    let commands = ["echo 'the okapi budget is 300 euros' > notes.txt; mkdir -p out; \
                     echo out > .gitignore; echo 'okapi budget 999' > out/built.txt"];
    let turn = AtomicUsize::new(0);
    let lab = Lab::recalling(200_000, "keep the books", move |_| {
        let find = || recall(json!({ "query": "okapi budget euros" }));
        match turn.fetch_add(1, Ordering::SeqCst) {
            0 => bash(commands[0]),
            1 => find(),
            2 => bash("echo 'the okapi budget is 450 euros' > notes.txt"),
            3 => find(),
            4 => bash("rm notes.txt"),
            5 => find(),
            _ => Say::Text("done".to_owned()),
        }
    });
    said(&lab.drive().end().await);
    let found = outputs_of(&lab.records(), "recall");
    let texts: Vec<String> = found.iter().map(ToolOutput::plain_text).collect();
    let entry = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.ends_with(" notes.txt:1-1"));
        at.map(|at| lines[at + 1].to_owned())
    };
    assert_eq!(
        entry(&texts[0]).as_deref(),
        Some("  | the okapi budget is 300 euros"),
        "{}",
        texts[0]
    );
    assert_eq!(
        entry(&texts[1]).as_deref(),
        Some("  | the okapi budget is 450 euros"),
        "{}",
        texts[1]
    );
    assert_eq!(entry(&texts[2]), None, "{}", texts[2]);
    assert!(texts.iter().all(|text| !text.contains("out/built.txt:")), "{texts:?}");
}

#[tokio::test]
async fn a_broken_index_is_made_anew_from_the_log() {
    let (times, looked) = (AtomicUsize::new(0), AtomicBool::new(false));
    let lab = Lab::recalling(WINDOW, "look around", move |question| {
        if shown(question).contains("look once more") && results(question).is_empty() {
            return recall(json!({ "query": "zebra port" }));
        }
        forgetful(question, &times, &looked)
    });
    said(&lab.drive().end().await);
    let file = lab.directory().join("recall.db");
    for name in ["recall.db-wal", "recall.db-shm"] {
        std::fs::remove_file(lab.directory().join(name)).ok();
    }
    std::fs::write(&file, b"this is no index at all".repeat(999)).unwrap();
    let driven = lab.drive_saying(Some("look once more")).end().await;
    assert!(said(&driven).contains(FACT), "{driven:?}");
    assert!(std::fs::read(&file).unwrap().starts_with(b"SQLite format 3"));
}

#[tokio::test]
async fn a_job_that_is_killed_while_it_looks_goes_on_and_finds() {
    let (times, looked) = (AtomicUsize::new(0), AtomicBool::new(false));
    let lab = Lab::recalling(WINDOW, "look around", move |question| {
        let all = shown(question);
        let step = "write the zebra_port into the configuration";
        if !question.tools.is_empty() && question.messages.len() == 3 && !all.contains(step) {
            let steps = json!([{ "step": step, "status": "in_progress" }]);
            return Say::Calls(vec![("plan", json!({ "steps": steps }))]);
        }
        forgetful(question, &times, &looked)
    });
    let mut first = lab.drive();
    first.until(|event| matches!(event, Event::RecallAsked { .. })).await;
    first.kill().await;
    let mut second = lab.drive();
    second.until(|event| matches!(event, Event::Offered { .. })).await;
    second.kill().await;
    let driven = lab.drive().end().await;
    assert!(said(&driven).contains(FACT), "{driven:?}");
    let records = lab.records();
    let asked = records.iter().filter(|one| matches!(one.event, Event::RecallAsked { .. })).count();
    assert!(asked >= 2, "{asked}");
}

#[tokio::test]
async fn a_coder_finds_what_the_orchestrator_was_told() {
    let lab = Lab::recalling(200_000, "look around", move |question| {
        let all = shown(question);
        let coder = question.system.starts_with("You are the coder");
        assert!(question.tools.iter().any(|tool| tool.name == "recall"));
        match (coder, question.messages.len()) {
            (false, 1) => bash(&format!("echo '{FACT}'")),
            (false, 3) => Say::Calls(vec![(
                "delegate",
                json!({ "instruction": "say which port it is", "context": "none" }),
            )]),
            (false, _) => Say::Text(all),
            (true, 1) => recall(json!({ "query": "zebra port" })),
            (true, _) => Say::Text(format!("the coder says: {}", results(question))),
        }
    });
    let driven = lab.drive().end().await;
    let text = said(&driven);
    let (_, coder) = text.split_once("the coder says:").expect("the coder has answered");
    assert!(coder.contains(FACT), "{text}");
}
