//! The sample tasks of the README, done by the demo model with real tools; what
//! it makes is run for real.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::agent::{of_kind, records};
use crate::eventually;
use crate::home::Home;
use crate::invocation::Ran;

/// Runs a task with the demo model in a new directory.
fn demo(home: &Home, words: &[&str]) -> (PathBuf, Ran) {
    let workspace = home.beside("work");
    let mut run = home.cofferdam(["run", "--model", "demo", "--workspace"]);
    run.command().arg(&workspace).env("HOME", home.beside("user"));
    (workspace, run.words(words).run())
}

fn python(script: &Path, arguments: &[&str]) -> String {
    let ran = Command::new("python3")
        .arg(script)
        .args(arguments)
        .current_dir(script.parent().unwrap())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn hello_world() {
    let home = Home::new();
    let (workspace, ran) = demo(&home, &["Write a hello world script in Python"]);
    ran.expect_code(0);
    let mut files = std::fs::read_dir(&workspace).unwrap().map(|file| file.unwrap().path());
    let script = files.find(|path| path.extension().is_some_and(|kind| kind == "py"));
    assert!(python(&script.unwrap(), &[]).to_lowercase().contains("hello"));
}

#[test]
fn csv_filter_fails_first_and_is_repaired() {
    csv_filter(&Home::new());
}

#[test]
fn an_ordinary_user_gets_the_same() {
    csv_filter(&Home::of_ordinary_user());
}

fn csv_filter(home: &Home) {
    let zip = home.beside("csv.zip");
    let words = [
        "--json",
        "--check",
        "python3 -m unittest -q",
        "--out",
        zip.to_str().unwrap(),
        "Write a CSV filter with sample data and tests",
    ];
    let (workspace, ran) = demo(home, &words);
    let ran = ran.expect_code(0);
    let records = records(&ran.stdout);
    let ended = of_kind(&records, "tool_ended");
    assert!(ended.iter().any(|record| record["output"]["status"] == "failed"));
    let last: &Value = records.last().unwrap();
    assert_eq!(last["ending"]["verified"], true, "{last}");
    assert!(zip.is_file());
    // As numbers 119.00 is more than 20, and as text it is less.
    let data = workspace.join("products.csv");
    let found = python(&workspace.join("csv_filter.py"), &[data.to_str().unwrap(), "price<20"]);
    assert!(found.contains("Pencil") && !found.contains("119.00"), "{found}");
    assert!(std::fs::read_to_string(data).unwrap().contains("119.00"));
}

#[test]
fn health_api_is_started_and_asked() {
    let home = Home::new();
    let (workspace, ran) = demo(&home, &["--json", "Build a Flask API with a /health endpoint"]);
    let ran = ran.expect_code(0);
    // Also that it was stopped again.
    for ended in of_kind(&records(&ran.stdout), "tool_ended") {
        assert_eq!(ended["output"]["status"], "done", "{ended}");
    }
    // On a port of its own, here on the host.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::start(&workspace.join("app.py"), port);
    let mut answer = String::new();
    eventually("an answer", || {
        answer = ask(port).unwrap_or_default();
        !answer.is_empty()
    });
    drop(server);
    assert!(answer.starts_with("HTTP/1.") && answer.contains(" 200 "), "{answer}");
    assert!(answer.to_lowercase().contains("ok"), "{answer}");
}

struct Server(Child);

impl Server {
    fn start(script: &Path, port: u16) -> Self {
        let child = Command::new("python3")
            .arg(script)
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn ask(port: u16) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.write_all(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn todo_app_is_written_by_the_coder() {
    let home = Home::new();
    let (workspace, ran) = demo(&home, &["--json", "Build me a todo app"]);
    let ran = ran.expect_code(0);
    assert_eq!(of_kind(&records(&ran.stdout), "delegated").len(), 1);
    let page = std::fs::read_to_string(workspace.join("index.html")).unwrap();
    assert!(page.contains("localStorage") && page.contains("<html"), "no page");
}

#[test]
fn any_other_task_is_declined_plainly() {
    let home = Home::new();
    let (_, ran) = demo(&home, &["Prove the Riemann hypothesis"]);
    ran.expect_error(1, &["demo", "ANTHROPIC_API_KEY"]);
}
