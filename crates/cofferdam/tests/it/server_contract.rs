//! The API held against its own document by schemathesis, a fuzzer from PyPI.
//!
//! It is installed once, below `target`. What it may draw on is in
//! `tests/schemathesis`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam_testkit::Turn;
use serde_json::json;

use crate::agent::bash;
use crate::eventually;
use crate::served::Served;

/// Newer ones have other checks and other options.
const VERSION: &str = "4.32.5";

/// The program, installed if it is not there yet.
fn schemathesis() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_cofferdam")).ancestors().nth(2).unwrap();
    let place = target.join(format!("schemathesis-{VERSION}"));
    let program = place.join("bin/schemathesis");
    // Two runs of the tests at once install it once.
    let lock = File::create(target.join("schemathesis.lock")).unwrap();
    lock.lock().unwrap();
    if !place.join("complete").exists() {
        drop(std::fs::remove_dir_all(&place));
        done(Command::new("python3").args(["-m", "venv"]).arg(&place));
        let wanted = format!("schemathesis=={VERSION}");
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wanted];
        done(Command::new(place.join("bin/python")).args(pip));
        std::fs::write(place.join("complete"), "").unwrap();
    }
    program
}

#[track_caller]
fn done(command: &mut Command) {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success(),
        "{command:?} failed: {said}\nhelp: python3 with venv, and PyPI or a mirror of it that pip \
         is configured for, are needed once"
    );
}

#[test]
fn the_server_does_what_its_document_says() {
    let schemathesis = schemathesis();
    let cell = Turn::call("python", json!({"code": "1"}));
    let served = Served::new([cell, bash("touch here gone moving; sleep 600")]);
    served.home().set_up_cells();
    let running = served.submit(&json!({"task": "work"}));
    let spare = served.submit(&json!({"task": "work, and be stopped"}));
    let filmed = served.submit(&json!({"task": "work, and have been filmed"}));
    for job in [&running, &spare, &filmed] {
        served.until_file(job, "moving");
    }
    record(&served, &filmed);
    served.ask("DELETE", &film(&filmed)).expect(200);
    record(&served, &running);
    // The first time takes longer than a request of the fuzzer's may.
    served.ask("POST", &format!("/api/v1/jobs/{running}/lab")).expect(200);
    let complete = served.submit(&json!({"task": "Run: touch here", "model": "demo"}));
    served.until(&complete, &["complete"]);
    let me = served.ask("GET", "/api/v1/me").expect(200);
    let tokens = format!("/api/v1/users/{}/tokens", me["user"]["id"].as_str().unwrap());
    let token = served.ask("POST", &tokens).expect(201);

    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis");
    let place = served.home().make_directory("schemathesis");
    let ran = Command::new("timeout")
        .args(["--kill-after=5", "240"])
        .arg(schemathesis)
        .arg("--config-file")
        .arg(ours.join("schemathesis.toml"))
        .arg("run")
        .arg(format!("http://{}/api/v1/openapi.json", served.address))
        .args(["--header", &format!("Authorization: Bearer {}", served.token)])
        .args(["--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "6"])
        // One worker: Python 3.11 parses in one thread at a time, or fails.
        .args(["--seed", "4", "--workers", "1", "--request-timeout", "30"])
        // How easily examples are found is no matter of the server's.
        .args(["--suppress-health-check", "all", "--continue-on-failure", "--no-color"])
        .current_dir(place)
        .env("PYTHONPATH", &ours)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("COFFERDAM_RUNNING", &running)
        .env("COFFERDAM_SPARE", &spare)
        .env("COFFERDAM_FILMED", &filmed)
        .env("COFFERDAM_COMPLETE", &complete)
        .env("COFFERDAM_TOKEN_ID", token["token"]["id"].as_str().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    eprintln!("{said}");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // All of it was asked but the document itself, and the job that the others needed
    // has gone on.
    let document = served.ask("GET", "/api/v1/openapi.json").expect(200);
    let items = document["paths"].as_object().unwrap().values();
    let operations: usize = items.map(|item| item.as_object().unwrap().len()).sum();
    assert!(said.contains(&format!("Tested: {}\n", operations - 1)), "{operations}");
    let job = served.ask("GET", &format!("/api/v1/jobs/{running}")).expect(200);
    assert_eq!(job["status"], "running");
    stop_all(&served);
    served.stop();
}

fn film(job: &str) -> String {
    format!("/api/v1/jobs/{job}/desktop/recording")
}

/// Begins a recording: when that is answered, there is a picture in it.
fn record(served: &Served, job: &str) {
    served.ask("POST", &format!("/api/v1/jobs/{job}/desktop")).expect(200);
    served.ask("POST", &film(job)).expect(200);
}

/// Stops every job there is: nobody will come for their sandboxes.
fn stop_all(served: &Served) {
    eventually("the end of all jobs", || {
        let page = served.ask("GET", "/api/v1/jobs?status=pending,running&limit=200").expect(200);
        let jobs = page["jobs"].as_array().unwrap();
        for job in jobs {
            let path = format!("/api/v1/jobs/{}/cancel", job["id"].as_str().unwrap());
            // One may be over just now.
            let status = served.ask("POST", &path).send().status;
            assert!([202, 409].contains(&status), "{status}");
        }
        jobs.is_empty()
    });
}
