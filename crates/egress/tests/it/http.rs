//! Absolute-form requests: what the host sees, and what comes back.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};

use crate::harness::{Harness, PATIENCE, Script, Server, read_all, read_until};

/// A host that takes one request, answers, and tells what it got: the request,
/// then whatever came after it.
struct Host {
    server: Server,
    got: Receiver<String>,
}

impl Host {
    fn answering(answer: &'static str) -> Self {
        let (tell, got) = channel();
        let server = Server::start(move |mut stream| {
            let mut request = read_until(&mut stream, b"\r\n\r\n");
            let head = String::from_utf8_lossy(&request).to_lowercase();
            if head.contains("transfer-encoding: chunked") {
                request.extend(read_until(&mut stream, b"0\r\n\r\n"));
            } else if let Some((_, rest)) = head.split_once("content-length: ") {
                let length: usize = rest.lines().next().unwrap().parse().unwrap();
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                request.extend(body);
            }
            drop(tell.send(String::from_utf8(request).unwrap()));
            stream.write_all(answer.as_bytes()).unwrap();
            // The host keeps its end open: the proxy must know when it is over.
            drop(tell.send(read_all(&mut stream)));
        });
        Self { server, got }
    }

    fn harness(&self) -> Harness {
        let port = self.server.port;
        Harness::start(&format!("web.test:{port},127.0.0.1:{port}"))
    }

    fn got(&self) -> String {
        self.got.recv_timeout(PATIENCE).unwrap()
    }
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello";
const HELLO_RELAYED: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

#[test]
fn a_get_reaches_the_host_in_origin_form() {
    let host = Host::answering(HELLO);
    let mut harness = host.harness();
    let port = host.server.port;

    let answer = harness.ask(format!(
        "GET http://WEB.test:{port}/a?b HTTP/1.1\r\nHost: evil.test\r\nUser-Agent: x\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n"
    ));

    assert_eq!(answer, HELLO_RELAYED);
    let seen = format!(
        "GET /a?b HTTP/1.1\r\nHost: web.test:{port}\r\nUser-Agent: x\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(host.got(), seen);
    assert_eq!(host.got(), "");
    let (sent, received) = (seen.len() as u64, HELLO_RELAYED.len() as u64);
    assert_eq!(harness.record(), ("WEB.test".into(), port, "allowed".into(), sent, received));
}

#[test]
fn a_post_carries_its_body() {
    let host = Host::answering(HELLO);
    let harness = host.harness();
    let port = host.server.port;

    let answer = harness.ask(format!(
        "POST http://web.test:{port}/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbodyGET / HTTP/1.1\r\n\r\n"
    ));

    assert_eq!(answer, HELLO_RELAYED);
    assert!(host.got().ends_with("Content-Length: 4\r\nConnection: close\r\n\r\nbody"));
    // What followed the body was not passed on.
    assert_eq!(host.got(), "");
}

#[test]
fn a_large_body_and_a_large_answer_pass_whole() {
    const SIZE: usize = 3_000_000;
    let server = Server::start(|mut stream| {
        read_until(&mut stream, b"\r\n\r\n");
        let mut body = vec![0; SIZE];
        stream.read_exact(&mut body).unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").unwrap();
        stream.write_all(&body).unwrap();
    });
    let port = server.port;
    let harness = Harness::start(&format!("web.test:{port},127.0.0.1:{port}"));

    let mut request =
        format!("PUT http://web.test:{port}/ HTTP/1.1\r\nContent-Length: {SIZE}\r\n\r\n");
    let body: String = (0..SIZE).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    request.push_str(&body);
    let answer = harness.ask(request);

    assert!(answer.split_once("\r\n\r\n").unwrap().1 == body);
}

#[test]
fn a_chunked_body_passes_as_it_is() {
    let host = Host::answering(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 Never asked for\r\n\r\n",
    );
    let harness = host.harness();
    let port = host.server.port;

    let answer = harness.ask(format!(
        "POST http://web.test:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\
         Expect: 100-continue\r\n\r\n4\r\nbody\r\n0\r\n\r\nGET /second HTTP/1.1\r\n\r\n"
    ));

    assert_eq!(
        answer,
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    );
    assert!(host.got().ends_with("Connection: close\r\n\r\n4\r\nbody\r\n0\r\n\r\n"));
    assert_eq!(host.got(), "");
}

#[test]
fn an_answer_to_head_has_no_body() {
    let host = Host::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let harness = host.harness();
    let port = host.server.port;
    let answer = harness.ask(format!("HEAD http://web.test:{port}/ HTTP/1.1\r\n\r\n"));
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
}

#[test]
fn an_old_client_gets_an_answer_that_ends_with_the_connection() {
    let server = Server::start(|mut stream| {
        let head = String::from_utf8(read_until(&mut stream, b"\r\n\r\n")).unwrap();
        assert!(head.starts_with("GET / HTTP/1.0\r\n"), "{head}");
        stream.write_all(b"HTTP/1.0 200 OK\n\nto the end").unwrap();
    });
    let port = server.port;
    let harness = Harness::start(&format!("web.test:{port},127.0.0.1:{port}"));
    let answer = harness.ask(format!("GET http://web.test:{port} HTTP/1.0\r\n\r\n"));
    assert_eq!(answer, "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nto the end");
}

#[test]
fn a_host_that_does_not_answer_in_http_is_a_bad_gateway() {
    for (answer, why) in [
        ("SSH-2.0-OpenSSH\r\n\r\n", "malformed"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "changes the protocol"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "differ"),
    ] {
        let host = Host::answering(answer);
        let mut harness = host.harness();
        let port = host.server.port;
        let answer = harness.ask(format!("GET http://web.test:{port}/ HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains(why), "{answer}");
        let verdict = harness.verdict();
        assert!(verdict.starts_with("allowed, ended: the host's answer"), "{why}: {verdict}");
    }
}

#[test]
fn a_host_that_closes_without_an_answer_is_a_bad_gateway() {
    let server = Server::start(|stream: TcpStream| drop(stream));
    let port = server.port;
    let harness = Harness::start(&format!("web.test:{port},127.0.0.1:{port}"));
    let answer = harness.ask(format!("GET http://web.test:{port}/ HTTP/1.1\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[test]
fn a_denied_host_is_named_with_the_reason_and_the_remedy() {
    let mut harness = Harness::start("web.test");
    let answer = harness.ask("GET http://other.test/secret HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(answer.contains("Content-Type: text/plain"), "{answer}");
    assert!(answer.ends_with(
        "cofferdam: no connection to other.test:80: the host is not in the allow-list\n\
         help: to allow it, start the sandbox with --network allow:other.test\n"
    ));
    let verdict = "denied: the host is not in the allow-list".to_owned();
    assert_eq!(harness.record(), ("other.test".into(), 80, verdict, 0, 0));
}

#[test]
fn a_name_without_an_address_and_a_closed_port_are_bad_gateways() {
    let mut harness = Harness::with("web.test", Script::of([]), Default::default(), 8);
    assert!(harness.ask("GET http://web.test/ HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 502 "));
    assert!(harness.verdict().starts_with("failed: the name cannot be resolved"));

    let mut harness = Harness::with("web.test", Script::of([vec![]]), Default::default(), 8);
    assert!(harness.ask("GET http://web.test/ HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 502 "));
    assert!(harness.verdict().ends_with("it has no address"));

    let closed = {
        let server = Server::echo();
        server.port
    };
    let mut harness = Harness::start(&format!("web.test:{closed},127.0.0.1:{closed}"));
    let answer = harness.ask(format!("GET http://web.test:{closed}/ HTTP/1.1\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(harness.verdict().starts_with("failed: the host cannot be reached"));
}

#[test]
fn https_is_sent_to_connect() {
    let harness = Harness::start("web.test");
    let answer = harness.ask("GET https://web.test/ HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("use CONNECT"), "{answer}");
}
