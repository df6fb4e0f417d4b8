//! The commands that ask a server, when that is killed, or is none.

use std::io::{Read, Write};
use std::net::TcpListener;

use cofferdam_testkit::{Dialect, Turn};

use crate::agent::{Agent, bash, of_kind, records};
use crate::eventually;
use crate::home::Home;
use crate::invocation::Ran;
use crate::server_lab::Served;

const JOB: &str = "019a0000-0000-7000-8000-000000000000";

#[test]
fn a_follower_goes_on_when_the_server_is_killed_and_comes_back() {
    let mut served = Served::new([bash("sleep 3; echo slept"), Turn::text("slept")]);
    let following = served.command(&["submit", "--follow", "--json", "sleep"]).spawn();
    eventually("a command", || following.so_far().contains("tool_started"));
    served.kill();
    served.restart();
    let ran = following.wait().expect_code(0);
    // Each once, in order, without a gap.
    let shown = records(&ran.stdout);
    assert_eq!(of_kind(&shown, "ended").len(), 1);
    let id = shown[0]["spec"]["job"].as_str().unwrap();
    assert_eq!(served.ask(&["logs", "--json", id]).expect_code(0).text(), ran.text());
}

#[test]
fn a_server_that_this_machine_does_not_trust_gets_nothing() {
    let agent = Agent::new(Dialect::Messages, []);
    let (certificate, key) = (agent.home.beside("server.crt"), agent.home.beside("server.key"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let served = Served::with_options(agent, &["--tls-cert", certificate, "--tls-key", key]);
    assert!(served.url.starts_with("https://"), "{}", served.url);
    served.ask(&["list"]).expect_error(1, &["REM-002", "certificate"]);
    let trusting = |words: &[&str]| served.command(words).env("SSL_CERT_FILE", certificate).run();
    trusting(&["submit", "--follow", "hello"]).expect_code(0);
    // Nor is one trusted for a name that its certificate does not have.
    let url = served.url.replace("127.0.0.1", "localhost");
    trusting(&["list", "--server", &url]).expect_error(1, &["REM-002", "certificate"]);
}

/// Runs a command against a server that answers everything so.
fn against(answer: &'static [u8], words: &[&str]) -> (Home, Ran) {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // All of a small request comes at once.
            drop(stream.read(&mut [0; 4096]));
            drop(stream.write_all(answer));
        }
    });
    let place = home.make_directory("place");
    let mut invocation = home.cofferdam(words);
    invocation.command().current_dir(place);
    let ran = invocation.env("COFFERDAM_SERVER", url).env("COFFERDAM_TOKEN", "geheim").run();
    assert!(!format!("{} {}", ran.text(), ran.errors()).contains("geheim"));
    (home, ran)
}

#[test]
fn half_a_download_is_no_file() {
    for answer in [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nPK".as_slice(),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nPK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nrepr-digest: \
          sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n\r\nPK",
    ] {
        let (home, ran) = against(answer, &["download", JOB, "--out", "out.zip"]);
        ran.expect_error(1, &["REM-009"]);
        let left: Vec<_> = std::fs::read_dir(home.beside("place")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        let (_home, ran) = against(answer, &["download", JOB, "--out", "-"]);
        ran.expect_error(1, &["REM-009"]);
    }
}

#[test]
fn what_was_there_stays_until_a_download_is_whole() {
    let home = Home::new();
    let place = home.make_directory("place");
    let there = place.join("out.zip");
    std::fs::write(&there, "before").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let answers: [&[u8]; 2] = [
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole",
        ];
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            drop(stream.read(&mut [0; 4096]));
            stream.write_all(answer).unwrap();
        }
    });
    let download = || {
        let words = ["download", JOB, "--out", there.to_str().unwrap(), "--server", &url];
        home.cofferdam(words).run()
    };
    download().expect_code(1);
    assert_eq!(std::fs::read(&there).unwrap(), b"before");
    download().expect_code(0);
    assert_eq!(std::fs::read(&there).unwrap(), b"whole");
    serving.join().unwrap();
}

#[test]
fn what_a_server_says_does_not_reach_the_terminal_untamed() {
    let (_home, ran) = against(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
          {\"jobs\":[{\"id\":\"019a0000-0000-7000-8000-000000000000\",\"user\":\"u\",\
          \"title\":\"a\\u001b]0;title\\u0007\\u202eb\",\"status\":\"running\",\"paused\":false,\
          \"created\":\"\\u001b[2J\",\"priority\":0,\"turns\":0,\"tokens\":0,\"cost\":\"0\",\
          \"time_ms\":0,\"last_event\":1,\"links\":{\"self\":\"\",\"events\":\"\",\"output\":\"\",\
          \"files\":\"\"}}]}",
        &["list"],
    );
    let text = ran.expect_code(0).text();
    assert!(text.contains(JOB) && !text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
    let (_home, ran) = against(
        b"HTTP/1.1 409 X\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\r\n\
          {\"type\":\"x\",\"title\":\"\\u001b[2J\",\"status\":409,\"code\":\"API-007\",\
          \"detail\":\"\\u001b]0;x\\u0007\",\"remedy\":\"\\u202e\"}",
        &["status", JOB],
    );
    let told = ran.expect_code(1).errors();
    assert!(told.contains("API-007"), "{told}");
    assert!(!told.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{told:?}");
}

#[test]
fn what_is_no_server_of_ours_is_told() {
    let page = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>".as_slice();
    against(page, &["list"]).1.expect_error(1, &["REM-004"]);
    let moved = b"HTTP/1.1 302 Found\r\nlocation: http://other.example/\r\n\
        content-length: 0\r\n\r\n";
    against(moved, &["list"]).1.expect_error(1, &["REM-004", "other.example"]);
}

#[test]
fn no_server_is_told_with_how_to_start_one() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ask = |words: &[&str]| home.cofferdam(words).words(["--server", &url]).run();
    ask(&["list"]).expect_error(1, &["REM-001", &url, "cofferdam serve"]);
    let json = ask(&["submit", "x", "--json"]).expect_code(1);
    assert!(json.text().contains("\"code\":\"REM-001\""), "{}", json.text());
    let words = ["list", "--server", "http://192.0.2.1:8000"];
    let ran = home.cofferdam(words).env("COFFERDAM_TOKEN", "geheim").run();
    ran.expect_error(2, &["REM-006", "--insecure"]);
    home.cofferdam(["list", "--server", "https://192.0.2.1"]).run().expect_error(2, &["REM-005"]);
}
