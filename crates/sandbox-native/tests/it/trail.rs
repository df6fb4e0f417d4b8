//! Whose acts they are in the audit trail, beyond what every back end promises.

use std::time::{Duration, Instant};

use cofferdam_sandbox::{Sandbox, Spec, Workspace};
use cofferdam_types::{AuditAct, AuditRecord, CallId};

use crate::home::{Home, block_on};
use crate::ordinary_user;

/// Waits until the trail shows that this file was opened; returns who did it.
async fn opener(sandbox: &Sandbox, wanted: &str) -> Option<CallId> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_it = |record: &&AuditRecord| matches!(&record.act, AuditAct::OpenedForWriting { path } if path == wanted);
    loop {
        let trail = sandbox.audit().await.unwrap();
        if let Some(record) = trail.iter().find(is_it) {
            return record.call;
        }
        assert!(Instant::now() < deadline, "no opening of {wanted} in {trail:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_act_is_its_calls_whatever_the_process_is_called_also_in_a_fork() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let parent = Sandbox::open(&native, Spec::scratch()).await.unwrap();
        let workspace = Workspace::Fork(parent.snapshot().await.unwrap());
        let fork = Spec { workspace, ..Spec::scratch() };
        let fork = Sandbox::open(&native, fork).await.unwrap();
        let script = "printf '\\377' > /proc/$$/comm; : > nameless; \
                      printf c1 > /proc/$$/comm; : > pretended";
        for sandbox in [&parent, &fork] {
            let call = CallId(4242);
            let result = sandbox.run(call, sandbox.shell(script)).await.unwrap();
            assert!(result.outcome.success(), "{result:?}");
            for name in ["/workspace/nameless", "/workspace/pretended"] {
                assert_eq!(opener(sandbox, name).await, Some(call), "{name}");
            }
        }
        fork.close().await.unwrap();
        parent.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn who_kills_its_monitor_does_not_pass_for_another_call() {
    block_on(async {
        let home = Home::new();
        let sandbox = Sandbox::open(&home.native(), Spec::scratch()).await.unwrap();
        // It lives for a moment without one.
        let script = "printf c1 > /proc/$$/comm; : > begun; kill -KILL $PPID; \
                      while :; do (: > of-child); done";
        for number in 100..110 {
            // How it ended is not what this is about.
            drop(sandbox.run(CallId(number), sandbox.shell(script)).await);
        }
        assert_eq!(opener(&sandbox, "/workspace/begun").await, Some(CallId(100)));
        let trail = sandbox.audit().await.unwrap();
        let others = |record: &&AuditRecord| record.call == Some(CallId(1));
        assert_eq!(trail.iter().find(others), None);
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn the_trail_is_the_same_for_an_ordinary_user() {
    ordinary_user::again(&[
        "trail::an_act_is_its_calls_whatever_the_process_is_called_also_in_a_fork",
        "trail::who_kills_its_monitor_does_not_pass_for_another_call",
    ]);
}
