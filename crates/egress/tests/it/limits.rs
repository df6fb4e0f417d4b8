//! Time-outs, sizes and numbers.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cofferdam_egress::{Resolve, Settings};
use futures_util::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;

use crate::harness::{Harness, PATIENCE, Script, Server, read_all, read_until, wait_for};

const SHORT: Duration = Duration::from_millis(100);

fn with(list: &str, settings: Settings) -> Harness {
    Harness::with(list, Script::loopback(), settings, 64)
}

#[test]
fn a_head_that_does_not_come_is_timed_out() {
    let settings = || Settings { head_time_out: SHORT, ..Settings::default() };
    for start in [&b""[..], b"G", b"GET http://web.test/ HTTP/1.1\r\nA: "] {
        let mut harness = with("web.test", settings());
        assert!(harness.ask(start).starts_with("HTTP/1.1 408 "), "{start:?}");
        assert_eq!(harness.verdict(), "malformed: the request's head did not arrive in time");
    }
    let mut harness = with("web.test", settings());
    let mut stream = harness.connect();
    stream.write_all(&[5, 1]).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    drop(stream);
    assert_eq!(reply, [5, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(harness.verdict(), "malformed: the request's head did not arrive in time");
}

#[test]
fn a_head_that_does_not_end_is_refused() {
    let mut harness = Harness::start("web.test");
    let long = format!("GET http://web.test/ HTTP/1.1\r\nA: {}", "x".repeat(200_000));
    let many = format!("GET http://web.test/ HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
    for request in [long, many] {
        assert!(harness.ask(&request).starts_with("HTTP/1.1 431 "));
        assert!(harness.verdict().starts_with("malformed: the request's head is longer"));
    }
}

#[test]
fn a_silent_tunnel_is_ended() {
    let server = Server::echo();
    let port = server.port;
    let settings = Settings { idle_time_out: SHORT, ..Settings::default() };
    let mut harness = with(&format!("127.0.0.1:{port}"), settings);

    let (head, mut stream) = harness.tunnel(&format!("127.0.0.1:{port}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(read_all(&mut stream), "");
    drop(stream);
    let verdict = "allowed, ended after 0.1 s without traffic".to_owned();
    assert_eq!(harness.record(), ("127.0.0.1".into(), port, verdict, 0, 0));
}

#[test]
fn a_host_that_never_answers_is_a_gateway_time_out() {
    let server = Server::start(|mut stream| drop(read_all(&mut stream)));
    let port = server.port;
    let settings = Settings { idle_time_out: SHORT, ..Settings::default() };
    let mut harness = with(&format!("127.0.0.1:{port}"), settings);
    let answer = harness.ask(format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert_eq!(harness.verdict(), "allowed, ended: the host did not answer in time");
}

struct Never;

impl Resolve for Never {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _turn: OwnedSemaphorePermit,
    ) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn a_dns_that_never_answers_is_a_gateway_time_out() {
    let settings = Settings { resolve_time_out: SHORT, ..Settings::default() };
    let mut harness = Harness::with("web.test", Never, settings, 8);
    let answer = harness.ask("GET http://web.test/ HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert_eq!(harness.verdict(), "failed: the name was not resolved in time");
}

/// Never answers, and looks on when nobody waits any more, as the system's does.
#[derive(Clone, Default)]
struct Endless(Arc<Mutex<Vec<OwnedSemaphorePermit>>>);

impl Resolve for Endless {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        turn: OwnedSemaphorePermit,
    ) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        self.0.lock().unwrap().push(turn);
        Box::pin(std::future::pending())
    }
}

#[test]
fn one_sandbox_does_not_take_all_turns_at_the_dns() {
    let endless = Endless::default();
    let settings = Settings { resolve_time_out: SHORT, ..Settings::default() };
    let harness = Harness::with("*.web.test", endless.clone(), settings, 64);
    for number in 0..6 {
        let answer = harness.ask(format!("GET http://{number}.web.test/ HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    }
    assert_eq!(endless.0.lock().unwrap().len(), 4, "look-ups under way");
}

#[test]
fn a_host_that_never_accepts_is_a_gateway_time_out() {
    // A listener that accepts nothing and whose queue is full: the next
    // connection is not answered.
    let (listener, _queued) = full_listener();
    let port = listener.local_addr().unwrap().port();
    let settings = Settings { connect_time_out: SHORT, ..Settings::default() };
    let mut harness = with(&format!("127.0.0.1:{port}"), settings);
    let (head, _) = harness.tunnel(&format!("127.0.0.1:{port}"));
    assert!(head.starts_with("HTTP/1.1 504 "), "{head}");
    assert_eq!(harness.verdict(), "failed: the host did not accept the connection in time");
}

#[test]
fn connections_beyond_the_limit_are_turned_away_and_then_served() {
    let server = Server::echo();
    let port = server.port;
    let settings = Settings { connections: 2, ..Settings::default() };
    let mut harness = with(&format!("127.0.0.1:{port}"), settings);
    let authority = format!("127.0.0.1:{port}");

    let open: Vec<TcpStream> = (0..2)
        .map(|_| {
            let (head, stream) = harness.tunnel(&authority);
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            stream
        })
        .collect();
    for _ in 0..3 {
        let (head, _) = harness.tunnel(&authority);
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        let record = harness.record();
        assert_eq!(record, (String::new(), 0, "busy: too many connections are open".into(), 0, 0));
    }
    let mut stream = harness.connect();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    drop(stream);
    assert_eq!(reply, [5, 0xff]);
    assert!(harness.verdict().starts_with("busy: "));

    drop(open);
    wait_for("a free place", || {
        let (head, _) = harness.tunnel(&authority);
        head.starts_with("HTTP/1.1 200 ").then_some(())
    });
}

#[test]
fn the_stop_ends_everything() {
    let server = Server::echo();
    let port = server.port;
    let mut harness = with(&format!("127.0.0.1:{port}"), Settings::default());
    let proxy_port = harness.port;
    let (_, mut tunnel) = harness.tunnel(&format!("127.0.0.1:{port}"));
    tunnel.write_all(b"abc").unwrap();
    tunnel.read_exact(&mut [0; 3]).unwrap();
    let mut waiting = harness.connect();
    waiting.write_all(b"GET http").unwrap();
    // The second connection is accepted once the first has been.
    let probe = harness.ask("GET / HTTP/1.1\r\n\r\n");
    assert!(probe.starts_with("HTTP/1.1 400 "), "{probe}");
    assert!(harness.verdict().starts_with("malformed: "));

    harness.request_stop();
    assert_eq!(read_all(&mut tunnel), "");
    assert_eq!(read_all(&mut waiting), "");
    let mut ends = [harness.record(), harness.record()];
    ends.sort();
    assert_eq!(ends[0].2, "failed: the sandbox ended first");
    assert_eq!(ends[1], ("127.0.0.1".into(), port, "allowed, ended with the sandbox".into(), 3, 3));
    let summary = harness.stop().unwrap();
    assert_eq!((summary.connections, summary.unrecorded), (3, 0));
    assert!(TcpStream::connect(("127.0.0.1", proxy_port)).is_err());
}

#[test]
fn a_client_that_breaks_off_its_body_ends_the_exchange() {
    let server = Server::start(|mut stream| {
        read_until(&mut stream, b"\r\n\r\n");
        read_all(&mut stream);
    });
    let port = server.port;
    let mut harness = with(&format!("127.0.0.1:{port}"), Settings::default());
    let mut stream = harness.connect();
    write!(stream, "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc")
        .unwrap();
    drop(stream);
    assert_eq!(harness.verdict(), "allowed");
}

/// Clients have time-outs of their own; those who lose patience must not use up the places.
#[test]
fn a_client_that_leaves_before_its_answer_frees_its_place_at_once() {
    let (heard, hears) = std::sync::mpsc::channel();
    let server = Server::start(move |mut stream| {
        read_until(&mut stream, b"\r\n\r\n");
        heard.send(()).unwrap();
        read_all(&mut stream);
    });
    let port = server.port;
    let request = format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n");
    for besides in ["", "GET /another HTTP/1.1\r\n\r\n"] {
        let settings = Settings { connections: 1, ..Settings::default() };
        let mut harness = with(&format!("127.0.0.1:{port}"), settings);
        let mut stream = harness.connect();
        stream.write_all(request.as_bytes()).unwrap();
        hears.recv_timeout(PATIENCE).unwrap();
        stream.write_all(besides.as_bytes()).unwrap();
        let left = Instant::now();
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream); // with a reset
        let (_, _, verdict, sent, received) = harness.record();
        assert!(left.elapsed() < PATIENCE / 2, "{besides:?}: {:?}", left.elapsed());
        assert_eq!((verdict.as_str(), received), ("allowed", 0), "{besides:?}");
        assert!(sent > 30, "{besides:?}: {sent}");
        // A place is free a moment after its record was delivered.
        wait_for("a free place", || {
            let answer = harness.ask("GET http://denied.test/ HTTP/1.1\r\n\r\n");
            answer.starts_with("HTTP/1.1 403 ").then_some(())
        });
    }
}

/// To end one's half means to have said everything, not to have heard everything.
#[test]
fn a_client_that_ends_its_half_still_gets_a_slow_answer() {
    let (ended, has_ended) = std::sync::mpsc::channel();
    let has_ended = std::sync::Mutex::new(has_ended);
    let server = Server::start(move |mut stream| {
        read_until(&mut stream, b"\r\n\r\n");
        has_ended.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        // It takes its time, and then once more within its answer.
        for part in ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", "llo"] {
            std::thread::sleep(SHORT * 3);
            stream.write_all(part.as_bytes()).unwrap();
        }
    });
    let port = server.port;
    let mut harness = with(&format!("127.0.0.1:{port}"), Settings::default());
    let mut stream = harness.connect();
    write!(stream, "GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    ended.send(()).unwrap();
    let answer = read_all(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert_eq!(harness.verdict(), "allowed");
}

/// A listener that takes nobody, and the connections that fill its queue.
fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    for _ in 0..64 {
        match TcpStream::connect_timeout(&address, SHORT * 5) {
            Ok(stream) => queued.push(stream),
            Err(_) => return (listener, queued),
        }
    }
    panic!("the queue is never full");
}
