//! `--image task`: sandboxes of the image that a workspace's own files ask for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cofferdam_images::{Bootstrap, BuildLimits, Changing, Needs, Store};
use cofferdam_setup::Host;
use cofferdam_testkit::{Dialect, Turn};
use rustix::process::Signal;

use crate::agent::{Agent, bash, of_kind};
use crate::home::Home;
use crate::image_command::{elsewhere, fill, path, put};
use crate::{eventually, processes};

/// The key of the image that the files of a directory ask for, as `image build --for` has it.
pub(crate) fn key_for(home: &Home, workspace: &Path) -> String {
    let needs = Needs::of_workspace(workspace).unwrap();
    let (definition, store) = (needs.on_agent().unwrap(), Store::in_home(&home.path()));
    let (host, stop) = (Host::here(None), AtomicBool::new(false));
    let limits = BuildLimits::default();
    let (definition, store, host, stop) = (&definition, &store, &host, &stop);
    let bootstrap = Bootstrap { definition, store, host, now: 0, limits, stop };
    bootstrap.key().unwrap().to_string()
}

/// Puts that image into the store without making it; its variable says which one it is.
pub(crate) fn put_for(home: &Home, workspace: &Path) -> String {
    let key = key_for(home, workspace);
    fill(&put(home, &format!("job-{}", key.split_at(12).0), &key));
    key
}

/// Keeps everybody else from making images.
pub(crate) fn keep_others_waiting(home: &Home) -> Changing {
    let (store, stop) = (Store::in_home(&home.path()), AtomicBool::new(false));
    store.change(Duration::from_secs(1), &stop, &mut || {}).unwrap()
}

fn workspace(home: &Home, requirements: &str) -> PathBuf {
    let workspace = home.make_directory("work");
    home.make_file(&workspace.join("requirements.txt"), requirements);
    workspace
}

/// Tells a sandbox of an image by what it has not, in words that are not in the command.
const LOOK: &str = "echo $PYTHONPATH; [ -e /usr/bin/mmdebstrap ] || echo only' 'its own";

#[test]
fn a_command_gets_the_image_that_its_workspace_asks_for() {
    let home = Home::new();
    let work = workspace(&home, "six\n");
    put_for(&home, &work);
    let words = ["--image", "task", "--workspace", work.to_str().unwrap(), "--", "sh", "-c", LOOK];
    let ran = home.exec(words).run().expect_code(0);
    assert_eq!(ran.text(), "/workspace\nonly its own\n");
    assert_eq!(ran.errors(), "", "what is there needs no word");
    // `image build --for` finds the same one.
    let built = home.cofferdam(["image", "build", "--for", work.to_str().unwrap()]).run();
    assert!(built.expect_code(0).errors().contains("is there"));
}

#[test]
fn who_needs_nothing_gets_the_agent_image() {
    let home = Home::new();
    let empty = home.make_directory("empty");
    put_for(&home, &empty);
    for words in [&["--workspace", empty.to_str().unwrap()][..], &[]] {
        let ran = home.exec(["--image", "task"]).words(words).words(["--", "sh", "-c", LOOK]);
        assert!(ran.run().expect_code(0).text().ends_with("only its own\n"), "{words:?}");
    }
    let names = home.path().join("images/names/agent");
    assert_eq!(fs::read_to_string(names).unwrap().trim(), key_for(&home, &empty));
}

#[test]
fn what_a_job_writes_makes_no_difference_to_its_image_not_even_after_kill_9() {
    let other = "echo numpy >> requirements.txt; echo made >> log";
    let agent = Agent::with(Dialect::Messages, move |request, _| {
        match request.body.to_string().matches("only its own").count() {
            0 => bash(&format!("{other}; {LOOK}")),
            _ => Turn::text("done"),
        }
    });
    agent.home.make_file(&agent.workspace.join("requirements.txt"), "six\n");
    let key = put_for(&agent.home, &agent.workspace);
    let running = agent.run(&["--image", "task", "--json", "do it"]);
    running.env("COFFERDAM_FAIL_AT", "tool-ended").run().expect_code(-9);
    let created = &agent.transcript()[0];
    assert_eq!(created["spec"]["place"]["image"], key.as_str(), "the record has the key");

    let ran = agent.run(&["--last"]).run().expect_code(0);
    assert!(!ran.errors().contains("making an image"), "{}", ran.errors());
    assert!(agent.file("requirements.txt").contains("numpy"));
    assert_ne!(key_for(&agent.home, &agent.workspace), key, "a new job would get another");
    let ended = agent.transcript();
    assert!(of_kind(&ended, "tool_ended").last().unwrap().to_string().contains("only its own"));
    // Nor when somebody wants more of it.
    agent.run(&["--last", "once more"]).run().expect_code(0);
    assert_eq!(of_kind(&agent.transcript(), "created").len(), 1);
    assert!(!agent.home.path().join("images/.staging").exists());
}

#[test]
fn what_cannot_be_asked_for_is_refused_before_a_model_is_paid() {
    let agent = Agent::new(Dialect::Messages, []);
    let file = agent.workspace.join("requirements.txt");
    let refused = |told: &[&str]| {
        let ran = agent.run(&["--image", "task", "do it"]).run();
        ran.expect_error(6, told);
        assert!(agent.requests().is_empty());
        assert!(!agent.home.path().join("history").exists(), "there is no job");
    };
    agent.home.make_file(&file, "six\n--extra-index-url https://example.com\n");
    refused(&["IMG-003", "requirements.txt, line 2", "option"]);
    agent.home.make_file(&file, "six @ https://example.com/six.whl\n");
    refused(&["IMG-003", "requirements.txt, line 1"]);

    // What a link out of the workspace leads to is nobody's business.
    let secret = agent.home.beside("secret");
    agent.home.make_file(&secret, "-hunter2\n");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&secret, &file).unwrap();
    let ran = agent.run(&["--image", "task", "--json", "do it"]).run();
    assert_eq!(ran.code, 6);
    assert!(ran.text().contains("leads out of the workspace"), "{}", ran.text());
    assert!(!format!("{}{}", ran.text(), ran.errors()).contains("hunter2"));
    assert!(agent.requests().is_empty());
}

#[test]
fn no_image_can_take_the_name() {
    let home = Home::new();
    let ran = home.cofferdam(["image", "build", "task"]).run();
    ran.expect_error(2, &["IMG-010", "choose another: "]);
    let ran = home.cofferdam(["image", "import", "/no/such.tar", "--name", "task"]).run();
    ran.expect_error(1, &["IMG-010", "choose another: "]);
    let ran = home.cofferdam(["image", "import", "/no/task.tar"]).run();
    ran.expect_error(1, &["IMG-010"]);
}

#[test]
fn what_is_missing_for_it_is_told_with_how_to_get_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::new();
    let hidden = "--bind /dev/null /usr/bin/mmdebstrap".to_owned();
    let ran = elsewhere(&home, &[hidden], &["exec", "--image", "task", "--", "true"]);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(told.contains("IMG-001") && told.contains("apt-get install mmdebstrap"), "{told}");
    assert!(told.contains("cofferdam image build"), "{told}");
    assert_eq!(ran.status.code(), Some(125));
}

#[test]
fn who_needs_what_somebody_else_makes_waits_for_it_and_makes_nothing() {
    let home = Home::new();
    let work = workspace(&home, "six\n");
    let making = keep_others_waiting(&home);
    let words = ["--image", "task", "--workspace", work.to_str().unwrap(), "--", "sh", "-c", LOOK];
    let first = home.exec(words).spawn();
    let second = home.exec(words).spawn();
    for running in [&first, &second] {
        eventually("somebody who waits", || {
            assert!(!running.has_ended(), "{}", running.errors_so_far());
            running.errors_so_far().contains("waiting for its end")
        });
    }
    put_for(&home, &work);
    drop(making);
    for running in [first, second] {
        let ran = running.wait().expect_code(0);
        assert!(ran.errors().contains("is there"), "{}", ran.errors());
        assert!(!ran.errors().contains("look for what it takes"), "{}", ran.errors());
    }
}

#[test]
fn a_job_that_is_interrupted_while_its_image_is_made_leaves_nothing() {
    let agent = Agent::new(Dialect::Messages, []);
    agent.home.make_file(&agent.workspace.join("requirements.txt"), "six\n");
    let staging = agent.home.path().join("images/.staging");
    let mark = staging.join("root").display().to_string();
    let running = agent.run(&["--image", "task", "do it"]).env("PATH", path()).spawn();
    eventually("mmdebstrap that has begun", || {
        staging.join("root/var/lib/dpkg").exists() || running.has_ended()
    });
    assert!(!running.has_ended(), "{}", running.errors_so_far());
    assert!(
        running.errors_so_far().contains("install the system's packages"),
        "{}",
        running.errors_so_far()
    );
    running.signal(Signal::INT);
    let ran = running.wait();
    assert_eq!(ran.code, 130, "{}", ran.errors());
    assert!(!staging.exists());
    eventually("no mmdebstrap", || processes::with_argument(&mark).is_empty());
    assert!(agent.requests().is_empty());
    assert!(!agent.home.path().join("history").exists(), "there is no job");
}
