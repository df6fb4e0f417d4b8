//! Health: whether a server answers a simple question soon, asked again and again
//! while it has much to do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::server_load::Times;
use super::server_process::Running;

/// The time between two questions.
const EVERY: Duration = Duration::from_millis(20);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks, in a thread and on a connection of its own.
pub(super) struct Asker {
    enough: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Times>>,
}

impl Asker {
    pub(super) fn start(server: &Running) -> anyhow::Result<Self> {
        let request = server.requests().get("/health");
        let stream = TcpStream::connect(server.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let enough = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&enough);
        let name = std::thread::Builder::new().name("health".to_owned());
        let thread = name.spawn(move || ask(stream, &request, &seen))?;
        Ok(Self { enough, thread })
    }

    /// How long the answers took.
    pub(super) fn stop(self) -> anyhow::Result<Times> {
        self.enough.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(times) => times.context("asking for health"),
            Err(_) => bail!("asking for health broke"),
        }
    }
}

fn ask(mut stream: TcpStream, request: &[u8], enough: &AtomicBool) -> anyhow::Result<Times> {
    let mut times = Vec::new();
    let mut buffer = [0; 4096];
    while !enough.load(Ordering::Relaxed) {
        let sent = Instant::now();
        stream.write_all(request)?;
        let read = stream.read(&mut buffer)?;
        let answer = buffer.get(..read).unwrap_or_default();
        if !answer.starts_with(b"HTTP/1.1 200") {
            bail!("answered {:?}", String::from_utf8_lossy(answer));
        }
        let taken = sent.elapsed();
        times.extend(with_those_that_waited(taken));
        std::thread::sleep(EVERY.saturating_sub(taken));
    }
    let mut all = Times::default();
    all.extend(times);
    Ok(all)
}

/// An answer's time, and the times of the questions that would have been asked while
/// it was awaited: what is slow must not be asked less for that.
fn with_those_that_waited(taken: Duration) -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(taken), |time| {
        time.checked_sub(EVERY).filter(|left| !left.is_zero())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_counts_for_all_who_would_have_waited() {
        let times = |taken| -> Vec<u128> {
            let taken = Duration::from_millis(taken);
            with_those_that_waited(taken).map(|time| time.as_millis()).collect()
        };
        assert_eq!(times(3), [3]);
        assert_eq!(times(45), [45, 25, 5]);
        assert_eq!(times(40), [40, 20]);
    }
}
