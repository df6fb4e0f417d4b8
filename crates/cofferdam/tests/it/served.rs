//! `cofferdam serve` beside a scripted model, and a plain HTTP client for it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cofferdam_testkit::{Dialect, Turn};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::home::Home;
use crate::invocation::Running;
use crate::{PATIENCE, eventually};

/// A server that runs, with the token of its admin.
pub(crate) struct Served {
    running: Option<Running>,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    options: Vec<String>,
    agent: Agent,
}

/// What most servers are started with: nobody comes back for the sandboxes of jobs that a
/// test leaves.
pub(crate) const OPTIONS: &[&str] = &["--linger", "10s"];

impl Served {
    /// A server whose model says this in each job, one turn after another, then
    /// "done".
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        let turns: Vec<Turn> = turns.into_iter().collect();
        Self::with(move |_, said| turns.get(said).cloned().unwrap_or_else(|| Turn::text("done")))
    }

    /// A server whose model looks at each request, and at how often it has spoken in
    /// that job.
    pub(crate) fn with(script: impl FnMut(&Value, usize) -> Turn + Send + 'static) -> Self {
        Self::at(Home::new(), OPTIONS, script)
    }

    /// The same in a home of its own, with other options.
    pub(crate) fn at(
        home: Home,
        options: &[&str],
        mut script: impl FnMut(&Value, usize) -> Turn + Send + 'static,
    ) -> Self {
        // How far a job is shows in its own conversation: others run beside it.
        let agent = Agent::with_home(home, Dialect::Messages, move |request, _| {
            let said = request.body["messages"].as_array().map_or(0, Vec::len);
            script(&request.body, said / 2)
        });
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let (running, address) = start(&agent, "127.0.0.1:0", &options);
        let token = agent.home.path().join("token");
        let token = std::fs::read_to_string(token).unwrap().trim().to_owned();
        Self { running: Some(running), address, token, options, agent }
    }

    /// Kills it in the middle of things, and starts another where it was.
    pub(crate) fn kill_and_restart(&mut self) {
        let running = self.running.take().unwrap();
        running.signal(Signal::KILL);
        running.wait();
        let (running, _) = start(&self.agent, &self.address.to_string(), &self.options);
        self.running = Some(running);
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> i32 {
        self.running.as_ref().unwrap().pid()
    }

    /// Its corner of the machine.
    pub(crate) fn home(&self) -> &Home {
        &self.agent.home
    }

    /// A request of the admin.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Ask {
        Ask::new(self.address, method, path).header("Authorization", &bearer(&self.token))
    }

    /// A request of nobody.
    pub(crate) fn nobody(&self, method: &str, path: &str) -> Ask {
        Ask::new(self.address, method, path)
    }

    /// A token of a new user who is no admin.
    pub(crate) fn new_user(&self, name: &str) -> String {
        let user = self.ask("POST", "/api/v1/users").json(&json!({ "name": name })).expect(201);
        let path = format!("/api/v1/users/{}/tokens", user["id"].as_str().unwrap());
        let made = self.ask("POST", &path).expect(201);
        made["secret"].as_str().unwrap().to_owned()
    }

    /// Submits a job; returns its id.
    pub(crate) fn submit(&self, job: &Value) -> String {
        let made = self.ask("POST", "/api/v1/jobs").json(job).expect(202);
        made["id"].as_str().unwrap().to_owned()
    }

    /// Waits until a job is at one of these.
    pub(crate) fn until(&self, job: &str, statuses: &[&str]) -> Value {
        let mut shown = Value::Null;
        eventually(&format!("a job that is {statuses:?}"), || {
            shown = self.ask("GET", &format!("/api/v1/jobs/{job}")).expect(200);
            statuses.contains(&shown["status"].as_str().unwrap())
        });
        shown
    }

    /// Waits until a job works in its sandbox: this file is there.
    pub(crate) fn until_file(&self, job: &str, path: &str) {
        eventually(&format!("a file {path}"), || {
            let path = format!("/api/v1/jobs/{job}/files/content?path={path}");
            self.ask("GET", &path).send().status == 200
        });
    }

    /// Stops the server and waits for its end.
    pub(crate) fn stop(mut self) {
        let running = self.running.take().unwrap();
        running.signal(Signal::TERM);
        let ran = running.wait().expect_code(0);
        assert!(!ran.errors().contains("panicked"), "{}", ran.errors());
    }
}

/// Starts a server that listens here; where that is.
fn start(agent: &Agent, listen: &str, options: &[String]) -> (Running, SocketAddr) {
    let running = agent
        .home
        .cofferdam(["serve", "--listen", listen, "--grace", "1s"])
        .words(options)
        .env("HOME", agent.home.beside("user"))
        .env("MODEL", "anthropic/scripted")
        // So nothing may be cut from what tells how far a job is.
        .env("CONTEXT_WINDOW", "10000000")
        .env("ANTHROPIC_BASE_URL", agent.base_url())
        .env("ANTHROPIC_API_KEY", "key-of-the-test")
        .spawn();
    let mut address = None;
    eventually("a server that listens", || {
        let said = running.so_far();
        let line = said.lines().find_map(|line| line.strip_prefix("listening on http://"));
        address = line.and_then(|line| line.parse().ok());
        assert!(address.is_some() || !running.has_ended(), "{said}");
        address.is_some()
    });
    (running, address.unwrap())
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.signal(Signal::TERM);
        let ran = running.wait();
        if std::thread::panicking() {
            // Seen with the test's failure.
            crate::tell(&format!("the server said: {}", ran.errors()));
        }
    }
}

/// What `Authorization` says of a token.
pub(crate) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// A request.
pub(crate) struct Ask {
    address: SocketAddr,
    head: String,
    body: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Ask {
    pub(crate) fn new(address: SocketAddr, method: &str, path: &str) -> Self {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        Self { address, head, body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// The same for another name of the server.
    pub(crate) fn host(mut self, host: &str) -> Self {
        let own = format!("\r\nHost: {}\r\n", self.address);
        self.head = self.head.replacen(&own, &format!("\r\nHost: {host}\r\n"), 1);
        self
    }

    pub(crate) fn body(mut self, media_type: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        let length = self.body.len().to_string();
        self.header("Content-Type", media_type).header("Content-Length", &length)
    }

    pub(crate) fn json(self, value: &Value) -> Self {
        self.body("application/json", value.to_string())
    }

    /// Sends it; the connection stands open.
    pub(crate) fn open(self) -> TcpStream {
        self.try_to_open().unwrap()
    }

    fn try_to_open(self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(self.head.as_bytes())?;
        stream.write_all(b"\r\n")?;
        // A server that has refused may have closed already.
        drop(stream.write_all(&self.body));
        Ok(stream)
    }

    /// Sends it as the handshake of a WebSocket.
    pub(crate) fn upgrade(&self) -> TcpStream {
        let upgrade = "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let head = self.head.replacen("\r\nConnection: close\r\n", upgrade, 1);
        Self { address: self.address, head, body: Vec::new() }.open()
    }

    /// Sends it and reads the answer.
    pub(crate) fn send(self) -> Answer {
        Answer::read(self.open())
    }

    /// The same, where nobody may listen yet, or whoever does may hang up at any moment.
    pub(crate) fn try_to_send(self) -> io::Result<Answer> {
        self.try_to_open().map(Answer::read)
    }

    /// The same, for an answer of this status in JSON.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        let answer = self.send();
        assert_eq!(answer.status, status, "{}{}", answer.head, answer.text());
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    /// The same, for a refusal of this code, told.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Value {
        let answer = self.send();
        assert_eq!(answer.status, status, "{}{}", answer.head, answer.text());
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let told = answer.json();
        assert_eq!((&told["code"], &told["status"]), (&json!(code), &json!(status)));
        assert!(told["detail"].is_string() && told["remedy"].is_string(), "{told}");
        told
    }
}

impl Answer {
    fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        drop(stream.read_to_end(&mut bytes));
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or(bytes.len());
        let (head, rest) = bytes.split_at(end);
        let head = String::from_utf8_lossy(head).into_owned();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let rest = rest.get(4..).unwrap_or_default();
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { unchunked(rest) } else { rest.to_vec() };
        Self { status, head, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(there, _)| there.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The body of chunks; it must have its end.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|part| part == b"\r\n").expect("the body was cut");
        let size = std::str::from_utf8(&bytes[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 2 + size + 2..];
    }
}

/// The events in a stream that has ended: number, kind and data of each.
pub(crate) fn events(text: &str) -> Vec<(u64, String, Value)> {
    let frames = text.split("\n\n").filter(|frame| frame.starts_with("id: "));
    frames
        .map(|frame| {
            let mut lines = frame.lines();
            let mut field =
                |name: &str| lines.next().unwrap().strip_prefix(name).unwrap().to_owned();
            let (id, kind, data) = (field("id: "), field("event: "), field("data: "));
            (id.parse().unwrap(), kind, serde_json::from_str(&data).unwrap())
        })
        .collect()
}

/// Reads from a connection until this has come.
pub(crate) fn read_until(stream: &mut TcpStream, wanted: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    while !bytes.windows(wanted.len()).any(|part| part == wanted) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&buffer[..read]);
    }
    bytes
}
