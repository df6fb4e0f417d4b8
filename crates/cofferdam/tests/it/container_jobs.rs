//! The sample tasks on every back end: done alike, and told alike.

use std::path::Path;
use std::time::{Duration, Instant};

use cofferdam_model_script::Demo;
use cofferdam_sandbox::Backend;
use cofferdam_sandbox_oci::Kind;
use cofferdam_testkit::{DockerDaemon, plain_environment, podman_environment};
use rustix::process::Signal;
use serde_json::Value;

use crate::agent::records;
use crate::eventually;
use crate::home::Home;
use crate::invocation::Invocation;

/// How long a job may be in the dark about an engine that is gone.
const IN_THE_DARK: Duration = Duration::from_secs(10);

/// A task on a back end, in a directory of its own.
fn task(
    home: &Home,
    backend: &str,
    environment: &[(String, String)],
    words: &[&str],
) -> Invocation {
    let mut run = home.cofferdam(["run", "--model", "demo", "--json", "--sandbox", backend]);
    run.command().args(words).envs(variables(environment)).env("HOME", home.beside("user"));
    run
}

/// Runs a sample task on a back end; returns its events.
fn sample(home: &Home, backend: &str, environment: &[(String, String)], words: &str) -> Vec<Value> {
    let place = home.beside(backend);
    let place = place.to_str().unwrap();
    let mut all = vec!["--workspace", place];
    if words.contains("tests") {
        all.extend(["--check", "python3 -m unittest -q"]);
    }
    all.push(words);
    let ran = task(home, backend, environment, &all).run().expect_code(0);
    crate::tell(&format!("{words} on {backend}: {:?}", ran.elapsed));
    std::fs::remove_dir_all(place).unwrap();
    records(&ran.stdout)
}

/// Of an engine's variables those that the product passes on to it.
fn variables(environment: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    let passed_on = environment.iter().filter(|(name, _)| name != "HOME" && name != "PATH");
    passed_on.map(|(name, value)| (name.as_str(), value.as_str()))
}

/// What is left of events when times, ids, measures and the names of places are taken away.
/// Calls that ran side by side end in any order. That a server listens, or does no more, is
/// looked for now and then, and may be over before it is seen.
fn shape(records: &[Value]) -> Vec<Value> {
    let seen_in_time = |record: &&Value| record["event"] != "listening";
    let records = records.iter().filter(seen_in_time);
    let mut shape: Vec<Value> = records.map(without_circumstances).collect();
    let ended = |event: &Value| event["event"] == "tool_ended";
    for run in shape.chunk_by_mut(|one, next| ended(one) && ended(next)) {
        run.sort_by_key(|event| event["call"].as_u64());
    }
    shape
}

fn without_circumstances(value: &Value) -> Value {
    const CIRCUMSTANCES: &[&str] = &[
        "at",
        "backend",
        "cpu",
        "duration",
        // How strong a back end is is its own.
        "grade",
        "id",
        "isolation",
        "job",
        "peak_memory",
        "sandbox",
        "seq",
        "time",
        // Counted of texts, which tell times.
        "tokens",
        "took_ms",
        "usage",
        "workspace",
    ];
    match value {
        Value::Object(fields) => {
            let told = |name: &str| !CIRCUMSTANCES.iter().any(|word| name.starts_with(word));
            let fields = fields.iter().filter(|(name, _)| told(name));
            fields.map(|(name, value)| (name.clone(), without_circumstances(value))).collect()
        }
        Value::Array(values) => values.iter().map(without_circumstances).collect(),
        Value::String(text) => Value::String(without_measures(text)),
        other => other.clone(),
    }
}

/// The time that tests took is nobody's promise, nor is when a server says that it listens, nor
/// its note of a request: when that was, and the length of an answer that tells the time.
fn without_measures(text: &str) -> String {
    let server = |line: &&str| line.starts_with("listening on ") || line.contains(" - - [");
    let lines = text.split_inclusive('\n').filter(|line| !server(line));
    let words = lines.flat_map(|line| line.split_inclusive(char::is_whitespace)).map(|word| {
        let number = word.trim_end().trim_end_matches([',', 's']);
        if number.contains('.') && number.parse::<f64>().is_ok() { "N " } else { word }
    });
    words.collect()
}

/// Why there is no runsc to make sandboxes with, if there is none.
pub(crate) fn no_runsc() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("runsc's sandboxes need root".to_owned());
    }
    let place = tempfile::tempdir().unwrap();
    let facts = cofferdam_sandbox_oci::backend(Kind::Runsc, place.path().join("home")).examine();
    let why = facts.into_iter().find_map(|fact| fact.weakness)?;
    Some(format!("there is no runsc that will do: {why}"))
}

#[test]
fn whoever_requires_a_kernel_of_its_own_gets_one() {
    let home = Home::new();
    let asked = || home.exec(["--require", "virtual", "--", "cat", "/proc/version"]).run();
    match no_runsc() {
        // What would do is named, and nothing less is taken.
        Some(_) => drop(asked().expect_error(125, &["SBX-002", "runsc"])),
        None => {
            let inside = asked().expect_code(0);
            let outside = std::fs::read_to_string("/proc/version").unwrap();
            assert_ne!(inside.text().trim(), outside.trim());
            let words = ["--require", "bounded", "--", "cat", "/proc/version"];
            assert_eq!(home.exec(words).run().expect_code(0).text(), outside);
        }
    }
}

#[test]
fn sample_tasks_are_done_alike_on_every_back_end() {
    if !rustix::process::geteuid().is_root() {
        crate::tell("skipped: containers of docker, crun and runc need root");
        return;
    }
    let home = Home::new();
    let engines = home.make_directory("engines");
    let docker =
        DockerDaemon::start(&place(&engines, "docker"), &["--userns-remap=nobody:nogroup"])
            .unwrap();
    let podman = podman_environment(&place(&engines, "podman")).unwrap();
    for words in Demo::sample_tasks() {
        let native = shape(&sample(&home, "native", &[], words));
        assert!(native.len() > 5, "{native:?}");
        for kind in Kind::ALL {
            if kind == Kind::Runsc
                && let Some(why) = no_runsc()
            {
                crate::tell(&format!("skipped: {why}"));
                continue;
            }
            let environment = match kind {
                Kind::Docker => docker.environment(),
                Kind::Podman => podman.clone(),
                _ => plain_environment(&engines),
            };
            let name = kind.name();
            let events = sample(&home, name, &environment, words);
            let opened = serde_json::to_string(&events).unwrap();
            assert!(opened.contains(&format!("\"{name}\"")), "{opened}");
            let events = shape(&events);
            for (event, expected) in events.iter().zip(&native) {
                assert_eq!(event, expected, "{words} on {name}");
            }
            assert_eq!(events.len(), native.len(), "{words} on {name}");
        }
    }
}

#[test]
fn a_job_whose_engine_stops_ends_in_time_and_says_why() {
    if !rustix::process::geteuid().is_root() {
        crate::tell("skipped: docker's containers need root");
        return;
    }
    let home = Home::new();
    let engines = home.make_directory("engines");
    let mut docker = DockerDaemon::start(&engines, &[]).unwrap();
    let environment = docker.environment();
    let workspace = home.make_directory("work");
    let words = ["--workspace", workspace.to_str().unwrap(), "Run: sleep 1000"];
    let job = task(&home, "docker", &environment, &words).spawn();
    eventually("a call", || job.so_far().contains("tool_started"));
    let begun = Instant::now();
    docker.end(Signal::TERM).unwrap();
    let ran = job.wait().expect_code(6);
    assert!(begun.elapsed() < IN_THE_DARK, "{:?}", begun.elapsed());
    let records = records(&ran.stdout);
    let ending = &records.last().unwrap()["ending"];
    assert_eq!(ending["how"], "sandbox_unavailable", "{ending}");
    assert!(ending["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{ending}");
}

fn place(engines: &Path, name: &str) -> std::path::PathBuf {
    let place = engines.join(name);
    std::fs::create_dir(&place).unwrap();
    place
}
