//! The race: who takes more jobs, and tells of more, in the same time.
//!
//! The product's jobs are durable before they are acknowledged; the peers' are
//! entries of a dictionary. Nothing is run meanwhile: the product has one place
//! for a job, and what has it does nothing but wait.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::order::Order;
use super::server_http::{Connection, Window};
use super::server_load::{self, Load, median};
use super::server_peers::Peer;
use super::server_process::Running;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Submit,
    Status,
}

/// What is asked, and by how many connections at once.
pub(super) const CELLS: [(Question, usize); 4] = [
    (Question::Submit, 16),
    (Question::Submit, 64),
    (Question::Status, 16),
    (Question::Status, 64),
];

/// Jobs whose status is asked for.
const KNOWN: usize = 1000;

/// Jobs that do nothing, one after the other, each as long as a command may take.
const BLOCKERS: usize = 12;
pub(super) const BLOCKER: &str = r#"{"task":"Run: sleep 3600","priority":100}"#;

/// What is submitted.
const TASK: &str = r#"{"task":"Run: echo hi > out.txt"}"#;

/// How many jobs may wait: more than there is time for.
pub(super) const QUEUE: [&str; 4] = ["--queue", "100000000", "--queue-per-user", "100000000"];

/// One that takes part, or why it cannot.
pub(super) struct Participant {
    pub(super) name: &'static str,
    pub(super) outcome: Result<Scores, String>,
}

/// What one came to, in the order of [`CELLS`].
#[derive(Default)]
pub(super) struct Scores {
    pub(super) cells: Vec<Score>,
    /// Jobs that it had in the end.
    pub(super) jobs: usize,
}

/// Medians of the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Score {
    pub(super) a_second: f64,
    pub(super) p99: Duration,
    /// CPU time of the server for a request.
    pub(super) cpu: Duration,
}

/// The product's name in tables.
pub(super) const PRODUCT: &str = "cofferdam serve, durable";

/// How long it is raced.
#[derive(Clone, Copy)]
pub(super) struct Rounds {
    pub(super) count: usize,
    pub(super) span: Duration,
}

/// A server, with what it is asked and what was seen.
struct Racer {
    running: Running,
    submit: Arc<Vec<Vec<u8>>>,
    status: Arc<Vec<Vec<u8>>>,
    seen: [Vec<Score>; CELLS.len()],
    jobs: usize,
}

pub(super) fn run(
    runtime: &Runtime,
    (binary, root, directory): (&Path, &Path, &Path),
    rounds: Rounds,
    order: &mut Order,
    go_on: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Participant>> {
    let mut options = vec!["--jobs", "1"];
    options.extend(QUEUE);
    let product = Running::product(binary, directory, "race", &options)?;
    runtime.block_on(block(&product, BLOCKERS))?;
    let mut racers = vec![(PRODUCT, runtime.block_on(Racer::prepare(product)))];
    for peer in Peer::ALL {
        let racer = peer.start(root).and_then(|running| runtime.block_on(Racer::prepare(running)));
        racers.push((peer.name(), racer));
    }
    // Not counted: nothing is warm yet.
    for racer in racers.iter_mut().filter_map(|(_, racer)| racer.as_mut().ok()) {
        for cell in 0..CELLS.len() {
            runtime.block_on(racer.turn(cell, rounds.span / 2))?;
        }
        racer.seen = Default::default();
    }
    for number in order.turns(&vec![rounds.count; racers.len() * CELLS.len()]) {
        go_on()?;
        let (racer, cell) = (number / CELLS.len(), number % CELLS.len());
        let Some((_, racer)) = racers.get_mut(racer) else { continue };
        if let Ok(ready) = racer
            && let Err(error) = runtime.block_on(ready.turn(cell, rounds.span))
        {
            *racer = Err(error);
        }
    }
    let mut participants = Vec::new();
    for (name, racer) in racers {
        let outcome = racer.and_then(Racer::finish).map_err(|error| format!("{error:#}"));
        participants.push(Participant { name, outcome });
    }
    Ok(participants)
}

/// Gives a server with one place for a job something that keeps it busy doing
/// nothing, and waits until it has begun.
pub(super) async fn block(server: &Running, blockers: usize) -> anyhow::Result<()> {
    let mut connection = Connection::open(server.address, Window::Usual).await?;
    let requests = server.requests();
    let mut body = Vec::new();
    for _ in 0..blockers {
        let status = connection.ask(&requests.post("/schedule", BLOCKER), &mut body).await?;
        if status != 202 {
            bail!("a blocker was answered {status}: {}", String::from_utf8_lossy(&body));
        }
    }
    for _ in 0..600 {
        connection.ask(&requests.get("/api/v1/jobs?status=running"), &mut body).await?;
        let page: Value = serde_json::from_slice(&body)?;
        let begun = page.pointer("/jobs/0/last_event").and_then(Value::as_u64);
        // The command has been started by then.
        if begun.is_some_and(|last| last >= 7) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the server does not begin its first job");
}

impl Racer {
    async fn prepare(running: Running) -> anyhow::Result<Self> {
        let requests = running.requests();
        let submit = requests.post("/schedule", TASK);
        let mut connection = Connection::open(running.address, Window::Usual).await?;
        let mut body = Vec::new();
        let mut status = Vec::new();
        for _ in 0..KNOWN {
            connection.ask(&submit, &mut body).await?;
            let id = job_id(&body)?;
            status.push(requests.get(&format!("/status/{id}")));
        }
        let submit = Arc::new(vec![submit]);
        let status = Arc::new(status);
        Ok(Self { running, submit, status, seen: Default::default(), jobs: KNOWN })
    }

    async fn turn(&mut self, cell: usize, span: Duration) -> anyhow::Result<()> {
        let Some((question, connections)) = CELLS.get(cell).copied() else { return Ok(()) };
        let (requests, status) = match question {
            Question::Submit => (&self.submit, 202),
            Question::Status => (&self.status, 200),
        };
        let before = self.running.usage().cpu;
        let address = self.running.address;
        let load =
            server_load::ask_for(address, Arc::clone(requests), status, connections, span).await?;
        let cpu = self.running.usage().cpu.saturating_sub(before);
        if question == Question::Submit {
            self.jobs += load.answers;
        }
        if let Some(seen) = self.seen.get_mut(cell) {
            seen.push(Score::of(&load, cpu));
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<Scores> {
        let cells = self.seen.iter().map(|seen| Score::middle(seen));
        let cells = cells.collect::<Option<Vec<_>>>().context("it had no turn")?;
        self.running.stop()?;
        Ok(Scores { cells, jobs: self.jobs })
    }
}

/// The id in the answer to a submission.
pub(super) fn job_id(body: &[u8]) -> anyhow::Result<String> {
    let answer: Value = serde_json::from_slice(body).context("the answer is no JSON")?;
    let id = answer.get("job_id").and_then(Value::as_str);
    Ok(id.with_context(|| format!("no job in the answer {answer}"))?.to_owned())
}

impl Score {
    fn of(load: &Load, cpu: Duration) -> Self {
        let answers = u32::try_from(load.answers).unwrap_or(u32::MAX).max(1);
        Self { a_second: load.a_second(), p99: load.times.p99(), cpu: cpu / answers }
    }

    fn middle(seen: &[Self]) -> Option<Self> {
        let seconds = |of: fn(&Self) -> f64| median(seen.iter().map(of).collect());
        Some(Self {
            a_second: seconds(|score| score.a_second)?,
            p99: Duration::from_secs_f64(seconds(|score| score.p99.as_secs_f64())?),
            cpu: Duration::from_secs_f64(seconds(|score| score.cpu.as_secs_f64())?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_job() {
        assert_eq!(job_id(br#"{"job_id":"a-1"}"#).unwrap(), "a-1");
        assert!(job_id(br#"{"error":"full"}"#).is_err());
    }

    #[test]
    fn the_round_in_the_middle_counts() {
        let score = |a_second, p99| Score {
            a_second,
            p99: Duration::from_millis(p99),
            cpu: Duration::from_micros(5),
        };
        let middle = Score::middle(&[score(1.0, 9), score(8.0, 2), score(3.0, 4)]).unwrap();
        assert!((middle.a_second - 3.0).abs() < 1e-9);
        assert_eq!(middle.p99.as_millis(), 4);
        assert!(Score::middle(&[]).is_none());
    }
}
