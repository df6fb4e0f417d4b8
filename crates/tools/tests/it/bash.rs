//! `bash`: commands that are waited for, also hostile ones.

use std::time::{Duration, Instant};

use cofferdam_types::{Limits, ToolStatus};
use serde_json::json;

use crate::lab::{Blind, in_lab, in_lab_limited};

#[test]
fn a_command_shows_its_output_and_its_exit_code() {
    in_lab(async |lab| {
        assert_eq!(lab.bash("echo hello").await.done(), "hello\nexit code: 0");
        assert_eq!(lab.bash("printf out; exit 3").await.failed(), "out\nexit code: 3");
        assert_eq!(lab.bash("true").await.done(), "exit code: 0");
        let answer = lab.bash("echo to-out; echo to-err >&2").await;
        assert!(answer.done().contains("to-out\n") && answer.text.contains("to-err\n"));
        assert_eq!(
            lab.bash("kill -SEGV $$").await.failed(),
            "exit code: 139 (ended by signal 11, SIGSEGV)"
        );
        assert!(lab.bash("no-such-program-here").await.failed().contains("exit code: 127"));
        assert!(lab.bash("cat").await.done().starts_with("exit code: 0"), "stdin is empty");
    });
}

#[test]
fn the_script_arrives_byte_for_byte() {
    in_lab(async |lab| {
        let script = "cat <<'EOF'\n$HOME `x` \\n 'single' \"double\"\n\ttab é 😀\nEOF\necho \"$((1+1))\" 'a b'  # comment";
        let expected = "$HOME `x` \\n 'single' \"double\"\n\ttab é 😀\n2 a b\nexit code: 0";
        assert_eq!(lab.bash(script).await.done(), expected);
        assert_eq!(lab.bash("echo $# \"$@\"").await.done(), "0\nexit code: 0");
        let long = format!("x='{}'\necho ${{#x}}", "y".repeat(300_000));
        assert_eq!(lab.bash(&long).await.done(), "300000\nexit code: 0");
        assert!(lab.bash("if then").await.failed().contains("syntax error"));
    });
}

#[test]
fn what_cannot_be_run_is_refused() {
    in_lab(async |lab| {
        assert!(
            lab.call("bash", json!({})).await.refused().contains("`command` (a string) is missing")
        );
        assert!(lab.call("bash", json!({"command": 5})).await.refused().contains("this came: 5"));
        assert!(lab.bash(" ").await.refused().contains("empty"));
        assert!(lab.bash("a\0b").await.refused().contains("NUL"));
        assert!(lab.bash(&"x".repeat(2 << 20)).await.refused().contains("write_file"));
        let answer = lab.call("bash", json!({"command": "true", "timeout": 601})).await;
        assert!(answer.refused().contains("from 0 to 600"), "{}", answer.text);
        assert!(
            lab.call("shell", json!({})).await.refused().contains("the tools are bash, read_file")
        );
    });
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_what_it_had_said() {
    in_lab(async |lab| {
        let command = "echo begun; trap '' TERM; while :; do sleep 0.1; done";
        let answer = lab.call("bash", json!({"command": command, "timeout": 1})).await;
        assert!(
            answer.failed().starts_with("begun\nexit code: 124 (timed out after 1 s"),
            "{}",
            answer.text
        );
        lab.until("! pgrep -f 'sleep 0.[1]' >/dev/null").await;
    });
}

#[test]
fn output_that_is_no_text_is_shown_and_said_to_be_none() {
    in_lab(async |lab| {
        let answer = lab.bash("printf 'a\\377\\000b\\n'").await;
        assert_eq!(
            answer.done(),
            "a\u{fffd}␀b\n[bytes that are not UTF-8 are shown as \u{fffd}]\nexit code: 0"
        );
        assert_eq!(answer.seen, b"a\xff\0b\n", "whoever watches sees the bytes");
    });
}

#[test]
fn processes_that_are_left_are_counted() {
    in_lab(async |lab| {
        let answer = lab.bash("sleep 300 & setsid sleep 300 & echo started").await;
        assert!(
            answer.done().contains("[2 processes that it started are still running]"),
            "{}",
            answer.text
        );
        assert_eq!(lab.bash("exec >&- 2>&-; sleep 0.01").await.done(), "exit code: 0");
    });
}

#[test]
fn dropping_a_call_ends_its_command() {
    in_lab(async |lab| {
        let marker = "sleep 98765";
        let call = lab.bash(marker);
        tokio::select! {
            answer = call => panic!("{}", answer.text),
            () = lab.until("pgrep -f 'sleep 9876[5]' >/dev/null") => {}
        }
        lab.until("! pgrep -f 'sleep 9876[5]' >/dev/null").await;
    });
}

#[test]
fn calls_of_one_answer_run_side_by_side() {
    in_lab(async |lab| {
        // Each waits for all others.
        let script = "mktemp here.XXXX; until set -- here.*; [ $# -eq 4 ]; do sleep 0.01; done";
        let calls = (0..4).map(|_| lab.bash(script));
        for answer in futures_util::future::join_all(calls).await {
            answer.done();
        }
    });
}

#[test]
fn a_turn_is_cheap() {
    in_lab(async |lab| {
        lab.bash("export A=1; f() { :; }").await.done();
        let mut times = Vec::new();
        for _ in 0..50 {
            let began = Instant::now();
            lab.bash("echo hello").await.done();
            times.push(began.elapsed());
        }
        times.sort_unstable();
        println!("a turn takes {:?}, at least {:?}", times[25], times[0]);
        assert!(times[0] < Duration::from_millis(100), "{times:?}");
    });
}

#[test]
fn endless_output_takes_no_memory_and_is_cut() {
    in_lab(async |lab| {
        let before = resident();
        let arguments = json!({"command": "yes | head -c 2000000000"});
        let answer = lab.call_watched(0, "bash", arguments, &Blind).await;
        let grown = resident().saturating_sub(before);
        assert!(answer.done().contains("not kept"), "{}", answer.text);
        assert!(answer.text.chars().count() < 13_000);
        assert!(answer.text.ends_with("y\ny\nexit code: 0"));
        // Other tests run in the same process.
        assert!(grown < 64 << 20, "{grown} bytes more");
        let rest = answer.output.rest.unwrap();
        assert!(rest.bytes <= 16 << 20, "{}", rest.bytes);
    });
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_command_without_memory_is_told_so() {
    let limits = Limits { memory: 128 << 20, ..Limits::default() };
    in_lab_limited(limits, async |lab| {
        let answer = lab.bash("exec python3 -c 'b = bytearray(1 << 30)'").await;
        let known =
            answer.failed().contains("memory was used up") || answer.text.contains("MemoryError");
        assert!(known, "{}", answer.text);
    });
}

#[test]
fn a_command_is_taken_up_by_whoever_comes_after() {
    in_lab(async |lab| {
        let call = lab.bash("echo first; read -t 30 line <> fifo; echo $line");
        lab.sh("mkfifo fifo").await;
        let abandoned = async {
            lab.until("pgrep -f 'read -t 3[0]' >/dev/null").await;
            lab.sandbox.reconnect().await.unwrap();
        };
        let (answer, ()) = tokio::join!(call, abandoned);
        assert_eq!(answer.status, ToolStatus::Unknown, "{}", answer.text);
        assert!(answer.text.contains("exit code: not known"), "{}", answer.text);
        lab.sh("echo later > fifo").await;
        let taken = lab.tools.take_up(cofferdam_types::CallId(1), &Blind).await.unwrap();
        assert_eq!(taken.status, ToolStatus::Done, "{taken:?}");
        let text = format!("{taken:?}");
        assert!(text.contains("later") && text.contains("exit code: 0"), "{text}");
        assert_eq!(lab.tools.take_up(cofferdam_types::CallId(77), &Blind).await, None);
    });
}

/// Prints about five megabytes, waits for a word through `fifo`, and prints three more; an
/// `E` on stderr for each line.
const LONG: &str = "\
    line() { printf '%020000d %d\\n' 0 $1; printf E >&2; }
    for i in $(seq 250); do line $i; done
    read -t 60 word <> fifo
    for i in $(seq 251 400); do line $i; done";

#[test]
fn what_an_earlier_process_had_taken_of_a_command_is_neither_lost_nor_doubled() {
    in_lab(async |lab| {
        lab.sh("mkfifo fifo").await;
        let call = lab.bash(LONG);
        let abandoned = async {
            lab.until("pgrep -f 'seq 25[1] 400' >/dev/null").await;
            let file = lab.outputs().join("1");
            while std::fs::metadata(&file).map_or(0, |file| file.len()) < 4 << 20 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            lab.sandbox.reconnect().await.unwrap();
        };
        let (answer, ()) = tokio::join!(call, abandoned);
        assert_eq!(answer.status, ToolStatus::Unknown, "{}", answer.text);
        lab.sh("echo go > fifo").await;
        let taken = lab.tools.take_up(cofferdam_types::CallId(1), &Blind).await.unwrap();
        assert_eq!(taken.status, ToolStatus::Done, "{taken:?}");
        let kept = std::fs::read_to_string(lab.outputs().join("1")).unwrap();
        assert!(!kept.contains("missing"), "{} bytes", kept.len());
        assert_eq!(kept.matches('E').count(), 400);
        let whole: String = (1..=400).map(|line| format!("{:020000} {line}\n", 0)).collect();
        assert!(kept.replace('E', "") == whole, "{} bytes", kept.len());
        assert_eq!(taken.rest.unwrap().bytes, kept.len() as u64);
        // Once it is in safe hands, nothing but the output is left of it.
        lab.tools.acknowledge(cofferdam_types::CallId(1));
        assert_eq!(std::fs::read_dir(lab.outputs()).unwrap().count(), 1);
    });
}
