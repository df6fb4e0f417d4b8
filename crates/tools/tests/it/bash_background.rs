//! `bash`: commands in the background.

use cofferdam_types::ToolStatus;
use serde_json::json;

use crate::lab::{Answer, Blind, Lab, in_lab};

async fn start(lab: &Lab, command: &str) -> Answer {
    lab.call("bash", json!({"command": command, "background": true})).await
}

async fn look(lab: &Lab, name: &str, timeout: u64) -> Answer {
    lab.call("bash", json!({"process": name, "timeout": timeout})).await
}

#[test]
fn a_background_command_is_started_looked_at_and_stopped() {
    in_lab(async |lab| {
        lab.sh("mkfifo go").await;
        let answer =
            start(lab, "exec 3<>go; echo ready; while read -r line <&3; do echo got $line; done")
                .await;
        assert_eq!(answer.done(), "ready\np1 has started and is running");
        assert_eq!(look(lab, "p1", 0).await.done(), "p1 is running; no new output");
        lab.sh("echo one >go").await;
        assert_eq!(look(lab, "p1", 60).await.done(), "got one\np1 is running");
        let stopped = lab.call("bash", json!({"process": "p1", "stop": true})).await;
        assert_eq!(stopped.done(), "p1 has ended, exit code: 143 (ended by signal 15, SIGTERM)");
        assert!(look(lab, "p1", 0).await.done().starts_with("p1 has ended"));
    });
}

#[test]
fn a_command_that_dies_at_once_says_so_at_once() {
    in_lab(async |lab| {
        let answer = start(lab, "echo broken >&2; exit 7").await;
        if answer.status == ToolStatus::Done {
            // Its output came first.
            assert!(look(lab, "p1", 60).await.done().contains("exit code: 7"));
        } else {
            assert_eq!(answer.failed(), "broken\np1 has ended, exit code: 7");
        }
        assert!(start(lab, "true").await.done().contains("p2 has"));
    });
}

#[test]
fn stopping_ends_the_whole_tree_also_what_is_deaf() {
    in_lab(async |lab| {
        let command = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ >pid; sleep 86400' &); \
                       while :; do sleep 0.2; done";
        start(lab, command).await.done();
        lab.until("test -s pid").await;
        let stopped = lab.call("bash", json!({"process": "p1", "stop": true})).await;
        assert!(stopped.done().contains("SIGKILL"), "{}", stopped.text);
        lab.until("! pgrep -f 'sleep 8640[0]' >/dev/null").await;
    });
}

#[test]
fn what_a_background_command_leaves_ends_with_it() {
    in_lab(async |lab| {
        start(lab, "sleep 86401 & exit 0").await.done();
        let answer = look(lab, "p1", 60).await;
        assert!(answer.done().contains("exit code: 0"), "{}", answer.text);
        lab.until("! pgrep -f 'sleep 8640[1]' >/dev/null").await;
    });
}

#[test]
fn a_flood_in_the_background_does_not_stall_the_command() {
    in_lab(async |lab| {
        start(lab, "yes | head -c 50000000; touch through; sleep 600").await.done();
        lab.until("test -e through").await;
        let answer = look(lab, "p1", 60).await;
        assert!(answer.done().contains("path \"output:1"), "{}", answer.text);
        assert!(answer.output.rest.is_some());
    });
}

#[test]
fn a_background_command_begins_where_the_shell_is_and_leaves_nothing() {
    in_lab(async |lab| {
        lab.bash("mkdir d; cd d; export V=1").await.done();
        assert!(
            start(lab, "pwd; echo $V; cd /tmp; sleep 600").await.done().contains("/workspace/d")
        );
        assert_eq!(lab.bash("pwd").await.done(), "/workspace/d\nexit code: 0");
    });
}

#[test]
fn an_unknown_name_is_refused_with_those_that_are_known() {
    in_lab(async |lab| {
        assert!(look(lab, "p9", 0).await.refused().contains("known: none"));
        start(lab, "sleep 600").await.done();
        assert!(look(lab, "p9", 0).await.refused().contains("known: p1"));
        let both = lab.call("bash", json!({"process": "p1", "command": "true"})).await;
        assert!(both.refused().contains("not both"));
    });
}

#[test]
fn background_commands_end_with_the_tools() {
    in_lab(async |lab| {
        let outputs = std::sync::Arc::new(cofferdam_tools::Outputs::in_directory(lab.outputs()));
        let tools = cofferdam_tools::Tools::new(std::sync::Arc::clone(&lab.sandbox), outputs);
        let arguments = json!({"command": "sleep 86402", "background": true});
        let call = cofferdam_tools::Call {
            call: cofferdam_types::CallId(900),
            thread: cofferdam_types::ThreadId(0),
            tool: "bash",
            arguments: arguments.as_object().unwrap(),
            watcher: &Blind,
        };
        tools.run(call).await;
        lab.until("pgrep -f 'sleep 8640[2]' >/dev/null").await;
        drop(tools);
        lab.until("! pgrep -f 'sleep 8640[2]' >/dev/null").await;
    });
}
