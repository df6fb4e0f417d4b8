//! Snapshots and forks of workspaces, beyond what every back end promises.

use cofferdam_sandbox::{Sandbox, Spec, Workspace};

use crate::home::{Home, block_on};
use crate::ordinary_user;

async fn sh(sandbox: &Sandbox, script: &str) -> String {
    let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
    assert!(result.outcome.success(), "{script}: {result:?}");
    String::from_utf8_lossy(&result.stdout).trim().to_owned()
}

fn fork_of(snapshot: cofferdam_sandbox::Snapshot) -> Spec {
    Spec { workspace: Workspace::Fork(snapshot), ..Spec::scratch() }
}

#[test]
fn forks_of_forks_and_many_snapshots_stay_apart() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let parent = Sandbox::open(&native, Spec::scratch()).await.unwrap();
        sh(&parent, "echo one > a; mkdir d; echo kept > d/kept; echo gone > d/gone").await;
        let first = parent.snapshot().await.unwrap();
        sh(&parent, "echo two > a; rm d/gone; mv d/kept d/moved").await;
        let second = parent.snapshot().await.unwrap();
        sh(&parent, "echo three > a; rm -r d").await;

        let early = Sandbox::open(&native, fork_of(first)).await.unwrap();
        let late = Sandbox::open(&native, fork_of(second)).await.unwrap();
        assert_eq!(sh(&early, "cat a; ls d").await, "one\ngone\nkept");
        assert_eq!(sh(&late, "cat a; ls d").await, "two\nmoved");
        assert_eq!(sh(&parent, "cat a; ls").await, "three\na");

        sh(&early, "echo early > a; rm -r d; mkdir d; echo new > d/new").await;
        let child_of_early = early.snapshot().await.unwrap();
        let grandchild = Sandbox::open(&native, fork_of(child_of_early)).await.unwrap();
        assert_eq!(sh(&grandchild, "cat a; ls d").await, "early\nnew");
        sh(&grandchild, "echo grandchild > a").await;
        assert_eq!(sh(&early, "cat a").await, "early");
        assert_eq!(sh(&late, "cat a").await, "two");

        // A fork lives on when its parent has gone.
        parent.close().await.unwrap();
        assert_eq!(sh(&late, "cat a; echo more > b; cat b").await, "two\nmore");
        for sandbox in [early, late, grandchild] {
            sandbox.close().await.unwrap();
        }
        home.assert_empty();
    });
}

#[test]
fn a_fork_is_as_confined_as_its_parent() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let parent = Sandbox::open(&native, Spec::scratch()).await.unwrap();
        sh(&parent, "echo secret > /tmp/mine; echo secret > ~/mine; sleep 1000 &").await;
        let snapshot = parent.snapshot().await.unwrap();
        let fork = Sandbox::open(&native, fork_of(snapshot)).await.unwrap();
        let status = sh(&fork, "tr -d '\\t' < /proc/self/status").await;
        for line in
            ["CapEff:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2"]
        {
            assert!(status.lines().any(|known| known == line), "{line} in {status}");
        }
        assert_eq!(sh(&fork, "ls -A /tmp ~ /dev/shm | grep mine || true").await, "");
        assert_eq!(sh(&fork, "touch /x /usr/x 2>/dev/null || echo refused").await, "refused");
        assert_eq!(sh(&fork, "ls -A /.cofferdam 2>/dev/null || echo hidden").await, "hidden");
        assert_eq!(sh(&fork, "grep -lx sleep /proc/[0-9]*/comm || echo alone").await, "alone");
        assert_eq!(sh(&fork, "grep -c : /proc/net/dev; uname -n").await, "1\ncofferdam");
        fork.close().await.unwrap();
        parent.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn a_fork_of_a_directory_leaves_the_directory_alone() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let directory = home.directory("project");
        std::fs::write(directory.join("file"), "original\n").unwrap();
        let spec = Spec { workspace: Workspace::Directory(directory.clone()), ..Spec::scratch() };
        let parent = Sandbox::open(&native, spec).await.unwrap();
        sh(&parent, "echo parent > file").await;
        let snapshot = parent.snapshot().await.unwrap();
        let fork = Sandbox::open(&native, fork_of(snapshot)).await.unwrap();
        assert_eq!(sh(&fork, "cat file; echo fork > file; echo x > new").await, "parent");
        sh(&parent, "echo later > file2").await;
        fork.close().await.unwrap();
        assert_eq!(std::fs::read_to_string(directory.join("file")).unwrap(), "original\n");
        parent.close().await.unwrap();
        assert_eq!(std::fs::read_to_string(directory.join("file")).unwrap(), "parent\n");
        assert_eq!(std::fs::read_to_string(directory.join("file2")).unwrap(), "later\n");
        assert!(!directory.join("new").exists());
        home.assert_empty();
    });
}

#[test]
fn forks_work_for_an_ordinary_user() {
    ordinary_user::again(&[
        "fork::forks_of_forks_and_many_snapshots_stay_apart",
        "fork::a_fork_is_as_confined_as_its_parent",
        "fork::a_fork_of_a_directory_leaves_the_directory_alone",
    ]);
}

/// A fork's first process and the one that made it both report; whichever is
/// faster, the fork must come up. Side by side, either may be.
#[test]
fn forks_made_side_by_side_come_up() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let forks = async || {
            let parent = Sandbox::open(&native, Spec::scratch()).await.unwrap();
            sh(&parent, "echo one > a").await;
            let snapshot = parent.snapshot().await.unwrap();
            for _ in 0..40 {
                let fork = Sandbox::open(&native, fork_of(snapshot.clone())).await.unwrap();
                assert_eq!(sh(&fork, "cat a").await, "one");
                fork.close().await.unwrap();
            }
            parent.close().await.unwrap();
        };
        tokio::join!(forks(), forks(), forks(), forks(), forks(), forks());
    });
}
