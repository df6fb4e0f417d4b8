//! `--json`: every line is an event, and exactly the last one tells the end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::home::Home;
use crate::invocation::Ran;

/// The events of a run: each line is one, and only the last tells the end.
#[track_caller]
pub(crate) fn events(ran: &Ran) -> Vec<Value> {
    let text = String::from_utf8(ran.stdout.clone()).expect("JSON is text");
    assert!(text.ends_with('\n'), "{text}");
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let terminal = |event: &Value| event["event"] == "ended" || event["event"] == "failed";
    let count = events.iter().filter(|event| terminal(event)).count();
    assert!(count == 1 && events.last().is_some_and(terminal), "{text}");
    events
}

/// The last event.
#[track_caller]
pub(crate) fn last(ran: &Ran) -> Value {
    events(ran).pop().unwrap()
}

/// What the events say was written to a stream.
fn stream(events: &[Value], name: &str) -> Vec<u8> {
    let pieces = events.iter().filter(|event| event["event"] == name);
    let bytes = pieces.map(|event| match (&event["text"], &event["base64"]) {
        (Value::String(text), Value::Null) => text.clone().into_bytes(),
        (Value::Null, Value::String(text)) => STANDARD.decode(text).unwrap(),
        _ => panic!("{event}"),
    });
    bytes.collect::<Vec<_>>().concat()
}

#[test]
fn success_opens_speaks_and_ends() {
    success(&Home::new());
}

pub(crate) fn success(home: &Home) {
    let ran = home.shell(&["--json"], "echo out; echo err >&2; exit 3").expect_code(3);
    assert_eq!(ran.errors(), "");
    let events = events(&ran);
    assert_eq!(events[0]["event"], "opened");
    assert_eq!(events[0]["version"], 1);
    assert_eq!(events[0]["sandbox"].as_str().unwrap().len(), 36);
    assert_eq!(events[0]["isolation"]["backend"], "native");
    assert_eq!(stream(&events, "stdout"), b"out\n");
    assert_eq!(stream(&events, "stderr"), b"err\n");
    let ended = events.last().unwrap();
    assert_eq!(ended["outcome"], "exited");
    assert_eq!(ended["exit_code"], 3);
    assert_eq!((&ended["stdout_bytes"], &ended["stderr_bytes"]), (&4.into(), &4.into()));
    assert_eq!(ended["truncated"], false);
    for key in ["duration_us", "peak_memory"] {
        assert!(ended[key].as_u64().unwrap() > 0, "{key}: {ended}");
    }
}

#[test]
fn each_way_to_end_has_its_own_name() {
    let home = Home::new();
    let run = |options: &[&str], script: &str| {
        last(&home.exec(["--json"]).words(options).words(["--", "sh", "-c", script]).run())
    };
    let ended = run(&[], "kill -9 $$");
    assert_eq!((&ended["outcome"], &ended["signal"]), (&"signaled".into(), &9.into()));
    assert_eq!(run(&["--timeout", "200ms"], "sleep 1000")["outcome"], "timed_out");
    let left = run(&[], "sleep 1000 & sleep 1000 & exit 0");
    assert_eq!(left["left_running"], 2);
}

#[test]
fn lack_of_memory_has_its_own_name() {
    let home = Home::new();
    if !home.groups_hold("memory") {
        return;
    }
    let words = ["--json", "--memory", "64M", "--", "/usr/bin/python3", "-c"];
    let ran = home.exec(words).words(["b = bytearray(1 << 30)"]).run().expect_code(137);
    assert_eq!(last(&ran)["outcome"], "out_of_memory");
}

#[test]
fn failures_are_events_too() {
    let home = Home::new();
    let missing = home.beside("missing");
    let workspace = ["--json", "--workspace", missing.to_str().unwrap(), "--", "true"];
    let weak = ["--json", "--sandbox", "native", "--require", "virtual", "--", "true"];
    let table: &[(&[&str], i32, &str)] = &[
        (&workspace, 125, "SBX-004"),
        (&weak, 125, "SBX-003"),
        (&["--json", "--", "frobnicate"], 127, "SBX-006"),
        (&["--json", "--", "/etc/hosts"], 126, "SBX-006"),
        (&["--json", "--sandbox", "chroot", "--", "true"], 2, "SBX-001"),
        (&["--json", "--env", "=", "--", "true"], 2, "CLI-003"),
    ];
    for (words, code, name) in table {
        let ran = home.exec(words.iter()).run().expect_code(*code);
        assert_eq!(ran.errors(), "", "{words:?}");
        let failed = last(&ran);
        assert_eq!((&failed["event"], &failed["code"]), (&"failed".into(), &(*name).into()));
        for key in ["what", "cause", "remedy"] {
            assert!(!failed[key].as_str().unwrap().is_empty(), "{key}: {failed}");
        }
    }
    let ran = home.exec(["--json", "--", "true"]).env("COFFERDAM_HOME", "relative").run();
    assert_eq!(last(&ran.expect_code(2))["code"], "CLI-001");
}

#[test]
fn text_is_text_and_the_rest_is_base64() {
    let home = Home::new();
    let ran = home.shell(&["--json"], r"printf 'gr\303\266\303\237er \360\237\222\251'");
    let pieces = events(&ran.expect_code(0));
    assert!(pieces.iter().all(|event| event["base64"].is_null()));
    assert_eq!(stream(&pieces, "stdout"), "größer 💩".as_bytes());
    let ran = home.shell(&["--json"], r"printf '\377\000\200'").expect_code(0);
    let pieces = events(&ran);
    assert!(pieces.iter().all(|event| event["text"].is_null()));
    assert_eq!(stream(&pieces, "stdout"), b"\xff\x00\x80");
}

#[test]
fn no_byte_is_lost_on_the_way_into_events() {
    let home = Home::new();
    let script = "
import os, random
random.seed(7)
text = '\u{6f22}\u{5b57} \u{1f4a9}\\n'.encode()
for _ in range(400):
    os.write(1, random.randbytes(random.randrange(1, 40)))
    os.write(1, text[:random.randrange(1, len(text))])
    os.write(2, text)
";
    let plain = home.python(&[], script).expect_code(0);
    let ran = home.python(&["--json"], script).expect_code(0);
    let events = events(&ran);
    assert_eq!(stream(&events, "stdout"), plain.stdout);
    assert_eq!(stream(&events, "stderr"), plain.stderr);
    let ended = events.last().unwrap();
    assert_eq!(ended["stdout_bytes"], plain.stdout.len());
    assert_eq!(ended["stderr_bytes"], plain.stderr.len());
}

#[test]
fn what_was_dropped_is_told_in_its_place() {
    let home = Home::new();
    let script = "echo first; head -c 1000000 /dev/zero; echo last";
    let ran = home.shell(&["--json", "--output", "10K"], script).expect_code(0);
    let events = events(&ran);
    let kept = stream(&events, "stdout");
    assert!(kept.starts_with(b"first\n") && kept.ends_with(b"last\n"));
    let gaps: u64 = events
        .iter()
        .filter(|event| event["event"] == "stdout_dropped")
        .map(|event| event["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(gaps + kept.len() as u64, 1_000_011);
    assert_eq!(events.last().unwrap()["truncated"], true);
}
