//! SOCKS5: names, addresses, and its ways to say no.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::harness::{Harness, Script, Server, read_all};

/// A CONNECT request for a name.
fn named(name: &[u8], port: u16) -> Vec<u8> {
    let mut request = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
    request.extend(name);
    request.extend(port.to_be_bytes());
    request
}

/// Greets, asks, and gives the reply code and the stream.
fn ask(harness: &Harness, request: &[u8]) -> (u8, TcpStream) {
    let mut stream = harness.connect();
    stream.write_all(&[5, 2, 2, 0]).unwrap();
    let mut method = [9; 2];
    stream.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    stream.write_all(request).unwrap();
    let mut reply = [9; 10];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((reply[0], &reply[2..]), (5, &[0, 1, 0, 0, 0, 0, 0, 0][..]));
    (reply[1], stream)
}

fn assert_echoes(mut stream: TcpStream) {
    stream.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

#[test]
fn a_listed_name_is_reached() {
    let server = Server::echo();
    let port = server.port;
    let mut harness = Harness::start(&format!("echo.test:{port},127.0.0.1:{port}"));
    let (code, stream) = ask(&harness, &named(b"echo.test", port));
    assert_eq!(code, 0);
    assert_echoes(stream);
    assert_eq!(harness.record(), ("echo.test".into(), port, "allowed".into(), 4, 4));
}

#[test]
fn a_listed_address_is_reached_in_either_form() {
    let server = Server::echo();
    let port = server.port;
    let harness = Harness::start(&format!("127.0.0.1:{port}"));
    let mut request = vec![5, 1, 0, 1, 127, 0, 0, 1];
    request.extend(port.to_be_bytes());
    for request in [request, named(b"127.0.0.1", port)] {
        let (code, stream) = ask(&harness, &request);
        assert_eq!(code, 0);
        assert_echoes(stream);
    }
}

#[test]
fn what_is_not_listed_is_not_allowed() {
    let server = Server::echo();
    let port = server.port;
    let resolver = Script::loopback();
    let list = format!("echo.test,other.test:{port}");
    let mut harness = Harness::with(&list, resolver.clone(), Default::default(), 64);
    let mut v6 = vec![5, 1, 0, 4];
    v6.extend(std::net::Ipv6Addr::LOCALHOST.octets());
    v6.extend(port.to_be_bytes());
    for (request, host) in [
        (vec![5, 1, 0, 1, 127, 0, 0, 1, 0, 80], "127.0.0.1"),
        (vec![5, 1, 0, 1, 169, 254, 169, 254, 0, 80], "169.254.169.254"),
        (v6, "[::1]"),
        (named(b"denied.test", 443), "denied.test"),
        (named(b"denied.test\0.echo.test", 443), "denied.test\\x00.echo.test"),
        (named(b"echo.test\0.denied.test", 443), "echo.test\\x00.denied.test"),
        (named(b"echo.test\0", 443), "echo.test\\x00"),
        (named(b"echo.test.", 443), "echo.test."),
        (named(b"2130706433", 443), "2130706433"),
        (named(b"0x7f000001", 443), "0x7f000001"),
        (named(b"0177.0.0.1", 443), "0177.0.0.1"),
        (named(b"127.1", 443), "127.1"),
        (named(b"::1", 443), "::1"),
        (named(b"\xe3\x80\x82echo.test", 443), "\\xe3\\x80\\x82echo.test"),
        (named(b"", 443), ""),
        (named(b"echo.test", 22), "echo.test"),
    ] {
        let (code, mut stream) = ask(&harness, &request);
        assert_eq!(code, 2, "{host}");
        assert_eq!(read_all(&mut stream), "");
        drop(stream);
        let record = harness.record();
        assert_eq!(record.0, host);
        assert!(record.2.starts_with("denied: "), "{record:?}");
    }
    // Not one of them was looked up.
    assert_eq!(resolver.asked(), Vec::<String>::new());

    // A listed name that leads to loopback is looked up, and then refused.
    let (code, _) = ask(&harness, &named(b"other.test", port));
    assert_eq!(code, 2);
    assert_eq!(resolver.asked(), ["other.test"]);
}

#[test]
fn each_failure_has_its_code() {
    let closed = Server::echo().port;
    let mut harness = Harness::start(&format!("closed.test:{closed},127.0.0.1:{closed}"));
    assert_eq!(ask(&harness, &named(b"closed.test", closed)).0, 5);
    assert_eq!(ask(&harness, &[5, 2, 0, 1, 127, 0, 0, 1, 0, 80]).0, 7);
    assert_eq!(ask(&harness, &[5, 3, 0, 1, 127, 0, 0, 1, 0, 80]).0, 7);
    assert_eq!(ask(&harness, &[5, 1, 0, 9, 127, 0, 0, 1, 0, 80]).0, 8);
    assert_eq!(ask(&harness, &[5, 1, 1, 1, 127, 0, 0, 1, 0, 80]).0, 1);
    assert_eq!(ask(&harness, &[4, 1, 0, 1, 127, 0, 0, 1, 0, 80]).0, 1);
    assert_eq!(ask(&harness, &[5, 1, 0, 1, 127, 0, 0, 1, 0, 0]).0, 1);
    for _ in 0..7 {
        assert!(!harness.verdict().starts_with("allowed"));
    }
    let harness = Harness::with("gone.test", Script::of([]), Default::default(), 8);
    assert_eq!(ask(&harness, &named(b"gone.test", 443)).0, 4);
}

#[test]
fn other_versions_and_methods_are_refused_in_their_own_words() {
    let mut harness = Harness::start("echo.test");
    let mut stream = harness.connect();
    stream.write_all(&[4, 1, 0, 80, 127, 0, 0, 1, 0]).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    drop(stream);
    assert_eq!(reply, [0, 0x5b, 0, 0, 0, 0, 0, 0]);
    assert_eq!(harness.verdict(), "malformed: SOCKS4 is not served, SOCKS5 is");

    let mut stream = harness.connect();
    stream.write_all(&[5, 1, 2]).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    drop(stream);
    assert_eq!(reply, [5, 0xff]);
    assert!(harness.verdict().contains("without authentication"));
}

#[test]
fn a_negotiation_that_breaks_off_is_recorded() {
    let mut harness = Harness::start("echo.test");
    for part in [&[5u8][..], &[5, 3, 0], &[5, 1, 0, 5, 1, 0], &[5, 1, 0, 5, 1, 0, 3, 200, b'a']] {
        let mut stream = harness.connect();
        stream.write_all(part).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        read_all(&mut stream);
        drop(stream);
        assert_eq!(harness.verdict(), "malformed: the connection ended within the negotiation");
    }
}
