//! The sample task of the README on every back end: done alike, and told alike.

use std::path::Path;

use cofferdam_testkit::{DockerDaemon, plain_environment, podman_environment};
use serde_json::Value;

use crate::agent::records;
use crate::home::Home;
use crate::invocation::Ran;

/// Runs the task on a back end; returns its events.
fn csv_filter(home: &Home, backend: &str, environment: &[(String, String)]) -> Vec<Value> {
    let workspace = home.beside(backend);
    let mut run = home.cofferdam(["run", "--model", "demo", "--json", "--sandbox", backend]);
    run.command().arg("--workspace").arg(&workspace).envs(variables(environment));
    run.command().env("HOME", home.beside("user"));
    let words =
        ["--check", "python3 -m unittest -q", "Write a CSV filter with sample data and tests"];
    let ran: Ran = run.words(words).run().expect_code(0);
    let records = records(&ran.stdout);
    assert_eq!(records.last().unwrap()["ending"]["verified"], true);
    assert!(workspace.join("csv_filter.py").exists());
    records
}

/// Of an engine's variables those that the product passes on to it.
fn variables(environment: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    let passed_on = environment.iter().filter(|(name, _)| name != "HOME" && name != "PATH");
    passed_on.map(|(name, value)| (name.as_str(), value.as_str()))
}

/// What is left of events when times, ids, measures and the names of places are taken away.
/// Calls that ran side by side end in any order.
fn shape(records: &[Value]) -> Vec<Value> {
    let mut shape: Vec<Value> = records.iter().map(without_circumstances).collect();
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
        "id",
        "isolation",
        "job",
        "peak_memory",
        "sandbox",
        "seq",
        "time",
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

/// The time that tests took is nobody's promise.
fn without_measures(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        let number = word.trim_end().trim_end_matches('s');
        if number.contains('.') && number.parse::<f64>().is_ok() { "N " } else { word }
    });
    words.collect()
}

#[test]
fn a_task_is_done_alike_on_every_back_end() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: containers of docker, crun and runc need root");
        return;
    }
    let home = Home::new();
    let engines = home.make_directory("engines");
    let docker =
        DockerDaemon::start(&place(&engines, "docker"), &["--userns-remap=nobody:nogroup"])
            .unwrap();
    let native = shape(&csv_filter(&home, "native", &[]));
    assert!(native.len() > 10, "{native:?}");
    for (backend, environment) in [
        ("docker", docker.environment()),
        ("podman", podman_environment(&place(&engines, "podman")).unwrap()),
        ("crun", plain_environment(&engines)),
        ("runc", plain_environment(&engines)),
    ] {
        let events = csv_filter(&home, backend, &environment);
        let opened = serde_json::to_string(&events).unwrap();
        assert!(opened.contains(&format!("\"{backend}\"")), "{opened}");
        let events = shape(&events);
        for (event, expected) in events.iter().zip(&native) {
            assert_eq!(event, expected, "on {backend}");
        }
        assert_eq!(events.len(), native.len(), "on {backend}");
    }
}

fn place(engines: &Path, name: &str) -> std::path::PathBuf {
    let place = engines.join(name);
    std::fs::create_dir(&place).unwrap();
    place
}
