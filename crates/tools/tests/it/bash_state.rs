//! `bash`: what stays from one call to the next.

use serde_json::json;

use crate::lab::in_lab;

#[test]
fn directory_variables_and_functions_stay() {
    in_lab(async |lab| {
        lab.bash("mkdir -p 'a b/c'; cd 'a b'").await.done();
        assert_eq!(lab.bash("pwd; cd c").await.done(), "/workspace/a b\nexit code: 0");
        assert_eq!(lab.bash("cd - >/dev/null; pwd").await.done(), "/workspace/a b\nexit code: 0");
        lab.bash("export A=$'one\\ntwo \"q\" '\\''s'\\'' $x `y` \\\\ é'; B=not-exported")
            .await
            .done();
        assert_eq!(
            lab.bash("printf %s \"$A\"; echo; echo \"[$B]\"; printenv A | wc -l").await.done(),
            "one\ntwo \"q\" 's' $x `y` \\\\ é\n[]\n2\nexit code: 0"
        );
        lab.bash("shopt -s extglob\ngreet() { echo \"hi $1\"; }; other() { case $1 in @(a|b)) echo x;; esac; }; export -f greet").await;
        assert_eq!(
            lab.bash("greet you; bash -c 'greet child'").await.done(),
            "hi you\nhi child\nexit code: 0"
        );
        lab.bash("unset LANG A; unset -f greet").await.done();
        assert_eq!(
            lab.bash("echo \"[$LANG][$A]\"; type -t greet").await.failed(),
            "[][]\nexit code: 1"
        );
    });
}

#[test]
fn a_failure_keeps_the_state_and_an_exit_leaves_it_as_it_was() {
    in_lab(async |lab| {
        lab.bash("mkdir x y; cd x; false").await.failed();
        assert_eq!(lab.bash("pwd").await.done(), "/workspace/x\nexit code: 0");
        assert_eq!(lab.bash("cd ../y; exit 4").await.failed(), "exit code: 4");
        assert_eq!(lab.bash("set -euo pipefail; cd ../y; false").await.failed(), "exit code: 1");
        lab.call("bash", json!({"command": "cd ../y; sleep 60", "timeout": 1})).await.failed();
        lab.bash("cd ../y; kill -9 $$").await.failed();
        assert_eq!(lab.bash("pwd; echo $-").await.done(), "/workspace/x\nhBc\nexit code: 0");
    });
}

#[test]
fn options_and_traps_of_a_script_do_not_disturb_the_next() {
    in_lab(async |lab| {
        // All to one stream: of two, either may be read first.
        let script = "set -eux; IFS=:; trap 'echo bye >&2' EXIT; trap 'echo dbg >/dev/null' DEBUG; \
                      cd() { builtin cd \"$@\"; }; printf() { echo mine; }; export Z=1; cd /tmp";
        let answer = lab.bash(script).await;
        assert!(answer.done().ends_with("bye\nexit code: 0"), "{}", answer.text);
        assert!(!answer.text.contains("cofferdam"), "{}", answer.text);
        assert_eq!(lab.bash("echo $Z; pwd; printf x").await.done(), "1\n/tmp\nmine\nexit code: 0");
    });
}

#[test]
fn a_directory_that_is_gone_is_said_and_the_command_runs() {
    in_lab(async |lab| {
        lab.bash("mkdir gone; cd gone").await.done();
        lab.sh("rmdir /workspace/gone").await;
        let answer = lab.bash("echo here").await;
        let said = "[the working directory /workspace/gone is gone; now in /workspace]\n";
        assert!(answer.done().contains(said) && answer.text.contains("here\n"), "{}", answer.text);
        assert_eq!(lab.bash("pwd").await.done(), "/workspace\nexit code: 0");
        let answer = lab.bash("mkdir d; cd d; rmdir ../d; export LATER=1").await;
        answer.done();
        assert!(lab.bash("echo later=$LATER").await.done().contains("later=1\n"));
    });
}

#[test]
fn conversations_have_shells_of_their_own() {
    in_lab(async |lab| {
        lab.call_in(0, "bash", json!({"command": "cd /tmp; export WHO=zero"})).await.done();
        let other = lab.call_in(1, "bash", json!({"command": "pwd; echo \"[$WHO]\""})).await;
        assert_eq!(other.done(), "/workspace\n[]\nexit code: 0");
        assert_eq!(lab.bash("pwd; echo $WHO").await.done(), "/tmp\nzero\nexit code: 0");
    });
}

#[test]
fn of_calls_side_by_side_the_first_leaves_its_state() {
    in_lab(async |lab| {
        lab.bash("mkdir first second").await.done();
        let (first, second) =
            tokio::join!(lab.bash("cd first; sleep 0.3"), lab.bash("cd second; pwd"));
        first.done();
        assert_eq!(second.done(), "/workspace/second\nexit code: 0");
        assert_eq!(lab.bash("pwd").await.done(), "/workspace/first\nexit code: 0");
    });
}

#[test]
fn a_state_that_was_cut_short_is_not_taken_up() {
    in_lab(async |lab| {
        lab.bash("export KEPT=1; mkdir there; cd there").await.done();
        lab.bash("export KEPT=2").await.done();
        // As if the shell had been killed while it wrote.
        lab.sh("cd; for f in .cofferdam-shell-0.a .cofferdam-shell-0.b; do \
                if grep -q 'KEPT=\"2\"' $f; then head -c 300 $f > cut; cat cut > $f; fi; done")
            .await;
        assert_eq!(lab.bash("echo $KEPT; pwd").await.done(), "1\n/workspace/there\nexit code: 0");
    });
}
