//! A trial: an agent works through a script once, and what is seen of it from
//! outside is kept.
//!
//! The model is a server in this process, which answers at once. What it needs
//! for that is measured too, so that nobody takes it for the agent's time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use cofferdam_testkit::{Dialect, Recorded, ScriptedServer, Turn};
use serde_json::json;
use tokio::runtime::Runtime;

use super::agent_contender::Agent;
use super::agent_memory::Memory;
use super::program::{self, Companion};

/// How long an agent may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The body's end, by which a client knows that the answer is whole.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// What the model has the agent do before it says that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// Nothing.
    Start,
    /// So many shell turns, one call each.
    Shell(u32),
    /// Four calls of `sleep 1` in one answer.
    Sleeps,
}

impl Script {
    pub(super) fn turns(self) -> Vec<Turn> {
        let bash = |command: String| ("bash", json!({ "command": command }));
        match self {
            Self::Start => Vec::new(),
            // Each another one: the same thing again and again is no work.
            Self::Shell(count) => (0..count)
                .map(|number| Turn::calls([bash(format!("echo turn {number}"))]))
                .collect(),
            Self::Sleeps => {
                let sleep = |number| bash(format!("sleep 1; echo slept {number}"));
                vec![Turn::calls((0..4).map(sleep))]
            }
        }
    }
}

/// Whether the memory is looked at meanwhile, which takes time from the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Away,
    AtMemory,
}

/// What was seen.
pub(super) struct Trial {
    /// From the program's start to the first request.
    pub(super) first: Duration,
    /// From its start to its end.
    pub(super) whole: Duration,
    /// From each request to the next.
    pub(super) gaps: Vec<Duration>,
    /// The first request, as it came.
    pub(super) opening: Vec<u8>,
    /// The last one.
    pub(super) closing: Vec<u8>,
    /// Where it was looked at.
    pub(super) memory: Memory,
}

/// Where trials take place.
pub(super) struct Ground<'a> {
    /// Drives the servers, in a thread of its own.
    pub(super) runtime: &'a Runtime,
    /// Workspaces are made here.
    pub(super) directory: &'a Path,
}

impl Ground<'_> {
    /// Has the agent work through a script, in a new workspace.
    pub(super) fn trial(
        &self,
        agent: &Agent,
        dialect: Dialect,
        script: Script,
        look: Look,
    ) -> anyhow::Result<Trial> {
        let turns = script.turns();
        let expected = turns.len() + 1;
        let server = self.runtime.block_on(ScriptedServer::start(turns))?;
        let workspace = tempfile::tempdir_in(self.directory)?;
        let mut command = agent.command(&server, dialect, workspace.path());
        let start = Instant::now();
        let mut child = Companion(command.spawn().with_context(|| agent.name())?);
        let (status, memory) = match look {
            Look::Away => (child.ends_within(PATIENCE)?, Memory::default()),
            Look::AtMemory => Memory::watch(&mut child, PATIENCE)?,
        };
        let whole = start.elapsed();
        let requests = server.requests();
        match status {
            Some(status) if status.success() => {}
            Some(status) => bail!("it ended with {status} after {} requests", requests.len()),
            None => bail!("it did not end in time, after {} requests", requests.len()),
        }
        ensure!(requests.len() == expected, "{} requests, not {expected}", requests.len());
        Trial::of(&requests, start, whole, memory).context("there was no request")
    }

    /// An untimed run, which leaves behind whatever only the first one has to
    /// make; its failure says what the agent said last.
    pub(super) fn rehearse(&self, agent: &Agent) -> anyhow::Result<()> {
        let server = self.runtime.block_on(ScriptedServer::start([]))?;
        let workspace = tempfile::tempdir_in(self.directory)?;
        let mut command = agent.command(&server, Dialect::Messages, workspace.path());
        program::output(&mut command).map(|_| ())
    }

    /// The time that the server takes for a turn by itself: a client that thinks
    /// nothing sends a request of an agent's, again and again.
    pub(super) fn server_alone(&self, body: &[u8], turns: u32) -> anyhow::Result<Vec<Duration>> {
        let script = Script::Shell(turns).turns();
        let server = self.runtime.block_on(ScriptedServer::start(script))?;
        let mut stream = TcpStream::connect(server.address())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let path = Dialect::Messages.path();
        let head = format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
        let request = [head.as_bytes(), body].concat();
        let mut answer = vec![0; 64 << 10];
        (0..turns)
            .map(|_| {
                let start = Instant::now();
                stream.write_all(&request)?;
                let mut length = 0;
                loop {
                    let room = answer.get_mut(length..).context("the answer is too long")?;
                    let read = stream.read(room)?;
                    ensure!(read > 0, "the server has left");
                    length += read;
                    if answer.get(..length).is_some_and(|all| all.ends_with(LAST_CHUNK)) {
                        return Ok(start.elapsed());
                    }
                }
            })
            .collect()
    }
}

impl Trial {
    fn of(requests: &[Recorded], start: Instant, whole: Duration, memory: Memory) -> Option<Self> {
        let gaps = requests.iter().zip(requests.iter().skip(1));
        Some(Self {
            first: requests.first()?.at.duration_since(start),
            whole,
            gaps: gaps.map(|(one, next)| next.at.duration_since(one.at)).collect(),
            opening: requests.first()?.bytes.clone(),
            closing: requests.last()?.bytes.clone(),
            memory,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gaps_lie_between_the_requests() {
        let start = Instant::now();
        let request = |after: u64| Recorded {
            dialect: Dialect::Messages,
            path: String::new(),
            headers: Vec::new(),
            body: json!(null),
            bytes: vec![0; usize::try_from(after).unwrap()],
            at: start + Duration::from_millis(after),
            connection: 0,
        };
        let requests = [5, 7, 12].map(request);
        let trial =
            Trial::of(&requests, start, Duration::from_millis(20), Memory::default()).unwrap();
        assert_eq!(trial.first, Duration::from_millis(5));
        assert_eq!(trial.gaps, [2, 5].map(Duration::from_millis));
        assert_eq!((trial.opening.len(), trial.closing.len()), (5, 12));
        assert!(Trial::of(&[], start, Duration::ZERO, Memory::default()).is_none());
    }

    #[test]
    fn the_server_alone_answers_every_turn() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let ground = Ground { runtime: &runtime, directory: directory.path() };
        let body = json!({"model": "scripted", "stream": true, "messages": []}).to_string();
        assert_eq!(ground.server_alone(body.as_bytes(), 3).unwrap().len(), 3);
    }
}
