//! Spellings and requests that have got past other proxies.

use std::net::IpAddr;

use crate::harness::{Harness, Script};

const ALLOWED: &str = "allowed.example";
const DENIED: &str = "denied.example";

/// A proxy whose resolver would betray any name that reaches it.
fn harness() -> (Harness, Script) {
    let resolver = Script::of([vec![IpAddr::from([127, 0, 0, 1])]]);
    let harness = Harness::with(ALLOWED, resolver.clone(), Default::default(), 64);
    (harness, resolver)
}

/// The status of the answer; the record must be a refusal.
fn refused(harness: &mut Harness, request: &[u8]) -> u16 {
    let shown = String::from_utf8_lossy(request).into_owned();
    let answer = harness.ask(request);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let verdict = harness.verdict();
    assert!(!verdict.starts_with("allowed"), "{shown:?}: {verdict}");
    status.unwrap_or_else(|| panic!("{shown:?}: {answer:?}"))
}

#[test]
fn addresses_in_any_spelling_are_refused() {
    let (mut harness, resolver) = harness();
    for host in [
        "1.1.1.1",
        "2130706433",
        "0x7f000001",
        "0X7F000001",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "0.0.0.0",
        "0",
        "127.0.0.1",
        "127.0.0.2",
        "[::]",
        "localhost",
        "127.0.0.1.",
        "localhost.",
        "169.254.169.254",
        "169.254.170.2",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "192.0.0.192",
        "10.0.0.1",
        "192.168.0.1",
        "172.16.0.1",
        "metadata.google.internal",
        "93.184.216.34",
        "[fe80::1%25lo]",
        "[::1",
        "::1",
        "[127.0.0.1]",
        "[v1.a]",
    ] {
        for port in [443, 80] {
            let connect = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
            let status = refused(&mut harness, connect.as_bytes());
            assert!((400..500).contains(&status), "CONNECT {host}: {status}");
            let get = format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: {ALLOWED}\r\n\r\n");
            let status = refused(&mut harness, get.as_bytes());
            assert!((400..500).contains(&status), "GET {host}: {status}");
        }
    }
    assert_eq!(resolver.asked(), Vec::<String>::new());
}

#[test]
fn names_that_are_not_exactly_the_listed_one_are_refused() {
    let (mut harness, resolver) = harness();
    let long = format!("{}.{ALLOWED}", "x".repeat(300));
    let (a, d) = (ALLOWED, DENIED);
    let names = [
        format!("{d}\0.{a}"),
        format!("{a}\0.{d}"),
        format!("{a}\0"),
        format!("{d}%00.{a}"),
        format!("{d}%2e{a}"),
        format!("{a}@{d}"),
        format!("{a}:443@{d}"),
        format!("{d}@{a}"),
        format!("{d}#.{a}"),
        format!("{d}#@{a}"),
        format!("{d}?.{a}"),
        format!("{d}/.{a}"),
        format!("{d}\\.{a}"),
        format!("{d}\\@{a}"),
        format!("{d}\t{a}"),
        format!("{d} {a}"),
        format!("{a} {d}"),
        format!("evil{a}"),
        format!("{a}.{d}"),
        format!("{a}.evil.example"),
        format!("x.{a}"),
        format!("{d}。{a}"),
        a.replace('.', "。"),
        a.replace('a', "ａ"),
        a.replace('e', "é"),
        long,
        String::new(),
        ".".into(),
        "..".into(),
        format!("*.{a}"),
        "*".into(),
        format!("{d}."),
        format!("{a}."),
        format!(".{a}"),
        format!("-{a}"),
        format!("[{a}]"),
        format!("{a}\r\n{d}"),
        format!("{a}\r{d}"),
        format!("{a}\n{d}"),
        a.replace('.', "%2e"),
        a.replace('.', ".."),
        format!("{a},{d}"),
        format!("{a};{d}"),
    ];
    for name in &names {
        for request in [
            format!("CONNECT {name}:443 HTTP/1.1\r\nHost: {a}:443\r\n\r\n"),
            format!("GET http://{name}/ HTTP/1.1\r\nHost: {a}\r\n\r\n"),
        ] {
            // A path may hold what a host may not: then the host is denied.example.
            let status = refused(&mut harness, request.as_bytes());
            assert!((400..500).contains(&status), "{request:?}: {status}");
        }
    }
    assert_eq!(resolver.asked(), Vec::<String>::new());
}

#[test]
fn ports_that_are_not_listed_or_not_ports_are_refused() {
    let (mut harness, resolver) = harness();
    for port in [
        "0",
        "65536",
        "-1",
        "+443",
        "443@denied.example",
        "22",
        "25",
        "8080",
        "",
        " 443",
        "0443",
        "443 ",
        "4_43",
        "443.",
        "0x1bb",
        "443:443",
        "٤٤٣",
        "99999999999999999999",
    ] {
        for request in [
            format!("CONNECT {ALLOWED}:{port} HTTP/1.1\r\nHost: x\r\n\r\n"),
            format!("GET http://{ALLOWED}:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        ] {
            let status = refused(&mut harness, request.as_bytes());
            assert!((400..500).contains(&status), "{request:?}: {status}");
        }
    }
    let status = refused(&mut harness, format!("CONNECT {ALLOWED} HTTP/1.1\r\n\r\n").as_bytes());
    assert_eq!(status, 400);
    assert_eq!(resolver.asked(), Vec::<String>::new());
}

#[test]
fn two_requests_in_one_are_judged_by_the_first() {
    let (mut harness, resolver) = harness();
    for request in [
        format!(
            "CONNECT {DENIED}:443 HTTP/1.1\r\nX: y\r\n\r\nCONNECT {ALLOWED}:443 HTTP/1.1\r\n\r\n"
        ),
        format!("CONNECT {DENIED}:443\r\nHost: {ALLOWED} HTTP/1.1\r\n\r\n"),
        format!("CONNECT {DENIED}:443 {ALLOWED}:443 HTTP/1.1\r\n\r\n"),
        format!("GET http://{DENIED}/ http://{ALLOWED}/ HTTP/1.1\r\n\r\n"),
        format!("\r\nCONNECT {DENIED}:443 HTTP/1.1\r\n\r\n"),
        format!(" CONNECT {ALLOWED}:443 HTTP/1.1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {ALLOWED}\r\n\r\n"),
        format!("GET //{ALLOWED}/ HTTP/1.1\r\nHost: {ALLOWED}\r\n\r\n"),
        format!("GET ftp://{ALLOWED}/ HTTP/1.1\r\n\r\n"),
        format!("GET file:///etc/passwd HTTP/1.1\r\nHost: {ALLOWED}\r\n\r\n"),
        format!("GET http:/{ALLOWED}/ HTTP/1.1\r\n\r\n"),
        format!("GET http:\\\\{ALLOWED}/ HTTP/1.1\r\n\r\n"),
    ] {
        let status = refused(&mut harness, request.as_bytes());
        assert!((400..500).contains(&status), "{request:?}: {status}");
    }
    assert_eq!(resolver.asked(), Vec::<String>::new());
}

#[test]
fn requests_with_two_readings_are_refused_before_anything_is_dialled() {
    let (mut harness, resolver) = harness();
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        " Transfer-Encoding: chunked\r\n",
        "X: y\r\n Transfer-Encoding: chunked\r\n",
        "X: y\nTransfer-Encoding: chunked\r\n",
        "X: y\rTransfer-Encoding: chunked\r\n",
        "X: y\0\r\n",
        "X\r\n",
        ": y\r\n",
    ] {
        let request = format!("POST http://{ALLOWED}/ HTTP/1.1\r\n{headers}\r\nhello");
        assert_eq!(refused(&mut harness, request.as_bytes()), 400, "{headers:?}");
    }
    assert_eq!(resolver.asked(), Vec::<String>::new());
}

#[test]
fn bytes_of_other_protocols_are_refused() {
    let (mut harness, _) = harness();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], // TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"\0\0\0\0",
        b"\xff\xfe\r\n\r\n",
    ] {
        assert_eq!(refused(&mut harness, bytes), 400, "{bytes:?}");
    }
}
