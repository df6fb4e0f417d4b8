//! `cofferdam image`, as people use it: what it makes, refuses, and leaves behind.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::eventually;
use crate::home::Home;
use crate::processes;

/// An image in the store that was never built, with variables of its own.
pub(crate) fn put(home: &Home, name: &str, key: &str) -> PathBuf {
    let place = home.path().join("images").join(key);
    fs::create_dir_all(place.join("root/usr/bin")).unwrap();
    let about = serde_json::json!({
        "version": 1, "bytes": 2_000_000_000_u64, "key": key, "made_with": "import",
        "made_at": 1_794_858_798, "env": {"PATH": "/opt/own:/usr/bin:/bin", "PYTHONPATH": "/workspace"},
    });
    fs::write(place.join("image.json"), about.to_string()).unwrap();
    let names = home.path().join("images/names");
    fs::create_dir_all(&names).unwrap();
    fs::write(names.join(name), key).unwrap();
    place.join("root")
}

/// Has an image use this machine's programs, by copies of what a shell needs.
pub(crate) fn fill(root: &Path) {
    for program in ["sh", "env", "sleep"] {
        let source = fs::canonicalize(Path::new("/usr/bin").join(program)).unwrap();
        fs::copy(source, root.join("usr/bin").join(program)).unwrap();
    }
    let ran = std::process::Command::new("ldd").arg("/usr/bin/env").output().unwrap();
    let ran2 = std::process::Command::new("ldd").arg("/usr/bin/sh").output().unwrap();
    let text = String::from_utf8([ran.stdout, ran2.stdout].concat()).unwrap();
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        let target = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(library, target).unwrap();
    }
    std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
}

#[test]
fn an_image_is_used_by_its_name_with_its_variables() {
    let home = Home::new();
    let key = "ab".repeat(32);
    fill(&put(&home, "own", &key));
    let script = "echo $PATH; echo $PYTHONPATH; [ -e /usr/bin/mmdebstrap ] || echo only its own";
    let ran = home.exec(["--image", "own", "--", "sh", "-c", script]).run().expect_code(0);
    assert_eq!(ran.text(), "/opt/own:/usr/bin:/bin\n/workspace\nonly its own\n");
    // By its key as well; and what a caller says goes before what the image says.
    let words = ["--image", "abababab", "--env", "PYTHONPATH=/own", "--", "sh", "-c", script];
    assert!(home.exec(words).run().expect_code(0).text().contains("\n/own\n"));
    // A directory has a slash.
    let root = home.path().join("images").join(&key).join("root");
    let root = root.to_str().unwrap();
    home.exec(["--image", root, "--", "sh", "-c", "exit 7"]).run().expect_code(7);
}

#[test]
fn an_image_that_is_not_there_is_told_with_what_to_do() {
    let home = Home::new();
    let ran = home.exec(["--image", "agent", "--", "true"]).run().expect_code(125);
    let told = ran.errors();
    assert!(told.contains("there is no image \"agent\"") && told.contains("image build"), "{told}");
    let ran = home.exec(["--image", "Agent", "--", "true"]).run().expect_code(2);
    assert!(ran.errors().contains("./Agent"));
}

#[test]
fn images_are_listed_with_their_sizes_and_removed() {
    let home = Home::new();
    assert_eq!(home.cofferdam(["image", "list"]).run().expect_code(0).text(), "");
    put(&home, "agent", &"0a".repeat(32));
    put(&home, "agent", &"0b".repeat(32));
    let list = || home.cofferdam(["image", "list"]).run().expect_code(0).text();
    let text = list();
    assert!(text.contains("agent  0b0b0b0b0b0b  2.0 GB  2026-11-16 19:53  import"), "{text}");
    assert!(text.contains("(old)  0a0a0a0a0a0a"), "{text}");
    let ran = home.cofferdam(["image", "list", "--json"]).run().expect_code(0);
    let listed: Value = serde_json::from_str(&ran.text()).unwrap();
    assert_eq!(listed["images"].as_array().unwrap().len(), 2);
    assert_eq!(listed["images"][0]["bytes"], 2_000_000_000_u64);
    home.cofferdam(["image", "prune"]).run().expect_code(0);
    assert!(!list().contains("0a0a"), "{}", list());
    let ran = home.cofferdam(["image", "remove", "other"]).run().expect_code(1);
    assert!(ran.errors().contains("IMG-005"));
    home.cofferdam(["image", "remove", "agent"]).run().expect_code(0);
    assert_eq!(list(), "");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let home = Home::new();
    for words in [
        &["image", "build", "--apt", "-y"][..],
        &["image", "build", "--pip", "--index-url=x"],
        &["image", "build", "../x"],
        &["image", "build", "--base", "x"],
        &["image", "build", "--with", "make"],
        &["image", "import", "/no/such.tar", "--name", "MyImage"],
        &["image"],
    ] {
        let ran = home.cofferdam(words).run();
        assert_eq!(ran.code, 2, "{words:?}: {}", ran.errors());
    }
    let ran = home.cofferdam(["image", "import", "/no/such.tar"]).run().expect_code(1);
    assert!(ran.errors().contains("/no/such.tar"));
    assert!(!home.path().join("images/.staging").exists());
}

/// The program in a mount namespace of its own, after these mounts. Only root can do this.
pub(crate) fn elsewhere(home: &Home, mounts: &[String], words: &[&str]) -> std::process::Output {
    let mounts: String = mounts.iter().map(|mount| format!("mount {mount} && ")).collect();
    let who = home.user().unwrap_or(0);
    let script = format!("{mounts}exec setpriv --reuid {who} --regid {who} --clear-groups \"$@\"");
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "--propagation=private", "sh", "-c", &script, "sh"]);
    command.arg(home.program()).args(words);
    command.env_clear().env("PATH", path()).env("COFFERDAM_HOME", home.path());
    command.current_dir("/").output().unwrap()
}

#[test]
fn what_is_missing_is_told_with_how_to_get_it() {
    let home = Home::new();
    let ran = home.cofferdam(["image", "build", "own", "--python", "3.12"]).run();
    ran.expect_error(1, &["IMG-001", "Python 3.12", "3.13", "--with docker"]);
    if rustix::process::geteuid().is_root() {
        let hidden = "--bind /dev/null /usr/bin/mmdebstrap".to_owned();
        let ran = elsewhere(&home, &[hidden], &["image", "build"]);
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(told.contains("IMG-001") && told.contains("install mmdebstrap"), "{told}");
        assert_eq!(ran.status.code(), Some(1));
        let ordinary = Home::of_ordinary_user();
        let ran = ordinary.cofferdam(["image", "build"]).env("PATH", path()).run();
        ran.expect_error(1, &["IMG-001", "usermod --add-subuids"]);
    }
    assert!(!home.path().join("images/.staging").exists());
}

#[test]
fn a_build_that_is_interrupted_or_killed_leaves_nothing_that_the_next_does_not_remove() {
    let home = Home::new();
    let staging = home.path().join("images/.staging");
    let mark = staging.join("root").display().to_string();
    let begin = || {
        let running = home.cofferdam(["image", "build"]).env("PATH", path()).spawn();
        eventually("mmdebstrap that has begun", || {
            staging.join("root/var/lib/dpkg").exists() || running.has_ended()
        });
        assert!(!running.has_ended(), "{}", running.so_far());
        running
    };
    let running = begin();
    running.signal(Signal::INT);
    let ran = running.wait();
    assert_eq!(ran.code, 130, "{}", ran.errors());
    assert!(ran.errors().contains("IMG-008"));
    assert!(!staging.exists());
    eventually("no mmdebstrap", || processes::with_argument(&mark).is_empty());

    let running = begin();
    running.signal(Signal::KILL);
    running.wait();
    // Nobody listens to what it had started, which ends of that.
    eventually("no mmdebstrap", || processes::with_argument(&mark).is_empty());
    assert!(staging.exists());
    home.cofferdam(["image", "prune"]).run().expect_code(0);
    assert!(!staging.exists());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(home.path().to_str().unwrap()), "{mounts}");
}

#[test]
fn a_full_disk_is_told_and_nothing_stays_on_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::new();
    let place = home.path().join("images");
    fs::create_dir(&place).unwrap();
    let disk = format!("-t tmpfs -o size=100m,mode=755 tmpfs {}", place.display());
    let words = ["image", "build", "small", "--lean", "--json"];
    let ran = elsewhere(&home, &[disk], &words);
    let said = String::from_utf8_lossy(&ran.stdout);
    let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["code"]), (&"failed".into(), &"IMG-007".into()), "{last}");
    assert!(last["remedy"].as_str().unwrap().contains("image prune"), "{last}");
}

/// Where root runs the tests, an ordinary user with ranges of ids is made up for the program
/// alone: in a mount namespace, with files of its own in place of the machine's.
#[test]
fn an_ordinary_user_makes_an_image_of_files_of_their_own() {
    let home = Home::of_ordinary_user();
    let Some(user) = home.user() else { return };
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let entry = format!("{users}tester:x:{user}:{user}::/:/bin/sh\n");
    home.make_file(&home.beside("passwd"), &entry);
    home.make_file(&home.beside("ranges"), "tester:1700000000:65536\n");
    let bind =
        |name: &str, target: &str| format!("--bind {} {target}", home.beside(name).display());
    let mounts = [
        bind("passwd", "/etc/passwd"),
        bind("ranges", "/etc/subuid"),
        bind("ranges", "/etc/subgid"),
    ];
    let ran = elsewhere(&home, &mounts, &["image", "build", "small", "--lean", "--pip", "six"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let script = "import os, six; print(six.__name__, os.environ['PYTHONPATH'])";
    let ran = home.exec(["--image", "small", "--", "python3", "-c", script]).run().expect_code(0);
    assert_eq!(ran.text(), "six /workspace\n");
    // What is made can be removed, without any range.
    home.cofferdam(["image", "remove", "small"]).run().expect_code(0);
    let left = fs::read_dir(home.path().join("images")).unwrap().map(|entry| entry.unwrap());
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

pub(crate) fn path() -> String {
    std::env::var("PATH").unwrap()
}
