//! Who dies with whom, and who cleans up.

use std::fs;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use cofferdam_sandbox::{
    Backend, Lifetime, OpenError, Root, Sandbox, SandboxError, Spec, Workspace,
};
use cofferdam_types::SandboxId;
use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Home, block_on, groups_of, processes_with, supervisors, wait_until};
use crate::ordinary_user;

fn kill(pid: u32) {
    send(pid, Signal::KILL);
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

fn marker(name: &str) -> String {
    format!("cofferdam-{name}-{}", std::process::id())
}

/// Processes of every stubborn kind, each with the marker in its command line.
fn stubborn(marker: &str) -> String {
    format!(
        "trap '' TERM HUP INT; \
         sh -c 'trap \"\" TERM; while :; do sleep 1; done' {marker} & \
         setsid sh -c 'while :; do sleep 1; done' {marker} & \
         sh -c 'kill -STOP $$; sleep 1' {marker} & \
         (setsid sh -c 'sh -c \"while :; do sleep 1; done\" {marker} &' &) ; sleep 0.2; echo ready"
    )
}

#[test]
fn nothing_survives_the_supervisor_and_the_next_start_removes_the_rest() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let directory = home.directory("project");
        std::fs::write(directory.join("old"), "old").unwrap();
        let spec = Spec { workspace: Workspace::Directory(directory.clone()), ..Spec::scratch() };
        let sandbox = Sandbox::open(&native, spec).await.unwrap();
        let id = sandbox.id();
        let marker = marker("orphans");
        let script = format!("echo kept > new; rm old; {}", stubborn(&marker));
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        assert!(result.outcome.success(), "{result:?}");
        assert!(!processes_with(&marker).is_empty());

        for supervisor in supervisors(&home.sandboxes()) {
            kill(supervisor);
        }
        wait_until("every process is gone", || processes_with(&marker).is_empty());
        assert_eq!(home.left(), [id.to_string()], "remains are there to be found");
        drop(sandbox);

        let found = home.native().reconcile().await.unwrap();
        assert_eq!(found.removed, [id]);
        assert_eq!(groups_of(&id.to_string()), Vec::<std::path::PathBuf>::new());
        assert_eq!(std::fs::read_to_string(directory.join("new")).unwrap(), "kept\n");
        assert!(!directory.join("old").exists(), "no change is lost");
        home.assert_empty();
    });
}

/// As a machine asks before it goes down. What is not there any more cannot be in doubt later.
#[test]
fn a_supervisor_that_is_asked_to_end_loses_nothing_and_leaves_nothing() {
    block_on(async {
        let home = Home::new();
        let directory = home.directory("project");
        let spec = Spec {
            workspace: Workspace::Directory(directory.clone()),
            lifetime: Lifetime::Lingering(Duration::from_secs(600)),
            ..Spec::scratch()
        };
        let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
        let id = sandbox.id();
        let marker = marker("asked");
        let script = format!("echo kept > new; {}", stubborn(&marker));
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        assert!(result.outcome.success(), "{result:?}");
        assert!(!processes_with(&marker).is_empty());

        let [supervisor] = supervisors(&home.sandboxes())[..] else { panic!("one is expected") };
        send(supervisor, Signal::TERM);
        wait_until("the supervisor is gone", || supervisors(&home.sandboxes()).is_empty());
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
        assert_eq!(groups_of(&id.to_string()), Vec::<std::path::PathBuf>::new());
        assert_eq!(fs::read_to_string(directory.join("new")).unwrap(), "kept\n");
        drop(sandbox);
        home.assert_empty();
    });
}

/// A supervisor that dies while it takes a snapshot leaves its processes frozen.
#[test]
fn whoever_was_frozen_is_removed_too() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let directory = home.directory("project");
        let spec = Spec { workspace: Workspace::Directory(directory.clone()), ..Spec::scratch() };
        let sandbox = Sandbox::open(&native, spec).await.unwrap();
        let id = sandbox.id();
        let marker = marker("frozen");
        let script = format!("echo kept > new; sh -c 'while :; do sleep 1; done' {marker} & :");
        sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
        let switches = [("freezer.state", "FROZEN"), ("cgroup.freeze", "1")];
        let frozen = groups_of(&id.to_string()).into_iter().any(|group| {
            switches.iter().any(|(file, value)| {
                let file = group.join(file);
                file.exists() && fs::write(file, value).is_ok()
            })
        });
        if !frozen {
            eprintln!("skipped: there is no group that can be frozen");
            return;
        }
        for supervisor in supervisors(&home.sandboxes()) {
            kill(supervisor);
        }
        drop(sandbox);
        wait_until("the supervisor is gone", || supervisors(&home.sandboxes()).is_empty());
        let found = home.native().reconcile().await.unwrap();
        assert_eq!((found.removed, found.left), (vec![id], Vec::new()));
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
        assert_eq!(fs::read_to_string(directory.join("new")).unwrap(), "kept\n");
        home.assert_empty();
    });
}

/// What a machine that went down had not written yet replaces nothing that is good.
#[test]
fn changes_from_before_the_machines_start_are_applied_on_somebodys_word() {
    block_on(async {
        let home = Home::new();
        let directory = home.directory("project");
        fs::write(directory.join("file"), "good").unwrap();
        let spec = Spec { workspace: Workspace::Directory(directory.clone()), ..Spec::scratch() };
        let sandbox = Sandbox::open(&home.native(), spec.clone()).await.unwrap();
        let id = sandbox.id();
        let command = sandbox.shell("echo newer > file");
        sandbox.run(sandbox.next_call_id(), command).await.unwrap();
        for supervisor in supervisors(&home.sandboxes()) {
            kill(supervisor);
        }
        drop(sandbox);
        wait_until("the supervisor is gone", || supervisors(&home.sandboxes()).is_empty());
        let state = home.sandboxes().join(id.to_string());
        fs::write(state.join("boot"), "00000000-0000-4000-8000-000000000000\n").unwrap();

        let found = home.native().reconcile().await.unwrap();
        let [left] = found.left.as_slice() else { panic!("{found:?}") };
        assert!(left.contains("went down") && left.contains("/apply"), "{left}");
        let spec = Spec { id: SandboxId::generate(), ..spec };
        let refused = Sandbox::open(&home.native(), spec).await;
        let Err(SandboxError::Open(OpenError::Occupied { cause, remedy })) = refused else {
            panic!("it was not refused for that")
        };
        assert!(cause.contains("went down") && remedy.contains("/apply"), "{cause}: {remedy}");
        assert_eq!(fs::read_to_string(directory.join("file")).unwrap(), "good");

        fs::write(state.join("apply"), "").unwrap();
        let found = home.native().reconcile().await.unwrap();
        assert_eq!((found.removed, found.left), (vec![id], Vec::new()));
        assert_eq!(fs::read_to_string(directory.join("file")).unwrap(), "newer\n");
        home.assert_empty();
    });
}

#[test]
fn a_sandbox_that_keeps_nothing_on_disk_is_cleared_away_too() {
    block_on(async {
        let home = Home::new();
        let sandbox = Sandbox::open(&home.native(), Spec::scratch()).await.unwrap();
        let id = sandbox.id();
        for supervisor in supervisors(&home.sandboxes()) {
            kill(supervisor);
        }
        wait_until("it is gone", || supervisors(&home.sandboxes()).is_empty());
        drop(sandbox);
        let found = home.native().reconcile().await.unwrap();
        assert_eq!(found.removed, [id]);
        assert_eq!(groups_of(&id.to_string()), Vec::<std::path::PathBuf>::new());
        home.assert_empty();
    });
}

#[test]
fn closing_leaves_no_process_of_any_kind() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let sandbox = Sandbox::open(&native, Spec::scratch()).await.unwrap();
        let id = sandbox.id().to_string();
        let marker = marker("stubborn");
        let command = sandbox.shell(stubborn(&marker));
        sandbox.run(sandbox.next_call_id(), command).await.unwrap();
        assert!(processes_with(&marker).len() >= 3);
        sandbox.close().await.unwrap();
        assert_eq!(processes_with(&marker), Vec::<u32>::new());
        assert_eq!(groups_of(&id), Vec::<std::path::PathBuf>::new());
        assert_eq!(home.left(), Vec::<String>::new());
    });
}

#[test]
fn a_sandbox_that_nobody_comes_back_to_ends_itself() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let lifetime = Lifetime::Lingering(Duration::from_millis(300));
        let sandbox = Sandbox::open(&native, Spec { lifetime, ..Spec::scratch() }).await.unwrap();
        sandbox.keep().await.unwrap();
        let id = sandbox.id();
        drop(sandbox);
        home.assert_empty();
        let error = Sandbox::reattach(&native, id, cofferdam_types::Limits::default()).await;
        assert!(matches!(error, Err(SandboxError::Open(OpenError::Gone(gone))) if gone == id));
    });
}

#[test]
fn a_lingering_sandbox_is_found_alive_and_not_removed() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let lifetime = Lifetime::Lingering(Duration::from_secs(60));
        let spec = Spec { lifetime, ..Spec::scratch() };
        let sandbox = Sandbox::open(&native, spec.clone()).await.unwrap();
        sandbox.keep().await.unwrap();
        let id = sandbox.id();
        sandbox.run(sandbox.next_call_id(), sandbox.shell("echo here > file")).await.unwrap();
        drop(sandbox);
        let other: Arc<dyn Backend> = Arc::new(home.native());
        let found = other.reconcile().await.unwrap();
        assert_eq!((found.alive, found.removed), (vec![id], vec![]));
        let sandbox = Sandbox::reattach(other.as_ref(), id, spec.limits).await.unwrap();
        let result = sandbox.run(sandbox.next_call_id(), sandbox.shell("cat file")).await.unwrap();
        assert_eq!(&result.stdout[..], b"here\n");
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn a_sandbox_whose_maker_died_before_it_began_is_removed() {
    block_on(async {
        let home = Home::new();
        let directory = home.sandboxes().join(SandboxId::generate().to_string());
        std::fs::create_dir_all(&directory).unwrap();
        assert_eq!(home.native().reconcile().await.unwrap().removed, []);
        assert!(!directory.exists());
    });
}

#[test]
fn a_sandbox_in_the_making_is_not_taken_for_a_dead_one() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        for _ in 0..20 {
            let open = Sandbox::open(&native, Spec::scratch());
            let other = home.native();
            let (sandbox, found) = tokio::join!(open, other.reconcile());
            assert_eq!(found.unwrap().removed, []);
            sandbox.unwrap().close().await.unwrap();
        }
        home.assert_empty();
    });
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let missing = home.sandboxes().join("../missing");
        let cases = [
            Spec { workspace: Workspace::Directory(missing.clone()), ..Spec::scratch() },
            Spec {
                root: Root::Image { directory: missing.clone(), readable: Vec::new() },
                ..Spec::scratch()
            },
            Spec { root: Root::Host { readable: vec![missing] }, ..Spec::scratch() },
            Spec { require: cofferdam_sandbox::Grade::Virtual, ..Spec::scratch() },
            Spec {
                workspace: Workspace::Directory(home.sandboxes().join("..")),
                ..Spec::scratch()
            },
        ];
        std::fs::create_dir_all(home.sandboxes()).unwrap();
        for spec in cases {
            let wanted = format!("{spec:?}");
            assert!(Sandbox::open(&native, spec).await.is_err(), "{wanted}");
            home.assert_empty();
        }
    });
}

#[test]
fn a_sandbox_goes_first_when_the_machine_runs_out_of_memory() {
    block_on(async {
        let home = Home::new();
        let sandbox = Sandbox::open(&home.native(), Spec::scratch()).await.unwrap();
        let command = sandbox.shell("cat /proc/self/oom_score_adj");
        let result = sandbox.run(sandbox.next_call_id(), command).await.unwrap();
        assert_eq!(&result.stdout[..], b"500\n");
        sandbox.close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn life_is_the_same_for_an_ordinary_user() {
    ordinary_user::again(&[
        "life::nothing_survives_the_supervisor_and_the_next_start_removes_the_rest",
        "life::closing_leaves_no_process_of_any_kind",
        "life::changes_from_before_the_machines_start_are_applied_on_somebodys_word",
        "life::a_sandbox_that_nobody_comes_back_to_ends_itself",
        "life::a_lingering_sandbox_is_found_alive_and_not_removed",
        "life::what_cannot_be_made_leaves_nothing",
        "life::a_sandbox_goes_first_when_the_machine_runs_out_of_memory",
    ]);
}

/// However early its maker gives up, nothing stays: not even while the maker lives on.
#[test]
fn a_sandbox_that_is_given_up_while_it_is_made_leaves_nothing() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let lifetime = Lifetime::Lingering(Duration::from_secs(600));
        for (wakes, late) in (1..20).flat_map(|wakes| [(wakes, false), (wakes, true)]) {
            {
                let opening = Sandbox::open(&native, Spec { lifetime, ..Spec::scratch() });
                tokio::pin!(opening);
                let mut woken = 0;
                std::future::poll_fn(|context| {
                    woken += 1;
                    let made = opening.as_mut().poll(context).map(drop);
                    if woken < wakes { made } else { Poll::Ready(()) }
                })
                .await;
                if late {
                    // The sandbox gets ready, and its maker does not hear of it.
                    std::thread::sleep(Duration::from_millis(30));
                }
            }
            home.assert_empty();
        }
    });
}

/// A server looks for remains while its jobs already open and close sandboxes.
#[test]
fn whoever_looks_for_remains_is_in_nobodys_way() {
    let home = Home::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            block_on(async {
                let native = home.native();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(native.reconcile().await.unwrap().removed.is_empty());
                }
            });
        });
        let closed = block_on(async {
            let native = home.native();
            for _ in 0..200 {
                let sandbox = Sandbox::open(&native, Spec::scratch()).await.unwrap();
                sandbox.close().await?;
            }
            Ok::<_, cofferdam_sandbox::RoomError>(())
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        looking.join().unwrap();
        closed.unwrap();
    });
    home.assert_empty();
}

#[test]
fn a_closed_sandbox_leaves_no_ended_process_to_its_maker() {
    let home = Home::new();
    let backend = home.native();
    block_on(async {
        for _ in 0..3 {
            Sandbox::open(&backend, Spec::scratch()).await.unwrap().close().await.unwrap();
        }
    });
    // Other tests of this process may be about to wait for theirs.
    wait_until("no ended supervisor is left", || {
        let own = format!(" {} ", std::process::id());
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let stats =
            processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        !stats.into_iter().any(|stat| {
            let (name, rest) = stat.rsplit_once(')').unwrap_or_default();
            name.ends_with("(cofferdam-super") && rest.starts_with(&format!(" Z{own}"))
        })
    });
}
