//! What was broken off on one side is broken off on the other, and told so; what is whole is not.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use cofferdam_egress::Settings;

use crate::harness::{Harness, PATIENCE, Script, Server, read_until};

/// How a client asks for a host.
#[derive(Clone, Copy, Debug)]
enum By {
    Http,
    Connect,
    Socks,
}

const ALL: [By; 3] = [By::Http, By::Connect, By::Socks];

impl By {
    /// A stream on which the answer to a `GET`, or what else the host says, is to come.
    fn ask(self, harness: &Harness, port: u16) -> TcpStream {
        let mut stream = match self {
            Self::Http => harness.connect(),
            Self::Connect => harness.tunnel(&format!("127.0.0.1:{port}")).1,
            Self::Socks => {
                let mut stream = harness.connect();
                let mut request = vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1];
                request.extend(port.to_be_bytes());
                stream.write_all(&request).unwrap();
                stream.read_exact(&mut [0; 12]).unwrap();
                stream
            }
        };
        let place = match self {
            Self::Http => format!("http://127.0.0.1:{port}"),
            Self::Connect | Self::Socks => String::new(),
        };
        write!(stream, "GET {place}/ HTTP/1.1\r\n\r\n").unwrap();
        stream
    }
}

/// Reads to the end, and tells whether that was an orderly one.
fn read_to_end(stream: &mut TcpStream) -> (String, Result<(), ErrorKind>) {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).map(drop).map_err(|error| error.kind());
    (String::from_utf8_lossy(&bytes).into_owned(), ended)
}

fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// A host that reads a request's head and says this; then it waits for leave to go on.
fn host(
    says: &'static str,
    then: impl Fn(TcpStream) + Send + Sync + 'static,
) -> (Server, Harness, Sender<()>) {
    let (leave, has_leave) = channel();
    let has_leave = Mutex::new(has_leave);
    let server = Server::start(move |mut stream| {
        read_until(&mut stream, b"\r\n\r\n");
        stream.write_all(says.as_bytes()).unwrap();
        has_leave.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        then(stream);
    });
    let harness = Harness::start(&format!("127.0.0.1:{}", server.port));
    (server, harness, leave)
}

/// A host that says this and reads until the end, which it tells.
fn listener(says: &'static str) -> (Server, Receiver<Result<(), ErrorKind>>) {
    let (tell, told) = channel();
    let server = Server::start(move |mut stream| {
        read_until(&mut stream, b"\r\n\r\n");
        stream.write_all(says.as_bytes()).unwrap();
        tell.send(read_to_end(&mut stream).1).unwrap();
    });
    (server, told)
}

/// An answer that ends with its connection.
const ENDLESS: &str = "HTTP/1.1 200 OK\r\n\r\nthe first part";
const RESET: Result<(), ErrorKind> = Err(ErrorKind::ConnectionReset);

#[test]
fn a_hosts_reset_reaches_the_client() {
    for by in ALL {
        let (server, mut harness, leave) = host(ENDLESS, reset);
        let mut stream = by.ask(&harness, server.port);
        leave.send(()).unwrap();
        let (text, ended) = read_to_end(&mut stream);
        assert!(text.ends_with("\r\n\r\nthe first part"), "{by:?}: {text}");
        assert_eq!(ended, RESET, "{by:?}");
        let verdict = "allowed, ended: the connection to the host broke: connection reset";
        assert_eq!(harness.verdict(), verdict, "{by:?}");
    }
}

#[test]
fn a_clients_reset_reaches_the_host() {
    for by in ALL {
        let (server, told) = listener(ENDLESS);
        let mut harness = Harness::start(&format!("127.0.0.1:{}", server.port));
        let mut stream = by.ask(&harness, server.port);
        read_until(&mut stream, b"part");
        reset(stream);
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), RESET, "{by:?}");
        assert_eq!(harness.verdict(), "allowed", "{by:?}");
    }
}

#[test]
fn a_request_that_is_broken_off_does_not_end_in_order() {
    let (server, told) = listener("");
    let harness = Harness::start(&format!("127.0.0.1:{}", server.port));
    let mut stream = harness.connect();
    let head = "HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc";
    write!(stream, "POST http://127.0.0.1:{}/ {head}", server.port).unwrap();
    drop(stream);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), RESET);
}

#[test]
fn what_is_whole_ends_in_order_on_both_sides() {
    for by in ALL {
        let (tell, told) = channel();
        let server = Server::start(move |mut stream| {
            read_until(&mut stream, b"\r\n\r\n");
            stream.write_all(ENDLESS.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            tell.send(read_to_end(&mut stream).1).unwrap();
        });
        let mut harness = Harness::start(&format!("127.0.0.1:{}", server.port));
        let mut stream = by.ask(&harness, server.port);
        assert_eq!(read_to_end(&mut stream).1, Ok(()), "{by:?}");
        drop(stream);
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Ok(()), "{by:?}");
        assert_eq!(harness.verdict(), "allowed", "{by:?}");
    }
}

/// A stop while the client still has a whole answer to read takes nothing of it away.
#[test]
fn what_is_whole_stays_so_when_the_sandbox_ends() {
    let (server, mut harness, leave) = host(ENDLESS, drop);
    let mut stream = By::Http.ask(&harness, server.port);
    leave.send(()).unwrap();
    let (text, ended) = read_to_end(&mut stream);
    assert!(text.ends_with("the first part") && ended.is_ok(), "{text} {ended:?}");
    // The client keeps its half open: the proxy is still taking its leave.
    harness.request_stop();
    assert_eq!(harness.verdict(), "allowed");
}

#[test]
fn what_is_idle_is_broken_off_on_both_sides() {
    for by in ALL {
        let (server, told) = listener(ENDLESS);
        let settings =
            Settings { idle_time_out: Duration::from_millis(400), ..Settings::default() };
        let list = format!("127.0.0.1:{}", server.port);
        let mut harness = Harness::with(&list, Script::loopback(), settings, 64);
        let mut stream = by.ask(&harness, server.port);
        assert_eq!(read_to_end(&mut stream).1, RESET, "{by:?}");
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), RESET, "{by:?}");
        assert_eq!(harness.verdict(), "allowed, ended after 0.4 s without traffic", "{by:?}");
    }
}

#[test]
fn what_ends_with_the_sandbox_is_broken_off_on_both_sides() {
    for by in ALL {
        let (server, told) = listener(ENDLESS);
        let mut harness = Harness::start(&format!("127.0.0.1:{}", server.port));
        let mut stream = by.ask(&harness, server.port);
        read_until(&mut stream, b"part");
        harness.request_stop();
        assert_eq!(read_to_end(&mut stream).1, RESET, "{by:?}");
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), RESET, "{by:?}");
        assert_eq!(harness.verdict(), "allowed, ended with the sandbox", "{by:?}");
    }
}

#[test]
fn an_answer_that_is_not_what_its_head_says_is_broken_off() {
    let not = |why| format!("allowed, ended: the host's answer is not HTTP/1: {why}");
    for (answer, verdict) in [
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\nnonsense\r\n",
            not("its chunks are malformed"),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndata\r\n",
            not("its body is cut short"),
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndata", not("its body is cut short")),
    ] {
        let (server, mut harness, leave) = host(answer, drop);
        let mut stream = By::Http.ask(&harness, server.port);
        leave.send(()).unwrap();
        let (text, ended) = read_to_end(&mut stream);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert_eq!(ended, RESET, "{answer:?}");
        assert_eq!(harness.verdict(), verdict, "{answer:?}");
    }
}

#[test]
fn a_request_that_is_malformed_after_its_answer_has_begun_is_broken_off() {
    let (server, told) = listener(ENDLESS);
    let mut harness = Harness::start(&format!("127.0.0.1:{}", server.port));
    let mut stream = harness.connect();
    let head = "HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    write!(stream, "POST http://127.0.0.1:{}/ {head}", server.port).unwrap();
    read_until(&mut stream, b"part");
    stream.write_all(b"nonsense\r\n").unwrap();
    assert_eq!(read_to_end(&mut stream).1, RESET);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), RESET);
    assert_eq!(harness.verdict(), "allowed, ended: the chunked body is malformed");
}
