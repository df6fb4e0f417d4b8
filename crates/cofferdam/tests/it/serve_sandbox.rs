//! A running job's sandbox over HTTP: files, commands, a terminal.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::agent::bash;
use crate::eventually;
use crate::served::{Served, read_until};

/// A server with a job that works until it is cancelled.
fn working() -> (Served, String) {
    let served = Served::new([bash("echo first > here; sleep 600")]);
    let job = served.submit(&json!({"task": "work"}));
    served.until_file(&job, "here");
    (served, job)
}

fn end(served: Served, job: &str) {
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(job, &["cancelled"]);
    served.stop();
}

#[test]
fn files_are_listed_read_written_moved_and_deleted() {
    let (served, job) = working();
    let at = |rest: &str| format!("/api/v1/jobs/{job}/files{rest}");
    let content: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let put = served.ask("PUT", &at("/content?path=d/x%FFy.bin"));
    let written = put.body("application/octet-stream", content.clone()).expect(200);
    assert_eq!(written["size"], 300_000);
    assert_eq!(served.ask("GET", &at("/content?path=d/x%FFy.bin")).send().body, content);

    let listed = served.ask("GET", &at("?depth=2")).expect(200);
    let entries = listed["entries"].as_array().unwrap();
    let paths: Vec<&str> = entries.iter().map(|e| e["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["d", "d/x\u{fffd}y.bin", "here"], "{listed}");
    assert_eq!(entries[1]["path_base64"], "ZC94/3kuYmlu");

    let rename = json!({"from": "here", "to": "there"});
    served.ask("POST", &at("/move")).json(&rename).expect(204);
    served.ask("POST", &at("/move")).json(&rename).refused(404, "API-004");
    assert_eq!(served.ask("GET", &at("/content?path=there")).send().text(), "first\n");
    served.ask("DELETE", &at("/content?path=d")).refused(409, "API-007");
    let deleted = served.ask("DELETE", &at("/content?path=d&recursive=true")).expect(200);
    assert_eq!(deleted["entries"], 2);

    for outside in ["/etc/passwd", "../x", "%2e%2e%2f%2e%2e%2fetc/passwd"] {
        let answer = served.ask("GET", &at(&format!("/content?path={outside}"))).send();
        assert!(answer.status == 403 || answer.status == 404, "{outside}: {}", answer.status);
        assert!(!answer.text().contains("root:"));
    }
    let link = json!({"argv": ["ln", "-s", "/etc/passwd", "link"]});
    served.ask("POST", &format!("/api/v1/jobs/{job}/exec")).json(&link).expect(200);
    let answer = served.ask("GET", &at("/content?path=link")).send();
    assert!(!answer.text().contains("root:"), "{}", answer.text());
    served.ask("GET", &at("/content?path=a%00b")).refused(400, "API-001");
    served.ask("GET", &at("/content")).refused(400, "API-001");
    end(served, &job);
}

#[test]
fn a_command_runs_beside_the_job() {
    let (served, job) = working();
    let exec = |asked: serde_json::Value| {
        served.ask("POST", &format!("/api/v1/jobs/{job}/exec")).json(&asked)
    };
    let ran = exec(json!({"command": "cat; echo err >&2; exit 3", "stdin": "in"})).expect(200);
    assert_eq!(ran["outcome"], json!({"outcome": "exited", "exit_code": 3}));
    assert_eq!((&ran["stdout"], &ran["stderr"]), (&json!("in"), &json!("err\n")));
    let ran = exec(json!({"argv": ["printf", "\\377"]})).expect(200);
    assert_eq!((&ran["stdout"], &ran["stdout_base64"]), (&json!("\u{fffd}"), &json!("/w==")));
    let ran = exec(json!({"command": "pwd", "cwd": "/tmp"})).expect(200);
    assert_eq!(ran["stdout"], "/tmp\n");
    let ran = exec(json!({"command": "sleep 60", "timeout": "300ms"})).expect(200);
    assert_eq!(ran["outcome"]["outcome"], "timed_out");
    let ran = exec(json!({"command": "yes | head -c 20000000"})).expect(200);
    assert_eq!(ran["truncated"], true);
    assert!(ran["stdout"].as_str().unwrap().len() <= 1 << 20);
    exec(json!({"argv": ["/no/such/program"]})).refused(422, "API-012");
    exec(json!({"command": "true", "timeout": "2h"})).refused(422, "API-012");
    exec(json!({})).refused(422, "API-012");
    exec(json!({"command": "true", "sandbox": "off"})).refused(400, "API-001");

    let trail = served.ask("GET", &format!("/api/v1/jobs/{job}/audit?limit=10000")).expect(200);
    assert!(trail.to_string().contains("/usr/bin/printf"), "{trail}");
    end(served, &job);
}

/// A frame from a client: masked by zeros, which changes nothing.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80 | kind];
    match u8::try_from(payload.len()) {
        Ok(short) if short < 126 => bytes.push(0x80 | short),
        _ => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(payload);
    bytes
}

/// Asks for a terminal; the answer's head, and the connection.
fn terminal(served: &Served, job: &str, headers: &[(&str, &str)]) -> (String, TcpStream) {
    let path = format!("/api/v1/jobs/{job}/terminal?cols=100&rows=30");
    let mut stream = TcpStream::connect(served.address).unwrap();
    let address = served.address;
    let mut head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let head = read_until(&mut stream, b"\r\n\r\n");
    (String::from_utf8_lossy(&head).into_owned(), stream)
}

fn terminals(served: &Served) -> String {
    let text = served.ask("GET", "/api/v1/metrics").send().text();
    let line = text.lines().find_map(|line| line.strip_prefix("cofferdam_terminals "));
    line.unwrap().to_owned()
}

#[test]
fn a_terminal_speaks_both_ways_and_ends_with_its_shell() {
    let (served, job) = working();
    // As a browser does: no header but the subprotocols.
    let offered = format!("cofferdam.terminal.v1, bearer.{}", served.token);
    let own = format!("http://{}", served.address);
    let (head, mut stream) =
        terminal(&served, &job, &[("Sec-WebSocket-Protocol", &offered), ("Origin", &own)]);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.to_lowercase().contains("sec-websocket-protocol: cofferdam.terminal.v1\r\n"));
    assert!(!head.contains("bearer"), "{head}");
    stream.write_all(&frame(2, b"stty size; echo pa''ssed\n")).unwrap();
    let said = read_until(&mut stream, b"passed\r\n");
    assert!(String::from_utf8_lossy(&said).contains("30 100"), "{said:?}");
    stream.write_all(&frame(1, br#"{"resize":{"cols":77,"rows":11}}"#)).unwrap();
    eventually("a terminal of another size", || {
        stream.write_all(&frame(2, b"stty size; echo ag''ain\n")).unwrap();
        let said = read_until(&mut stream, b"again\r\n");
        String::from_utf8_lossy(&said).contains("11 77")
    });
    assert_eq!(terminals(&served), "1");
    stream.write_all(&frame(2, b"exit 5\n")).unwrap();
    read_until(&mut stream, br#"{"ended":{"outcome":"exited","exit_code":5}}"#);
    eventually("no terminal", || terminals(&served) == "0");
    end(served, &job);
}

#[test]
fn a_terminal_is_not_for_everybody() {
    let (served, job) = working();
    let bearer = format!("Bearer {}", served.token);
    let status = |headers: &[(&str, &str)]| {
        let (head, _stream) = terminal(&served, &job, headers);
        head.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("Authorization", "Bearer x")]), 401);
    assert_eq!(status(&[("Authorization", &bearer), ("Origin", "https://evil.example")]), 403);
    assert_eq!(status(&[("Authorization", &bearer), ("Origin", "null")]), 403);
    assert_eq!(status(&[("Authorization", &bearer), ("Sec-WebSocket-Protocol", "chat")]), 400);
    let path = format!("/api/v1/jobs/{job}/terminal");
    served.ask("GET", &path).refused(426, "API-018");
    assert_eq!(terminals(&served), "0");
    end(served, &job);
}

#[test]
fn a_terminal_ends_for_whoever_floods_it_or_goes() {
    let (served, job) = working();
    let bearer = format!("Bearer {}", served.token);
    let open = || {
        let (head, stream) = terminal(&served, &job, &[("Authorization", &bearer)]);
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        eventually("a terminal", || terminals(&served) == "1");
        stream
    };

    let mut stream = open();
    let flood: Vec<u8> = (0..100_000).flat_map(|_| frame(9, b"")).collect();
    // The server may close before all is sent.
    drop(stream.write_all(&flood));
    eventually("no terminal after a flood", || terminals(&served) == "0");

    let mut stream = open();
    drop(stream.write_all(&frame(2, &vec![0; 2 << 20])));
    eventually("no terminal after a huge message", || terminals(&served) == "0");

    let mut stream = open();
    stream.write_all(&[0x82, 1, b'x']).unwrap();
    eventually("no terminal after an unmasked frame", || terminals(&served) == "0");

    drop(open());
    eventually("no terminal after its client went", || terminals(&served) == "0");
    end(served, &job);
}

#[test]
fn a_file_that_is_cut_is_not_taken_for_a_whole_one() {
    let (served, job) = working();
    let exec = served.ask("POST", &format!("/api/v1/jobs/{job}/exec"));
    let ran = exec.json(&json!({"command": "head -c 67108864 /dev/zero > big"})).expect(200);
    assert_eq!(ran["outcome"]["exit_code"], 0, "{ran}");
    let mut slow = served.ask("GET", &format!("/api/v1/jobs/{job}/files/content?path=big")).open();
    let head = read_until(&mut slow, b"\r\n\r\n");
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    // The job ends while the reader reads nothing and all buffers are full.
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    served.until(&job, &["cancelled"]);
    let mut rest = Vec::new();
    // A connection that is reset is cut too.
    drop(slow.read_to_end(&mut rest));
    assert!(rest.len() < 64 << 20, "{}", rest.len());
    assert!(!rest.ends_with(b"\r\n0\r\n\r\n"), "a part of it looks like all of it");
    served.stop();
}

#[test]
fn a_terminal_ends_with_its_token() {
    let (served, job) = working();
    let user = served.ask("GET", "/api/v1/me").expect(200)["user"]["id"].clone();
    let made = format!("/api/v1/users/{}/tokens", user.as_str().unwrap());
    let made = served.ask("POST", &made).expect(201);
    let bearer = format!("Bearer {}", made["secret"].as_str().unwrap());
    let (_, mut stream) = terminal(&served, &job, &[("Authorization", &bearer)]);
    eventually("a terminal", || terminals(&served) == "1");
    let gone = format!("/api/v1/tokens/{}", made["token"]["id"].as_str().unwrap());
    served.ask("DELETE", &gone).expect(204);
    read_until(&mut stream, b"the token is valid no more");
    eventually("no terminal", || terminals(&served) == "0");
    end(served, &job);
}

#[test]
fn a_job_that_ends_takes_its_sandbox_back() {
    let (served, job) = working();
    let bearer = format!("Bearer {}", served.token);
    let (_, mut stream) = terminal(&served, &job, &[("Authorization", &bearer)]);
    served.ask("POST", &format!("/api/v1/jobs/{job}/cancel")).expect(202);
    read_until(&mut stream, b"the job took its sandbox back");
    // The job does not wait for a client that does not say farewell.
    served.until(&job, &["cancelled"]);
    // What it left can be seen, and not changed.
    let content = format!("/api/v1/jobs/{job}/files/content?path=here");
    assert_eq!(served.ask("GET", &content).send().text(), "first\n");
    served.ask("PUT", &content).body("application/octet-stream", "x").refused(409, "API-007");
    let exec = served.ask("POST", &format!("/api/v1/jobs/{job}/exec"));
    exec.json(&json!({"command": "true"})).refused(409, "API-007");
    served.stop();
}
