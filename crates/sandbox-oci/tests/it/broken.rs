//! Engines whose own processes are killed: a sandbox goes on, or its end is told in time; a
//! new one is made, or refused with a reason; and nothing is left.

use std::time::{Duration, Instant};

use cofferdam_sandbox::{Backend, OpenError, Sandbox, SandboxError, Spec};
use cofferdam_sandbox_oci::Kind;
use cofferdam_types::Outcome;
use rustix::process::Signal;

use crate::engines::{Lab, block_on, wait_until};

/// How long a job may be in the dark about an engine that is gone.
const IN_THE_DARK: Duration = Duration::from_secs(10);

/// A sandbox in which a command runs while something is done to the engine. The command goes
/// on to its end.
fn a_command_goes_on_when(lab: &mut Lab, something_breaks: impl FnOnce(&mut Lab)) {
    block_on(async {
        let sandbox = Sandbox::open(&lab.backend(), Spec::scratch()).await.unwrap();
        let command =
            sandbox.shell("echo begun; while [ ! -e on ]; do sleep 0.02; done; echo ended");
        let mut process = sandbox.start(sandbox.next_call_id(), command).await.unwrap();
        process.next_output().await.unwrap();
        // An engine that ends while it starts a container may well take that along.
        wait_until("the engine knows that it runs", || !lab.says(&["ps", "--quiet"]).is_empty());
        something_breaks(lab);
        let begun = Instant::now();
        let go_on = sandbox.run(sandbox.next_call_id(), sandbox.shell("touch on")).await.unwrap();
        assert!(go_on.outcome.success(), "{go_on:?}");
        let report = process.wait().await.unwrap();
        assert_eq!(format!("{:?}", report.end), "Exited(0)");
        assert!(begun.elapsed() < IN_THE_DARK);
        sandbox.close().await.unwrap();
        assert!(begun.elapsed() < IN_THE_DARK * 2);
    });
}

/// The engine makes another sandbox.
fn another_can_be_made(lab: &Lab) {
    block_on(async {
        let sandbox = Sandbox::open(&lab.backend(), Spec::scratch()).await.unwrap();
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell("true")).await.unwrap();
        assert!(result.outcome.success(), "{result:?}");
        sandbox.close().await.unwrap();
    });
}

#[test]
fn a_job_goes_on_without_conmon() {
    let Some(mut lab) = Lab::new(Kind::Podman) else { return };
    a_command_goes_on_when(&mut lab, |lab| lab.kill_all("conmon"));
    lab.assert_empty();
    another_can_be_made(&lab);
    lab.assert_empty();
}

#[test]
fn a_job_goes_on_without_containerd() {
    let Some(mut lab) = Lab::new(Kind::Docker) else { return };
    a_command_goes_on_when(&mut lab, |lab| lab.kill_named_in("exec/containerd/containerd.pid"));
    // The daemon answers before it has another one.
    wait_until("the daemon has another", || {
        block_on(async {
            match Sandbox::open(&lab.backend(), Spec::scratch()).await {
                Ok(sandbox) => sandbox.close().await.is_ok(),
                Err(_) => false,
            }
        })
    });
    another_can_be_made(&lab);
    lab.assert_empty();
}

#[test]
fn a_job_goes_on_when_a_daemon_that_lets_containers_live_is_restarted() {
    let Some(mut lab) = Lab::with(Kind::Docker, &["--live-restore"]) else { return };
    a_command_goes_on_when(&mut lab, |lab| {
        lab.end_daemon(Signal::TERM);
        lab.restart_daemon();
    });
    another_can_be_made(&lab);
    lab.assert_empty();
}

/// The daemon then ends the container, or does not.
#[test]
fn a_job_whose_shim_is_killed_goes_on_or_is_told_in_time() {
    let Some(lab) = Lab::new(Kind::Docker) else { return };
    block_on(async {
        let sandbox = Sandbox::open(&lab.backend(), Spec::scratch()).await.unwrap();
        lab.kill_all("containerd-shim");
        let begun = Instant::now();
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell("true")).await.unwrap();
        assert!(begun.elapsed() < IN_THE_DARK, "{:?}", begun.elapsed());
        let told = matches!(&result.outcome, Outcome::Lost { .. });
        assert!(result.outcome.success() || told, "{result:?}");
        drop(sandbox.close().await);
        lab.backend().reconcile().await.unwrap();
    });
    another_can_be_made(&lab);
    lab.assert_empty();
}

/// The engine's command is killed before it has done anything.
fn a_start_that_is_killed_is_refused_in_time(kind: Kind) {
    let Some(mut lab) = Lab::new(kind) else { return };
    lab.put_in_front("case \" $* \" in *' run '*) kill -9 $$;; *) exec $REAL \"$@\";; esac");
    let begun = Instant::now();
    let refused = block_on(Sandbox::open(&lab.backend(), Spec::scratch())).err().unwrap();
    assert!(begun.elapsed() < IN_THE_DARK, "{:?}", begun.elapsed());
    match refused {
        SandboxError::Open(OpenError::Unusable { cause, remedy }) => {
            assert!(cause.contains("could not start the container"), "{cause}");
            assert!(remedy.contains("cofferdam doctor"), "{remedy}");
        }
        other => panic!("{other:?}"),
    }
    lab.assert_empty();
}

#[test]
fn a_start_that_is_killed_is_refused_in_time_on_docker() {
    a_start_that_is_killed_is_refused_in_time(Kind::Docker);
}

#[test]
fn a_start_that_is_killed_is_refused_in_time_on_podman() {
    a_start_that_is_killed_is_refused_in_time(Kind::Podman);
}

#[test]
fn a_start_that_is_killed_is_refused_in_time_on_runc() {
    a_start_that_is_killed_is_refused_in_time(Kind::Runc);
}

/// The engine's command is killed when the container is there: somebody has to remove that,
/// now or at the end of the sandbox.
fn a_container_of_a_command_that_is_killed_does_not_stay(kind: Kind) {
    let Some(mut lab) = Lab::new(kind) else { return };
    lab.put_in_front(
        "$REAL \"$@\"; code=$?; case \" $* \" in *' run '*) kill -9 $$;; esac; exit $code",
    );
    let begun = Instant::now();
    block_on(async {
        if let Ok(sandbox) = Sandbox::open(&lab.backend(), Spec::scratch()).await {
            let result = sandbox.run(sandbox.next_call_id(), sandbox.shell("true")).await.unwrap();
            assert!(result.outcome.success(), "{result:?}");
            sandbox.close().await.unwrap();
        }
    });
    assert!(begun.elapsed() < IN_THE_DARK, "{:?}", begun.elapsed());
    lab.assert_empty();
}

#[test]
fn a_container_of_a_command_that_is_killed_does_not_stay_on_docker() {
    a_container_of_a_command_that_is_killed_does_not_stay(Kind::Docker);
}

#[test]
fn a_container_of_a_command_that_is_killed_does_not_stay_on_podman() {
    a_container_of_a_command_that_is_killed_does_not_stay(Kind::Podman);
}

#[test]
fn an_engine_that_puts_a_program_in_front_does_not_or_is_refused() {
    let Some(mut lab) = Lab::with(Kind::Docker, &["--init"]) else { return };
    block_on(async {
        let sandbox = Sandbox::open(&lab.backend(), Spec::scratch()).await.unwrap();
        let first = sandbox.argv(["cat", "/proc/1/comm"]);
        let result = sandbox.run(sandbox.next_call_id(), first).await.unwrap();
        assert_eq!(result.stdout, "cofferdam\n");
        sandbox.close().await.unwrap();
    });
    // One that does not heed what it is told.
    lab.put_in_front(
        "for word do shift; test \"$word\" = --init=false && word=--init; set -- \"$@\" \"$word\"; \
         done; exec $REAL \"$@\"",
    );
    let refused = block_on(Sandbox::open(&lab.backend(), Spec::scratch())).err().unwrap();
    assert!(refused.to_string().contains("before the sandbox's first process"), "{refused}");
    lab.assert_empty();
}
