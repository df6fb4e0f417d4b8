//! One record a connection, whatever becomes of it.

use std::io::Write as _;
use std::net::Shutdown;
use std::time::Duration;

use cofferdam_egress::{ServeError, Settings};

use crate::harness::{Harness, PATIENCE, Script, Server, read_all, read_until, wait_for};

#[test]
fn every_connection_leaves_exactly_one_record() {
    let server = Server::echo();
    let port = server.port;
    let mut harness = Harness::start(&format!("web.test:{port},127.0.0.1:{port}"));

    drop(harness.tunnel(&format!("web.test:{port}")));
    assert_eq!(harness.record(), ("web.test".into(), port, "allowed".into(), 0, 0));

    harness.tunnel("denied.test:443");
    let verdict = "denied: the host is not in the allow-list".to_owned();
    assert_eq!(harness.record(), ("denied.test".into(), 443, verdict, 0, 0));

    harness.tunnel("web.test:443");
    let verdict = "denied: the host is in the allow-list, but not with this port".to_owned();
    assert_eq!(harness.record(), ("web.test".into(), 443, verdict, 0, 0));

    harness.tunnel("10.0.0.1:443");
    let verdict = "denied: the address is not in the allow-list".to_owned();
    assert_eq!(harness.record(), ("10.0.0.1".into(), 443, verdict, 0, 0));

    harness.tunnel("web.test.:443");
    let verdict = "denied: it is not spelled as a host name or an address".to_owned();
    assert_eq!(harness.record(), ("web.test.".into(), 443, verdict, 0, 0));

    harness.ask("nonsense\r\n\r\n");
    let verdict = "malformed: this is not an HTTP/1 request".to_owned();
    assert_eq!(harness.record(), (String::new(), 0, verdict, 0, 0));

    harness.connect().shutdown(Shutdown::Both).unwrap();
    let verdict = "malformed: nothing was asked for".to_owned();
    assert_eq!(harness.record(), (String::new(), 0, verdict, 0, 0));

    assert!(!harness.has_record());
    let summary = harness.stop().unwrap();
    assert_eq!((summary.connections, summary.unrecorded), (7, 0));
}

#[test]
fn what_was_carried_to_an_allowed_host_is_never_told_as_refused() {
    // It has read the request's head and a chunk when it hears what is wrong.
    let (heard, hears) = std::sync::mpsc::channel();
    let server = Server::start(move |mut stream| {
        read_until(&mut stream, b"data\r\n");
        heard.send(()).unwrap();
        read_all(&mut stream);
    });
    let port = server.port;
    let mut harness = Harness::start(&format!("127.0.0.1:{port}"));
    let mut stream = harness.connect();
    write!(
        stream,
        "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n"
    )
    .unwrap();
    hears.recv_timeout(PATIENCE).unwrap();
    stream.write_all(b"nonsense\r\n").unwrap();
    let answer = read_all(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    drop(stream);
    let (host, _, verdict, sent, received) = harness.record();
    assert_eq!(verdict, "allowed, ended: the chunked body is malformed");
    assert!(host == "127.0.0.1" && sent > 60 && received == 0, "{sent} {received}");

    let server = Server::start(|mut stream| drop(read_until(&mut stream, b"\r\n\r\n")));
    let port = server.port;
    let mut harness = Harness::start(&format!("127.0.0.1:{port}"));
    let answer = harness.ask(format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let (_, _, verdict, sent, _) = harness.record();
    let why = "the host's answer is not HTTP/1: it closed the connection without an answer";
    assert_eq!(verdict, format!("allowed, ended: {why}"));
    assert!(sent > 30, "{sent}");
}

#[test]
fn no_path_header_or_body_is_recorded() {
    let mut harness = Harness::start("web.test");
    harness.ask(
        "POST http://denied.test/secret-path HTTP/1.1\r\nAuthorization: Bearer secret-token\r\n\
         Content-Length: 11\r\n\r\nsecret-body",
    );
    assert!(!format!("{:?}", harness.record()).contains("secret"));
    for user in ["secret", "user:secret", "secret@x", "user:secret@x:secret"] {
        let answer = harness.ask(format!("GET http://{user}@web.test/ HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 400 ") && !answer.contains("secret"), "{answer}");
        let verdict = "denied: it is not spelled as a host name or an address".to_owned();
        assert_eq!(harness.record(), ("***@web.test".into(), 80, verdict, 0, 0));
    }
}

#[test]
fn a_full_log_delays_records_and_loses_none() {
    const COUNT: usize = 6;
    let settings = Settings { connections: 64, ..Settings::default() };
    let mut harness = Harness::with("web.test", Script::loopback(), settings, 1);
    for number in 0..COUNT {
        // Clients are answered although nobody has read the log yet.
        let (head, _) = harness.tunnel(&format!("denied{number}.test:443"));
        assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    }
    let mut hosts: Vec<String> = (0..COUNT).map(|_| harness.record().0).collect();
    hosts.sort();
    let expected: Vec<String> = (0..COUNT).map(|n| format!("denied{n}.test")).collect();
    assert_eq!(hosts, expected);
}

#[test]
fn a_log_that_stays_full_does_not_hold_up_the_stop_and_is_said_so() {
    let settings = Settings { log_grace: Duration::from_millis(50), ..Settings::default() };
    let harness = Harness::with("web.test", Script::loopback(), settings, 1);
    for _ in 0..3 {
        drop(harness.tunnel("denied.test:443"));
    }
    let summary = harness.stop().unwrap();
    assert_eq!((summary.connections, summary.unrecorded), (3, 2));
}

#[test]
fn nothing_goes_out_once_nobody_reads_the_log() {
    let server = Server::echo();
    let port = server.port;
    let mut harness = Harness::start(&format!("127.0.0.1:{port}"));
    let (_, mut open) = harness.tunnel(&format!("127.0.0.1:{port}"));
    harness.close_log();
    harness.tunnel("denied.test:443");
    // The record has nowhere to go: the proxy ends, and the open tunnel too.
    assert_eq!(read_all(&mut open), "");
    wait_for("the end of the proxy", || (!harness.is_serving()).then_some(()));
    assert!(matches!(harness.stop(), Err(ServeError::LogClosed)));
}
