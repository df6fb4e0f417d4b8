//! CONNECT: bytes both ways, half-close, early bytes.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use crate::harness::{Harness, Server, read_all, read_until};

#[test]
fn a_tunnel_carries_bytes_both_ways() {
    let server = Server::echo();
    let port = server.port;
    let mut harness = Harness::start(&format!("echo.test:{port},127.0.0.1:{port}"));

    let (head, mut stream) = harness.tunnel(&format!("echo.test:{port}"));
    assert_eq!(head, "HTTP/1.1 200 Connection established\r\n\r\n");
    stream.write_all(b"ping\0\xff").unwrap();
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping\0\xff");
    drop(stream);

    assert_eq!(harness.record(), ("echo.test".into(), port, "allowed".into(), 6, 6));
}

#[test]
fn an_end_of_one_half_leaves_the_other_open() {
    // A host that speaks only once the client has finished.
    let server = Server::start(|mut stream| {
        let all = read_all(&mut stream);
        stream.write_all(all.to_uppercase().as_bytes()).unwrap();
    });
    let port = server.port;
    let harness = Harness::start(&format!("late.test:{port},127.0.0.1:{port}"));

    let (_, mut stream) = harness.tunnel(&format!("late.test:{port}"));
    stream.write_all(b"to the end").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut stream), "TO THE END");
}

#[test]
fn an_end_of_the_hosts_half_leaves_the_clients_open() {
    let (tell, told) = std::sync::mpsc::channel();
    let server = Server::start(move |mut stream| {
        stream.write_all(b"first").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        tell.send(read_all(&mut stream)).unwrap();
    });
    let port = server.port;
    let harness = Harness::start(&format!("half.test:{port},127.0.0.1:{port}"));

    let (_, mut stream) = harness.tunnel(&format!("half.test:{port}"));
    assert_eq!(read_all(&mut stream), "first");
    stream.write_all(b"second").unwrap();
    drop(stream);
    assert_eq!(told.recv_timeout(crate::harness::PATIENCE).unwrap(), "second");
}

#[test]
fn bytes_sent_before_the_tunnel_stands_are_not_lost() {
    let server = Server::echo();
    let port = server.port;
    let harness = Harness::start(&format!("127.0.0.1:{port}"));

    let mut stream = harness.connect();
    write!(stream, "CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nearly").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(read_until(&mut stream, b"\r\n\r\n").starts_with(b"HTTP/1.1 200 "));
    assert_eq!(read_all(&mut stream), "early");
}

#[test]
fn many_bytes_both_ways_at_once_neither_stall_nor_change() {
    const SIZE: usize = 4_000_000;
    let server = Server::echo();
    let port = server.port;
    let harness = Harness::start(&format!("127.0.0.1:{port}"));

    let (_, mut stream) = harness.tunnel(&format!("127.0.0.1:{port}"));
    let sent: Vec<u8> = (0..SIZE).map(|n| (n * 7 % 251) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    writing.join().unwrap();
    assert!(sent == received);
}
