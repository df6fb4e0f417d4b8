//! One directory, one sandbox that changes it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cofferdam_sandbox::{Backend, OpenError, Sandbox, SandboxError, Spec, Workspace};
use cofferdam_sandbox_native::Native;
use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Home, block_on, supervisors, wait_until};
use crate::ordinary_user;

/// Makes a process of this program the [`Owner`] and tells it where to work: a
/// home, a directory, and a file that says that it is ready, separated by colons.
const OWNER: &str = "COFFERDAM_TEST_OWNER";

/// The test that is run as the owner.
const KILLED_OWNER: &str =
    "claim::whoever_comes_right_after_a_killed_owner_finds_all_of_its_changes";

/// How many files the killed owner's sandbox writes.
const MANY: usize = 3000;

fn over(directory: &Path) -> Spec {
    Spec { workspace: Workspace::Directory(directory.to_owned()), ..Spec::scratch() }
}

fn impatient(home: &Home) -> Native {
    home.native().waiting(Duration::from_millis(50))
}

async fn sh(sandbox: &Sandbox, script: &str) -> String {
    let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
    assert!(result.outcome.success(), "{result:?}");
    String::from_utf8_lossy(&result.stdout).into_owned()
}

async fn refused(native: &Native, directory: &Path) -> (String, String) {
    match Sandbox::open(native, over(directory)).await.err() {
        Some(SandboxError::Open(OpenError::Occupied { cause, remedy })) => (cause, remedy),
        other => panic!("{other:?}"),
    }
}

fn read(directory: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(name)).ok()
}

#[test]
fn directories_of_several_owners_stay_theirs_one_sandbox_after_another() {
    let own = rustix::process::geteuid().as_raw();
    // Only root can give files away.
    let owners = if own == 0 { vec![0, 1234] } else { vec![own] };
    block_on(async {
        let home = Home::new();
        let native = home.native();
        // Each owner twice: the second sandbox uses what the first one has made.
        for (number, owner) in owners.iter().chain(&owners).enumerate() {
            let directory = home.directory(&format!("project-{number}"));
            std::fs::write(directory.join("given"), "").unwrap();
            for path in [directory.clone(), directory.join("given")] {
                std::os::unix::fs::chown(path, Some(*owner), None).unwrap();
            }
            let sandbox = Sandbox::open(&native, over(&directory)).await.unwrap();
            assert_eq!(sh(&sandbox, "stat -c %U . given; echo > made").await, "agent\nagent\n");
            sandbox.close().await.unwrap();
            let made = std::fs::metadata(directory.join("made")).unwrap();
            assert_eq!(made.uid(), *owner);
        }
        home.assert_empty();
    });
}

#[test]
fn the_second_on_a_directory_waits_for_the_first_and_sees_its_changes() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        let directory = home.directory("project");
        std::fs::write(directory.join("shared"), "base\n").unwrap();
        let first = Sandbox::open(&native, over(&directory)).await.unwrap();
        let working = async {
            sh(&first, "sleep 0.3; echo first >> shared; echo first > own").await;
            first.close().await.unwrap();
        };
        let waiting = async {
            let second = Sandbox::open(&native, over(&directory)).await.unwrap();
            assert_eq!(sh(&second, "cat own; echo second >> shared").await, "first\n");
            second.close().await.unwrap();
        };
        tokio::join!(working, waiting);
        assert_eq!(read(&directory, "shared").unwrap(), "base\nfirst\nsecond\n");
        home.assert_empty();
    });
}

#[test]
fn waiting_for_a_directory_ends_in_an_error_that_names_both() {
    block_on(async {
        let home = Home::new();
        let directory = home.directory("project");
        let first = Sandbox::open(&home.native(), over(&directory)).await.unwrap();
        let (cause, remedy) = refused(&impatient(&home), &directory).await;
        assert!(cause.contains(&format!("another sandbox ({})", first.id())), "{cause}");
        assert!(cause.contains(directory.to_str().unwrap()), "{cause}");
        assert!(remedy.contains("copy"), "{remedy}");
        assert_eq!(home.left(), [first.id().to_string()], "the refused one leaves nothing");
        first.close().await.unwrap();
        Sandbox::open(&impatient(&home), over(&directory)).await.unwrap().close().await.unwrap();
        home.assert_empty();
    });
}

#[test]
fn a_directory_is_one_for_all_homes_and_by_whatever_name() {
    block_on(async {
        let (here, there) = (Home::new(), Home::new());
        let directory = here.directory("project");
        let link = directory.with_file_name("link");
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        let first = Sandbox::open(&here.native(), over(&directory)).await.unwrap();
        let (cause, _) = refused(&impatient(&there), &link).await;
        assert!(cause.contains("another sandbox works on"), "{cause}");
        first.close().await.unwrap();
        let second = Sandbox::open(&impatient(&there), over(&link)).await.unwrap();
        second.close().await.unwrap();
        here.assert_empty();
        there.assert_empty();
    });
}

#[test]
fn a_directory_that_is_only_looked_at_is_neither_waited_for_nor_changed() {
    block_on(async {
        let home = Home::new();
        let native = impatient(&home);
        let directory = home.directory("project");
        std::fs::write(directory.join("file"), "before\n").unwrap();
        let working = Sandbox::open(&native, over(&directory)).await.unwrap();
        sh(&working, "echo after > file").await;
        for _ in 0..2 {
            let workspace = Workspace::View(directory.clone());
            let view = Sandbox::open(&native, Spec { workspace, ..Spec::scratch() });
            let view = view.await.unwrap();
            assert_eq!(sh(&view, "cat file; echo view > file; echo view > new").await, "before\n");
            assert_eq!(sh(&view, "cat file new").await, "view\nview\n");
            view.close().await.unwrap();
            assert_eq!(read(&directory, "file").unwrap(), "before\n");
            assert_eq!(read(&directory, "new"), None);
        }
        assert_eq!(sh(&working, "cat file").await, "after\n");
        working.close().await.unwrap();
        assert_eq!(read(&directory, "file").unwrap(), "after\n");
        home.assert_empty();
    });
}

/// A process of its own that works on a directory until it is killed.
struct Owner(Child);

impl Owner {
    fn start(home: &Home, directory: &Path) -> Self {
        let ready = directory.with_file_name("ready");
        let sandboxes = home.sandboxes();
        let places = [&sandboxes, directory, &ready].map(|path: &Path| path.to_str().unwrap());
        let child = Command::new(std::env::current_exe().unwrap())
            .args([KILLED_OWNER, "--exact"])
            .env(OWNER, places.join(":"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let owner = Self(child);
        wait_until("the owner's sandbox has written its files", || ready.exists());
        owner
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Is the owner.
fn work_until_killed(places: &str) {
    let places: Vec<PathBuf> = places.split(':').map(PathBuf::from).collect();
    let [home, directory, ready] = places.as_slice() else { panic!("{places:?}") };
    block_on(async {
        let sandbox = Sandbox::open(&Native::new(home.clone()), over(directory)).await.unwrap();
        sh(&sandbox, &format!("for i in $(seq {MANY}); do echo old > f$i; done")).await;
        std::fs::write(ready, "").unwrap();
        std::future::pending::<()>().await;
    });
}

#[test]
fn whoever_comes_right_after_a_killed_owner_finds_all_of_its_changes() {
    if let Ok(places) = std::env::var(OWNER) {
        return work_until_killed(&places);
    }
    block_on(async {
        let home = Home::new();
        let directory = home.directory("project");
        drop(Owner::start(&home, &directory));
        let sandbox = Sandbox::open(&home.native(), over(&directory)).await.unwrap();
        assert_eq!(sh(&sandbox, "ls | wc -l").await, format!("{MANY}\n"));
        sh(&sandbox, &format!("echo new > f1; echo new > f{MANY}")).await;
        sandbox.close().await.unwrap();
        assert_eq!(read(&directory, "f1").unwrap(), "new\n", "the old layer is not laid over it");
        assert_eq!(read(&directory, &format!("f{MANY}")).unwrap(), "new\n");
        home.assert_empty();
    });
}

#[test]
fn changes_that_a_dead_sandbox_left_come_before_anything_new() {
    block_on(async {
        let home = Home::new();
        let native = home.native();
        // Nothing can be applied while a link is on the way to the directory.
        let (parent, moved) = (home.directory("parent"), home.sandboxes().with_file_name("moved"));
        let directory = parent.join("project");
        std::fs::create_dir(&directory).unwrap();
        let sandbox = Sandbox::open(&native, over(&directory)).await.unwrap();
        let id = sandbox.id().to_string();
        sh(&sandbox, "echo old > file; echo old > kept").await;
        std::fs::rename(&parent, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &parent).unwrap();
        sandbox.close().await.unwrap_err();

        for _ in 0..2 {
            let (cause, remedy) = refused(&native, &directory).await;
            let place = home.sandboxes().join(&id);
            assert!(cause.contains(place.to_str().unwrap()), "{cause}");
            assert!(remedy.contains(&format!("delete {}", place.display())), "{remedy}");
            assert_eq!(
                home.left(),
                std::slice::from_ref(&id),
                "what is left stays, and nothing is added"
            );
        }
        let elsewhere = Sandbox::open(&native, over(&home.directory("elsewhere"))).await.unwrap();
        elsewhere.close().await.unwrap();

        std::fs::remove_file(&parent).unwrap();
        std::fs::rename(&moved, &parent).unwrap();
        let sandbox = Sandbox::open(&native, over(&directory)).await.unwrap();
        assert_eq!(sh(&sandbox, "cat file kept; echo new > file").await, "old\nold\n");
        sandbox.close().await.unwrap();
        native.reconcile().await.unwrap();
        assert_eq!(read(&directory, "file").unwrap(), "new\n");
        assert_eq!(read(&directory, "kept").unwrap(), "old\n");
        home.assert_empty();
    });
}

#[test]
fn nothing_is_applied_to_a_directory_that_somebody_works_on() {
    block_on(async {
        let (here, there) = (Home::new(), Home::new());
        let directory = here.directory("project");
        let native = here.native();
        let dead = Sandbox::open(&native, over(&directory)).await.unwrap();
        sh(&dead, "echo left > file").await;
        for supervisor in supervisors(&here.sandboxes()) {
            kill_process(Pid::from_raw(supervisor.cast_signed()).unwrap(), Signal::KILL).unwrap();
        }
        drop(dead);
        let working = Sandbox::open(&there.native(), over(&directory)).await.unwrap();
        let left = native.reconcile().await.unwrap().left;
        assert!(left.len() == 1 && left[0].contains("another sandbox works on"), "{left:?}");
        assert_eq!(read(&directory, "file"), None);
        working.close().await.unwrap();
        native.reconcile().await.unwrap();
        assert_eq!(read(&directory, "file").unwrap(), "left\n");
        here.assert_empty();
        there.assert_empty();
    });
}

#[test]
fn claims_are_the_same_for_an_ordinary_user() {
    ordinary_user::again(&[
        "claim::the_second_on_a_directory_waits_for_the_first_and_sees_its_changes",
        "claim::waiting_for_a_directory_ends_in_an_error_that_names_both",
        "claim::a_directory_is_one_for_all_homes_and_by_whatever_name",
        "claim::a_directory_that_is_only_looked_at_is_neither_waited_for_nor_changed",
        KILLED_OWNER,
        "claim::changes_that_a_dead_sandbox_left_come_before_anything_new",
        "claim::nothing_is_applied_to_a_directory_that_somebody_works_on",
    ]);
}
