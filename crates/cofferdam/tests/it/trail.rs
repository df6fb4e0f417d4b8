//! `--audit`: what a command did can be read afterwards.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use crate::home::Home;

fn acts(home: &Home, options: &[&str], script: &str) -> Vec<Value> {
    let trail = home.beside("trail");
    let mut words = vec!["--audit", trail.to_str().unwrap()];
    words.extend(options);
    home.shell(&words, script).expect_code(0);
    let text = std::fs::read_to_string(trail).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records
        .map(|record| {
            assert!(record["at_us"].as_u64().is_some(), "{record}");
            record["act"].clone()
        })
        .collect()
}

#[track_caller]
fn expect(acts: &[Value], kind: &str, key: &str, value: &str) {
    assert!(acts.iter().any(|act| act[kind][key] == value), "no {kind} {value} in {acts:#?}");
}

#[test]
fn programs_files_and_connections_are_listed() {
    listed(&Home::new());
}

pub(crate) fn listed(home: &Home) {
    let workspace = home.make_directory("workspace");
    home.make_file(&workspace.join("there"), "x");
    let script =
        "echo x > made; mv made renamed; rm there; mkdir d; ln -s x link; /usr/bin/env true
        /usr/bin/python3 -c 'import socket
try: socket.create_connection((\"192.0.2.7\", 4711), 5)
except OSError: pass'";
    let acts = acts(home, &["--workspace", workspace.to_str().unwrap()], script);
    expect(&acts, "executed", "path", "/usr/bin/env");
    expect(&acts, "opened_for_writing", "path", "/workspace/made");
    expect(&acts, "renamed", "from", "/workspace/made");
    expect(&acts, "renamed", "to", "/workspace/renamed");
    expect(&acts, "deleted", "path", "/workspace/there");
    expect(&acts, "created", "path", "/workspace/d");
    expect(&acts, "created", "path", "/workspace/link");
    expect(&acts, "connected", "address", "192.0.2.7:4711");
}

#[test]
fn a_connection_that_is_open_when_the_command_ends_is_listed_with_its_bytes() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // It holds the connection until the test is over.
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut secret = [0; 10];
        stream.read_exact(&mut secret).unwrap();
        stream.write_all(b"k").unwrap();
        (stream, secret)
    });
    let script = format!(
        "/usr/bin/python3 -c 'import socket
s = socket.create_connection((\"127.0.0.1\", 3128), 20)
s.sendall(b\"CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n\")
head = b\"\"
while not head.endswith(b\"\\r\\n\\r\\n\"): head += s.recv(1)
s.sendall(b\"0123456789\")
assert s.recv(1) == b\"k\"'"
    );
    let acts = acts(&home, &["--network", &format!("allow:127.0.0.1:{port}")], &script);
    let egress: Vec<&Value> = acts.iter().filter_map(|act| act.get("egress")).collect();
    let expected = serde_json::json!({
        "host": "127.0.0.1", "port": port, "verdict": "allowed, ended with the sandbox",
        "sent": 10, "received": 1,
    });
    assert_eq!(egress, [&expected]);
    let (_held, secret) = server.join().unwrap();
    assert_eq!(&secret, b"0123456789");
}

#[test]
fn hostile_names_do_not_break_the_lines() {
    let home = Home::new();
    let script = r#"touch "$(printf 'a\nb\033[2J\377"')""#;
    let acts = acts(&home, &[], script);
    let named = |act: &Value| {
        let path = act["opened_for_writing"]["path"].as_str();
        path.is_some_and(|path| path.starts_with("/workspace/a\nb\u{1b}[2J"))
    };
    assert!(acts.iter().any(named), "{acts:#?}");
}

#[test]
fn a_run_that_never_begins_leaves_the_old_trail_as_it_is() {
    let home = Home::new();
    let trail = home.beside("trail");
    let long = "an earlier trail\n".repeat(10_000);
    home.make_file(&trail, &long);
    let trail = trail.to_str().unwrap();
    let missing = home.beside("missing");
    let words = ["--audit", trail, "--workspace", missing.to_str().unwrap(), "--", "true"];
    home.exec(words).run().expect_error(125, &["SBX-004"]);
    assert_eq!(std::fs::read_to_string(trail).unwrap(), long);
    home.exec(["--audit", trail, "--", "true"]).run().expect_code(0);
    let text = std::fs::read_to_string(trail).unwrap();
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
}

#[test]
fn a_trail_is_written_whatever_became_of_the_command() {
    let home = Home::new();
    let trail = home.beside("trail");
    let trail = trail.to_str().unwrap();
    for (words, code) in [
        (&["--timeout", "300ms", "--", "sh", "-c", "/usr/bin/touch x; sleep 1000"][..], 124),
        (&["--", "sh", "-c", "/usr/bin/touch x; kill -9 $$"], 137),
    ] {
        home.exec(["--audit", trail]).words(words).run().expect_code(code);
        assert!(std::fs::read_to_string(trail).unwrap().contains("/usr/bin/touch"), "{words:?}");
    }
    home.exec(["--audit", trail, "--", "frobnicate"]).run().expect_code(127);
    assert!(!std::fs::read_to_string(trail).unwrap().contains("/usr/bin/touch"));
}
