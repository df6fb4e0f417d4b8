//! What the server tells a collector: what was done, and nothing of what was said.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use cofferdam_testkit::Dialect;

use crate::agent::{Agent, bash};
use crate::eventually;
use crate::server_lab::Served;

/// A collector on loopback that keeps what it is sent. It serves until the test's
/// process ends.
struct Collector {
    url: String,
    bodies: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let bodies = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || answer(stream.unwrap(), &kept));
            }
        });
        Self { url, bodies }
    }

    fn has(&self, words: &str) -> bool {
        let bodies = self.bodies.lock().unwrap();
        bodies.windows(words.len()).any(|window| window == words.as_bytes())
    }
}

fn answer(mut stream: TcpStream, kept: &Mutex<Vec<u8>>) {
    let mut piece = [0; 64 << 10];
    let mut head = String::new();
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        let text = String::from_utf8_lossy(&piece[..count]);
        head.push_str(text.split("\r\n\r\n").next().unwrap());
        kept.lock().unwrap().extend_from_slice(&piece[..count]);
        // One answer a request; a request is small and comes in one or two pieces.
        if text.contains("\r\n\r\n") || !text.starts_with("POST") {
            let sent = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            if sent.is_err() {
                return;
            }
        }
    }
}

#[test]
fn a_collector_gets_a_span_for_each_request_job_turn_and_call_without_their_content() {
    let collector = Collector::start();
    let agent = Agent::new(Dialect::Messages, [bash("echo secret-of-the-output")]);
    let served = Served::with_options(agent, &["--otlp", &collector.url]);
    let id = served.submit(&["secret-of-the-task"]);
    served.until(&id, "ended");
    // What was not sent yet is sent when the server stops.
    drop(served);
    for words in [
        "/v1/traces",
        "invoke_agent cofferdam",
        "chat anthropic/scripted",
        "execute_tool bash",
        "gen_ai.operation.name",
        "gen_ai.request.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.tool.name",
        id.as_str(),
        "/api/v1/jobs",
    ] {
        eventually(words, || collector.has(words));
    }
    for secret in ["secret-of-the-task", "secret-of-the-output", "key-of-the-test", "cof_"] {
        assert!(!collector.has(secret), "{secret}");
    }
}

#[test]
fn a_collector_that_is_not_there_keeps_nobody_waiting() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let agent = Agent::new(Dialect::Messages, [bash("true")]);
    let served = Served::with_options(agent, &["--otlp", &url]);
    let id = served.submit(&["go"]);
    served.until(&id, "ended");
}
