//! Who dies with whom, and who cleans up, when a supervisor or an engine is killed.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_sandbox::{Backend, Lifetime, OpenError, Sandbox, SandboxError, Spec, Workspace};
use cofferdam_sandbox_oci::Kind;
use cofferdam_types::{Limits, Outcome};
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::engines::{Lab, block_on, wait_until};

/// How long a job may be in the dark about an engine that is gone.
const IN_THE_DARK: Duration = Duration::from_secs(10);

fn nothing_is_lost_when_the_supervisor_is_killed(kind: Kind) {
    let Some(lab) = Lab::new(kind) else { return };
    let directory = lab.directory("project");
    std::fs::write(directory.join("old"), "old").unwrap();
    block_on(async {
        let spec = Spec { workspace: Workspace::Directory(directory.clone()), ..Spec::scratch() };
        let sandbox = Sandbox::open(&lab.backend(), spec).await.unwrap();
        let id = sandbox.id();
        let script = "echo kept > new; rm old; setsid sleep 1000 & echo";
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        assert!(result.outcome.success(), "{result:?}");
        lab.kill_supervisors();
        drop(sandbox);
        lab.wait_until_nothing_runs(id);
        let found = lab.backend().reconcile().await.unwrap();
        assert_eq!(found.removed, [id]);
    });
    assert_eq!(std::fs::read_to_string(directory.join("new")).unwrap(), "kept\n");
    assert!(!directory.join("old").exists(), "no change is lost");
    lab.assert_empty();
}

#[test]
fn nothing_is_lost_when_the_supervisor_is_killed_on_docker() {
    nothing_is_lost_when_the_supervisor_is_killed(Kind::Docker);
}

#[test]
fn nothing_is_lost_when_the_supervisor_is_killed_on_podman() {
    nothing_is_lost_when_the_supervisor_is_killed(Kind::Podman);
}

#[test]
fn nothing_is_lost_when_the_supervisor_is_killed_on_runc() {
    nothing_is_lost_when_the_supervisor_is_killed(Kind::Runc);
}

#[test]
fn nothing_is_lost_when_the_supervisor_is_killed_on_runsc() {
    nothing_is_lost_when_the_supervisor_is_killed(Kind::Runsc);
}

/// What a container wrote is in the kernel's hands when its supervisor is killed, and the
/// container runs on for a while. Whoever comes next has all of it.
fn the_next_sandbox_has_what_was_written(kind: Kind) {
    let Some(lab) = Lab::new(kind) else { return };
    let directory = lab.directory("project");
    block_on(async {
        let spec =
            || Spec { workspace: Workspace::Directory(directory.clone()), ..Spec::scratch() };
        let sandbox = Sandbox::open(&lab.backend(), spec()).await.unwrap();
        let script = "head -c 64M /dev/urandom > large; sha256sum large > sum; setsid sleep 1000 &";
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        assert!(result.outcome.success(), "{result:?}");
        lab.kill_supervisors();
        let next = Sandbox::open(&lab.backend(), spec()).await.unwrap();
        drop(sandbox);
        let script = "sha256sum --check sum";
        let result = next.run(next.next_call_id(), next.shell(script)).await.unwrap();
        assert!(result.outcome.success(), "{result:?}");
        next.close().await.unwrap();
        // What its engine knows of the dead one is removed by the next start.
        assert_eq!(lab.backend().reconcile().await.unwrap().left, [""; 0]);
    });
    assert_eq!(directory.join("large").metadata().unwrap().len(), 64 << 20);
    lab.assert_empty();
}

#[test]
fn the_next_sandbox_has_what_was_written_on_docker() {
    the_next_sandbox_has_what_was_written(Kind::Docker);
}

#[test]
fn the_next_sandbox_has_what_was_written_on_podman() {
    the_next_sandbox_has_what_was_written(Kind::Podman);
}

#[test]
fn the_next_sandbox_has_what_was_written_on_crun() {
    the_next_sandbox_has_what_was_written(Kind::Crun);
}

#[test]
fn a_container_that_is_made_while_remains_are_looked_for_is_none_of_them() {
    let Some(mut lab) = Lab::new(Kind::Docker) else { return };
    let (asked, go_on) = (lab.path("asked"), lab.path("go-on"));
    // The engine's list comes late: bounded, should the test fail.
    lab.put_in_front(&format!(
        "case \" $* \" in *' ps '*) touch '{}'; for i in $(seq 600); do \
         [ -e '{}' ] && break; sleep 0.1; done;; esac; exec $REAL \"$@\"",
        asked.display(),
        go_on.display()
    ));
    block_on(async {
        let backend = Arc::new(lab.backend());
        // So that the engine is known to have been used.
        let first = Sandbox::open(&*backend, Spec::scratch()).await.unwrap();
        first.close().await.unwrap();
        let mut looking = JoinSet::new();
        let reconciling = Arc::clone(&backend);
        looking.spawn(async move { reconciling.reconcile().await });
        while !asked.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Whoever does not want to wait for the engine need not.
        let little = Duration::from_millis(10);
        assert!(tokio::time::timeout(little, backend.reconcile()).await.is_err());
        let sandbox = Sandbox::open(&*backend, Spec::scratch()).await.unwrap();
        assert!(looking.try_join_next().is_none());
        std::fs::write(&go_on, "").unwrap();
        let found = looking.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(found.removed, []);
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell("true")).await.unwrap();
        assert!(result.outcome.success(), "{result:?}");
        sandbox.close().await.unwrap();
    });
    lab.assert_empty();
}

#[test]
fn a_job_goes_on_when_the_daemon_is_killed() {
    let Some(mut lab) = Lab::new(Kind::Docker) else { return };
    block_on(async {
        let lifetime = Lifetime::Lingering(Duration::from_secs(60));
        let spec = Spec { lifetime, ..Spec::scratch() };
        let backend = lab.backend();
        let sandbox = Sandbox::open(&backend, spec).await.unwrap();
        sandbox.keep().await.unwrap();
        let id = sandbox.id();
        let run = |script: &'static str| sandbox.run(sandbox.next_call_id(), sandbox.shell(script));
        run("echo before > file").await.unwrap();
        lab.end_daemon(Signal::KILL);
        let result = run("cat file").await.unwrap();
        assert_eq!(&result.stdout[..], b"before\n");

        // Nobody can be asked for a new one, and the error says so.
        let begun = Instant::now();
        let refused = Sandbox::open(&lab.backend(), Spec::scratch()).await;
        match refused.err().unwrap() {
            SandboxError::Open(OpenError::Unusable { remedy, .. }) => {
                assert!(remedy.contains("start the daemon"), "{remedy}");
            }
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < IN_THE_DARK);

        // Its end needs no daemon; what that has left of it goes when it is back.
        sandbox.close().await.unwrap();
        lab.restart_daemon();
        lab.backend().reconcile().await.unwrap();
        lab.wait_until_nothing_runs(id);
    });
    lab.assert_empty();
}

#[test]
fn a_job_whose_container_the_daemon_ends_is_told_so_in_time() {
    let Some(mut lab) = Lab::new(Kind::Docker) else { return };
    let directory = lab.directory("project");
    block_on(async {
        let spec = Spec { workspace: Workspace::Directory(directory.clone()), ..Spec::scratch() };
        let sandbox = Sandbox::open(&lab.backend(), spec).await.unwrap();
        let command = sandbox.shell("echo done > file; echo here; sleep 1000");
        let mut process = sandbox.start(sandbox.next_call_id(), command).await.unwrap();
        process.next_output().await.unwrap();
        let begun = Instant::now();
        lab.end_daemon(Signal::TERM);
        let ended = tokio::time::timeout(IN_THE_DARK, process.wait()).await;
        assert!(ended.expect("it ends in time").is_err(), "its end is not known");
        assert!(begun.elapsed() < IN_THE_DARK);
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell("true")).await.unwrap();
        assert!(matches!(result.outcome, Outcome::Lost { .. }), "{result:?}");
        // What it had done is applied all the same.
        drop(sandbox.close().await);
        wait_until("the changes are there", || directory.join("file").exists());
        lab.restart_daemon();
        lab.backend().reconcile().await.unwrap();
    });
    lab.assert_empty();
}

#[test]
fn an_engine_that_is_not_there_is_named_with_the_remedy() {
    let place = tempfile::tempdir().unwrap();
    let nowhere = format!("unix://{}", place.path().join("nowhere").display());
    let environment = vec![("DOCKER_HOST".to_owned(), nowhere)];
    let home = place.path().join("home");
    let backend = cofferdam_sandbox_oci::backend_in(Kind::Docker, home, environment);
    let refused = block_on(Sandbox::open(&backend, Spec::scratch()));
    match refused.err().unwrap() {
        SandboxError::Open(OpenError::Unusable { cause, remedy }) => {
            assert!(cause.starts_with("docker: "), "{cause}");
            assert!(remedy.contains("systemctl start docker"), "{remedy}");
        }
        other => panic!("{other:?}"),
    }
    assert!(backend.examine().iter().any(|fact| fact.weakness.is_some()));
}

/// As release 20.10 of the client says it.
#[test]
fn an_old_client_without_a_daemon_is_told_what_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let client = place.path().join("docker");
    let script = "#!/bin/sh
case $1 in
    version) echo 'Cannot connect to the Docker daemon. Is the docker daemon running?' >&2 ;;
    *) echo 'template: :1:2: executing \"\" at <.SecurityOptions>: reflect: indirection' >&2 ;;
esac
exit 1
";
    std::fs::write(&client, script).unwrap();
    std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).unwrap();
    let environment = vec![("PATH".to_owned(), place.path().display().to_string())];
    let home = place.path().join("home");
    let backend = cofferdam_sandbox_oci::backend_in(Kind::Docker, home, environment);
    let refused = block_on(Sandbox::open(&backend, Spec::scratch()));
    match refused.err().unwrap() {
        SandboxError::Open(OpenError::Unusable { remedy, .. }) => {
            assert!(remedy.contains("systemctl start docker"), "{remedy}");
        }
        other => panic!("{other:?}"),
    }
}

fn a_container_waits_for_the_next_sandbox(kind: Kind) {
    let Some(lab) = Lab::new(kind) else { return };
    let backend = lab.backend().keeping_warm(1);
    block_on(async {
        let first = Sandbox::open(&backend, Spec::scratch()).await.unwrap();
        wait_until("one container waits", || lab.containers().len() == 2);
        let waiting: Vec<_> = lab.containers();
        first.close().await.unwrap();

        // Whoever looks for remains leaves it alone.
        let found = lab.backend().reconcile().await.unwrap();
        assert_eq!((found.alive, found.removed), (vec![], vec![]));

        let second = Sandbox::open(&backend, Spec::scratch()).await.unwrap();
        let own = format!("cofferdam-{}", second.id());
        assert!(!lab.containers().contains(&own), "it began in the one that waited");
        let script = "echo $0 > file && cat file && id -un";
        let result = second.run(second.next_call_id(), second.shell(script)).await.unwrap();
        assert_eq!(&result.stdout[..], b"sh\nagent\n");
        assert!(lab.containers().iter().any(|name| waiting.contains(name)));

        // Other limits are another container.
        let limits = Limits { pids: 100, ..Limits::default() };
        let other = Sandbox::open(&backend, Spec { limits, ..Spec::scratch() }).await.unwrap();
        let own = format!("cofferdam-{}", other.id());
        // An engine may be the last to know that it runs.
        wait_until("it has a container of its own", || lab.containers().contains(&own));
        other.close().await.unwrap();
        second.close().await.unwrap();
    });
    drop(backend);
    lab.assert_empty();
}

#[test]
fn a_container_waits_for_the_next_sandbox_on_docker() {
    a_container_waits_for_the_next_sandbox(Kind::Docker);
}

#[test]
fn a_container_waits_for_the_next_sandbox_on_podman() {
    a_container_waits_for_the_next_sandbox(Kind::Podman);
}

#[test]
fn a_container_waits_for_the_next_sandbox_on_runc() {
    a_container_waits_for_the_next_sandbox(Kind::Runc);
}

/// Its engine goes by the name of its directory, which is another one once it is taken.
fn a_container_that_is_still_being_started_is_waited_for(kind: Kind) {
    let Some(mut lab) = Lab::new(kind) else { return };
    let (begun, asked, go_on) = (lab.path("begun"), lab.path("asked"), lab.path("go-on"));
    // Only the first container comes at once: bounded, should the test fail.
    lab.put_in_front(&format!(
        "case \" $* \" in *' run '*) if [ -e '{begun}' ]; then touch '{asked}'; \
         for i in $(seq 600); do [ -e '{go_on}' ] && break; sleep 0.1; done; \
         else touch '{begun}'; fi;; esac; exec $REAL \"$@\"",
        begun = begun.display(),
        asked = asked.display(),
        go_on = go_on.display()
    ));
    let backend = Arc::new(lab.backend().keeping_warm(1));
    block_on(async {
        let first = Sandbox::open(&*backend, Spec::scratch()).await.unwrap();
        wait_until("a container is being started", || asked.exists());
        let mut taking = JoinSet::new();
        let takes = Arc::clone(&backend);
        taking.spawn(async move { Sandbox::open(&*takes, Spec::scratch()).await.unwrap() });
        // Time to do what would spoil it.
        let early = tokio::time::timeout(Duration::from_millis(500), taking.join_next()).await;
        assert!(early.is_err(), "it began in another one");
        std::fs::write(&go_on, "").unwrap();
        let second = taking.join_next().await.unwrap().unwrap();
        let own = format!("cofferdam-{}", second.id());
        assert!(!lab.containers().contains(&own), "it began in another one");
        second.close().await.unwrap();
        first.close().await.unwrap();
    });
    drop(backend);
    lab.assert_empty();
}

#[test]
fn a_container_that_is_still_being_started_is_waited_for_on_docker() {
    a_container_that_is_still_being_started_is_waited_for(Kind::Docker);
}

#[test]
fn a_container_that_is_still_being_started_is_waited_for_on_runc() {
    a_container_that_is_still_being_started_is_waited_for(Kind::Runc);
}

#[test]
fn a_container_that_went_cold_is_replaced() {
    let Some(lab) = Lab::new(Kind::Docker) else { return };
    let backend = lab.backend().keeping_warm(1);
    block_on(async {
        let first = Sandbox::open(&backend, Spec::scratch()).await.unwrap();
        wait_until("one container waits", || lab.containers().len() == 2);
        first.close().await.unwrap();
        for name in lab.containers() {
            lab.says(&["kill", &name]);
        }
        let second = Sandbox::open(&backend, Spec::scratch()).await.unwrap();
        let result = second.run(second.next_call_id(), second.shell("true")).await.unwrap();
        assert!(result.outcome.success());
        second.close().await.unwrap();
    });
    drop(backend);
    lab.assert_empty();
}
