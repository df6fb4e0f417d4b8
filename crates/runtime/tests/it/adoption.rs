//! A job that is left by one process and taken up by the next, in the sandbox it
//! had.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cofferdam_runtime::{Driven, OrderKind};
use cofferdam_sandbox::Backend;
use cofferdam_types::{Cancel, Ending, Event, ToolOutput, ToolStatus};
use tokio::time::Instant;

use crate::lab::{Lab, Say};

/// Waits for a file of the workspace, says so, and counts how often it ran.
const WAITS: &str =
    "echo ran >> count; touch begun; while [ ! -e go ]; do sleep 0.01; done; echo went";

fn tool_started(event: &Event) -> bool {
    matches!(event, Event::ToolStarted { .. })
}

#[tokio::test]
async fn a_command_that_ran_on_is_collected_by_the_next_process() {
    let lab = Lab::new(&[WAITS, "cat count"]);
    let mut first = lab.drive();
    first.until(tool_started).await;
    let visit = first.door.enter().unwrap();
    while visit.files().stat("begun").await.is_err() {}
    drop(visit);
    first.orders.send(OrderKind::Leave(Instant::now()).into()).await.unwrap();
    assert_eq!(first.end().await, Driven::Left);

    let second = lab.drive();
    let go = async {
        // The door opens when the sandbox was taken up.
        loop {
            if let Some(visit) = second.door.enter() {
                let bytes = bytes::Bytes::new();
                let mode = cofferdam_guest_protocol::WriteMode::Create;
                return visit.files().write("go", bytes, mode, 0o644).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    go.await;
    let driven = second.end().await;
    assert!(matches!(driven, Driven::Ended(Ending::Complete { .. })), "{driven:?}");

    let records = lab.records();
    let outputs: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::ToolEnded { output, .. } => Some((output.status, output.plain_text())),
            _ => None,
        })
        .collect();
    assert_eq!(outputs[0].0, ToolStatus::Done, "{outputs:?}");
    assert!(outputs[0].1.contains("went"), "{outputs:?}");
    assert_eq!(outputs[1].1, "ran\nexit code: 0");
    assert_eq!(std::fs::read_to_string(lab.workspace().join("count")).unwrap(), "ran\n");
    // Nothing is left of the sandbox.
    let left = lab.native.reconcile().await.unwrap();
    assert!(left.alive.is_empty() && left.removed.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_sandbox_that_is_gone_leaves_its_calls_unknown() {
    let lab = Lab::new(&[WAITS]);
    let mut first = lab.drive();
    let Event::SandboxOpened { sandbox, .. } =
        first.until(|event| matches!(event, Event::SandboxOpened { .. })).await
    else {
        panic!("no sandbox")
    };
    first.until(tool_started).await;
    first.orders.send(OrderKind::Leave(Instant::now()).into()).await.unwrap();
    assert_eq!(first.end().await, Driven::Left);
    let room = lab.native.reattach(sandbox).await.unwrap();
    room.close().await.unwrap();

    let second = lab.drive();
    let driven = second.end().await;
    assert!(matches!(driven, Driven::Ended(Ending::Complete { .. })), "{driven:?}");
    let unknown = lab.records().iter().any(|record| {
        matches!(&record.event, Event::ToolEnded { output, .. } if output.status == ToolStatus::Unknown)
    });
    assert!(unknown);
}

#[tokio::test]
async fn a_job_rests_once_nothing_is_under_way_and_goes_on_later() {
    let lab = Lab::new(&[WAITS, "cat count"]);
    let mut first = lab.drive();
    first.until(tool_started).await;
    first.orders.send(OrderKind::Pause.into()).await.unwrap();
    first.until(|event| *event == Event::Paused).await;
    let visit = first.door.enter().unwrap();
    let mode = cofferdam_guest_protocol::WriteMode::Create;
    visit.files().write("go", bytes::Bytes::new(), mode, 0o644).await.unwrap();
    drop(visit);
    assert_eq!(first.end().await, Driven::Resting);
    // It is in the workspace, and nothing holds any memory for it.
    assert_eq!(std::fs::read_to_string(lab.workspace().join("count")).unwrap(), "ran\n");
    assert!(lab.native.reconcile().await.unwrap().alive.is_empty());
    assert!(matches!(lab.records().last().unwrap().event, Event::ToolEnded { .. }));

    let driven = lab.drive().end().await;
    assert!(matches!(driven, Driven::Ended(Ending::Complete { .. })), "{driven:?}");
    assert_eq!(std::fs::read_to_string(lab.workspace().join("count")).unwrap(), "ran\n");
}

#[tokio::test]
async fn whoever_wants_the_job_to_stop_does_not_wait_for_what_ran_on() {
    let lab = Lab::new(&[WAITS]);
    let mut first = lab.drive();
    first.until(tool_started).await;
    first.orders.send(OrderKind::Leave(Instant::now()).into()).await.unwrap();
    assert_eq!(first.end().await, Driven::Left);
    let second = lab.drive();
    second.orders.send(OrderKind::Cancel(Cancel::User).into()).await.unwrap();
    assert_eq!(second.end().await, Driven::Ended(Ending::Cancelled { by: Cancel::User }));
    assert!(lab.native.reconcile().await.unwrap().alive.is_empty());
}

#[tokio::test]
async fn a_visitor_keeps_the_sandbox_until_it_is_told_to_go() {
    let lab = Lab::new(&["true"]);
    let mut job = lab.drive();
    job.until(tool_started).await;
    let visit = job.door.enter().unwrap();
    let door = job.door.clone();
    let leaving = async {
        visit.over().await;
        assert!(door.enter().is_none());
        drop(visit);
    };
    let (driven, ()) = tokio::join!(job.end(), leaving);
    assert!(matches!(driven, Driven::Ended(Ending::Complete { .. })), "{driven:?}");
}

#[tokio::test]
async fn a_process_that_died_before_it_had_said_so_leaves_the_sandbox_to_the_next() {
    let lab = Lab::new(&[WAITS]);
    let mut first = lab.drive();
    let Event::SandboxOpened { sandbox, .. } =
        first.until(|event| matches!(event, Event::SandboxOpened { .. })).await
    else {
        panic!("no sandbox")
    };
    let Event::ToolStarted { call, thread, id, .. } = first.until(tool_started).await else {
        panic!("no call")
    };
    first.orders.send(OrderKind::Leave(Instant::now()).into()).await.unwrap();
    assert_eq!(first.end().await, Driven::Left);
    // The log of one that was killed right after it had taken the job up.
    let output = ToolOutput::text(ToolStatus::Unknown, "not known");
    lab.append(vec![
        Event::TakenUp { version: "0".to_owned(), only_delivers: false },
        Event::ToolEnded { call, thread, id, output },
    ]);

    let mut third = lab.drive();
    let opened = third.until(|event| matches!(event, Event::SandboxOpened { .. })).await;
    assert!(matches!(opened, Event::SandboxOpened { sandbox: again, .. } if again == sandbox));
    let driven = third.end().await;
    assert!(matches!(driven, Driven::Ended(Ending::Complete { .. })), "{driven:?}");
    assert!(lab.native.reconcile().await.unwrap().alive.is_empty());
}

#[tokio::test]
async fn a_model_is_told_that_its_sandbox_is_the_same_and_finds_everything_there() {
    let commands = [
        "cd /tmp; export WORD=kept; touch file; sleep 300 >/dev/null 2>&1 & echo $! > pid",
        "touch /workspace/begun; while [ ! -e /workspace/go ]; do sleep 0.01; done",
        "pwd; echo $WORD; ls file; kill -0 $(cat pid) && echo runs",
    ];
    let (asked, told) = (AtomicUsize::new(0), Arc::new(Mutex::new(String::new())));
    let heard = Arc::clone(&told);
    let lab = Lab::recalling(100_000, "do it", move |question| {
        *heard.lock().unwrap() = format!("{:?}", question.messages);
        match commands.get(asked.fetch_add(1, Ordering::SeqCst)) {
            Some(command) => Say::Calls(vec![("bash", serde_json::json!({"command": command}))]),
            None => Say::Text("done".to_owned()),
        }
    });
    let mut first = lab.drive();
    first.until(tool_started).await;
    first.until(tool_started).await;
    let visit = first.door.enter().unwrap();
    while visit.files().stat("begun").await.is_err() {}
    let mode = cofferdam_guest_protocol::WriteMode::Create;
    first.orders.send(OrderKind::Leave(Instant::now()).into()).await.unwrap();
    drop(visit);
    assert_eq!(first.end().await, Driven::Left);

    let second = lab.drive();
    let visit = loop {
        match second.door.enter() {
            Some(visit) => break visit,
            None => tokio::task::yield_now().await,
        }
    };
    visit.files().write("go", bytes::Bytes::new(), mode, 0o644).await.unwrap();
    drop(visit);
    let driven = second.end().await;
    assert!(matches!(driven, Driven::Ended(Ending::Complete { .. })), "{driven:?}");
    let told = told.lock().unwrap();
    assert!(told.contains("in the same sandbox") && !told.contains("a new sandbox"), "{told}");
    assert!(told.contains("/tmp\\nkept\\nfile\\nruns"), "{told}");
}
