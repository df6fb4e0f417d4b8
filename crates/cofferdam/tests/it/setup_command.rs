//! `cofferdam setup`: what it says, installs, and leaves when it fails or is stopped.

use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cofferdam_testkit::SetUp;
use rustix::process::Signal;
use serde_json::Value;

use crate::eventually;
use crate::home::Home;
use crate::invocation::{Invocation, Ran};

/// `cofferdam setup` with the machine's own settings for pip and npm.
fn setup(home: &Home, words: &[&str]) -> Invocation {
    let mut invocation = home.cofferdam(["setup"]);
    invocation.command().envs(std::env::vars_os()).env("COFFERDAM_HOME", home.path());
    invocation.words(words)
}

/// Everything that is set up is there.
fn with_all_parts() -> Home {
    let home = Home::new();
    home.set_up_cells();
    home
}

/// What is in the prefix beside the lock.
fn left(home: &Home) -> Vec<String> {
    let Ok(entries) = home.path().join("prefix").read_dir() else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".lock").collect()
}

fn events(ran: &Ran) -> Vec<Value> {
    ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn an_empty_home_lacks_parts_and_a_check_makes_none() {
    let home = Home::new();
    let ran = setup(&home, &["--check", "--json"]).run().expect_code(1);
    let checked: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(checked["complete"], false);
    assert_eq!(checked["prefix"], home.path().join("prefix").to_str().unwrap());
    let parts = checked["parts"].as_array().unwrap();
    let named: Vec<&str> = parts.iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!(named, ["python", "typescript", "viewer"]);
    for part in parts {
        let (path, remedy) = (&part["path"], &part["remedy"]);
        assert_ne!(path.is_null(), remedy.is_null(), "{part}");
        assert_ne!(part["origin"], "prefix", "{part}");
    }
    // No machine has this one.
    assert_eq!(parts[2]["remedy"], "install it: cofferdam setup viewer");
    let text = setup(&home, &["--check", "viewer"]).run().expect_code(1).text();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("viewer") && lines[0].ends_with("missing"), "{text}");
    assert_eq!(lines[1], "! install it: cofferdam setup viewer");
    assert!(!home.path().join("prefix").exists());
}

#[test]
fn what_is_no_part_is_wrong_usage() {
    let home = Home::new();
    let words = ["there is no part \"perl\", only python, typescript, viewer"];
    setup(&home, &["perl"]).run().expect_error(2, &words);
    setup(&home, &["--check", "--prune"]).run().expect_code(2);
}

#[test]
fn a_part_is_installed_and_then_found() {
    let home = Home::new();
    let ran = setup(&home, &["viewer"]).run().expect_code(0);
    let errors = ran.errors();
    for word in ["viewer: look for", "viewer: install packages", "viewer is ready: "] {
        assert!(errors.contains(word), "{word} is not in: {errors}");
    }
    let parts = left(&home);
    let [place] = &parts[..] else { panic!("{parts:?}") };
    let text = ran.text();
    assert!(text.starts_with("viewer") && text.trim_end().ends_with(place), "{text}");
    let ran = setup(&home, &["--check", "--json", "viewer"]).run().expect_code(0);
    let checked: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(checked["complete"], true);
    assert_eq!(checked["parts"][0]["origin"], "prefix");
    // Other parts are still missing.
    let missing = setup(&home, &["--check", "--json"]).run();
    let checked: Value = serde_json::from_slice(&missing.stdout).unwrap();
    let parts = checked["parts"].as_array().unwrap();
    assert!(parts.iter().all(|part| part["part"] == "viewer" || part["origin"] != "prefix"));

    // What an earlier release left goes when that is asked for.
    let old = home.path().join("prefix/viewer-0123456789abcdef");
    std::fs::create_dir(&old).unwrap();
    let ran = setup(&home, &["--prune", "--json", "viewer"]).run().expect_code(0);
    let events = events(&ran);
    assert_eq!(names(&events), ["begun", "already_there", "ended"]);
    assert_eq!(events[2]["removed"][0], old.to_str().unwrap());
    assert_eq!(events[2]["parts"][0]["part"], "viewer");
    assert!(!old.exists() && left(&home).len() == 1);
}

#[test]
fn what_is_all_there_stays_and_the_doctor_sees_it() {
    let home = with_all_parts();
    let text = setup(&home, &["--check"]).run().expect_code(0).text();
    assert!(!text.contains("missing") && !text.contains('!'), "{text}");
    let ran = setup(&home, &["--json"]).run().expect_code(0);
    let events = events(&ran);
    let expected = ["begun", "already_there", "already_there", "already_there", "ended"];
    assert_eq!(names(&events), expected);
    let ran = home.cofferdam(["doctor", "--json"]).run().expect_code(0);
    let findings: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let shared = SetUp::for_tests().unwrap().prefix;
    for part in ["python", "typescript", "viewer", "JupyterLab"] {
        let provisions = findings["provisions"].as_array().unwrap();
        let fact = provisions.iter().find(|fact| fact["part"] == part).unwrap();
        assert!(fact["value"].as_str().unwrap().starts_with(shared.to_str().unwrap()), "{fact}");
        assert_eq!(fact["weakness"], Value::Null);
    }
}

/// A port of this machine at which nobody listens.
fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

#[test]
fn without_a_registry_it_says_why_and_leaves_nothing() {
    let home = Home::new();
    let offline = |words: &[&str]| {
        setup(&home, words)
            .env("PIP_INDEX_URL", closed())
            .env("PIP_NO_INDEX", "0")
            .env("PIP_FIND_LINKS", "")
            // Without a second try pip does not say why the first one failed.
            .env("PIP_RETRIES", "1")
            .env("PIP_CONFIG_FILE", "/dev/null")
            .env("npm_config_registry", closed())
            .env("npm_config_userconfig", "/dev/null")
    };
    let said = ["error[SET-002]: a part could not be installed", "python: cannot install packages"];
    let ran = offline(&["python"]).run().expect_error(1, &said);
    let errors = ran.errors();
    assert!(errors.contains("help:  a package registry has to be reachable once"), "{errors}");
    assert_eq!(ran.text(), "");
    assert_eq!(left(&home), Vec::<String>::new());

    let ran = offline(&["typescript", "--json"]).run().expect_code(1);
    let events = events(&ran);
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["code"]), (&"failed".into(), &"SET-002".into()));
    assert!(last["remedy"].as_str().unwrap().contains("npm config get registry"), "{last}");
    assert_eq!(left(&home), Vec::<String>::new());
}

/// Takes connections and answers none, until it is dropped.
struct Silent {
    url: String,
    asked: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Silent {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (asked, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (told, ends) = (Arc::clone(&asked), Arc::clone(&over));
        let held = Mutex::new(Vec::new());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                if let Ok((mut connection, _)) = listener.accept() {
                    let mut byte = [0];
                    connection.set_nonblocking(false).unwrap();
                    if matches!(connection.read(&mut byte), Ok(1)) {
                        told.store(true, Ordering::Relaxed);
                    }
                    held.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        Self { url, asked, over, thread: Some(thread) }
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[test]
fn ctrl_c_ends_it_and_everything_that_it_started() {
    let registry = Silent::new();
    let home = Home::new();
    let running = setup(&home, &["python", "--json"])
        .env("PIP_INDEX_URL", &registry.url)
        .env("PIP_FIND_LINKS", "")
        .env("PIP_CONFIG_FILE", "/dev/null")
        .spawn();
    eventually("pip that asks", || registry.asked.load(Ordering::Relaxed));
    assert_eq!(left(&home).len(), 1, "it is under way");
    running.signal(Signal::INT);
    let ran = running.wait().expect_code(130);
    let events = events(&ran);
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["code"]), (&"failed".into(), &"SET-005".into()));
    let steps: Vec<&str> = events.iter().filter_map(|event| event["step"].as_str()).collect();
    assert_eq!(steps, ["look", "environment", "packages"]);
    assert_eq!(left(&home), Vec::<String>::new());
    // That no process of it is left is checked when the home goes.
}
