//! Load: connections that ask as soon as they are answered, for a while.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::task::JoinSet;

use super::server_http::{Connection, Window};

/// What a while of asking came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pub(super) answers: usize,
    pub(super) elapsed: Duration,
    /// How long each answer took.
    pub(super) times: Times,
}

impl Load {
    pub(super) fn a_second(&self) -> f64 {
        count(self.answers) / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Asks for `span` by so many connections at once. Each sends the requests in turn,
/// beginning with another one; every answer must have this status.
pub(super) async fn ask_for(
    address: SocketAddr,
    requests: Arc<Vec<Vec<u8>>>,
    status: u16,
    connections: usize,
    span: Duration,
) -> anyhow::Result<Load> {
    // All are there before the time begins.
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(address, Window::Usual).await?);
    }
    let begun = Instant::now();
    let mut asking = JoinSet::new();
    for (number, mut connection) in open.into_iter().enumerate() {
        let requests = Arc::clone(&requests);
        asking.spawn(async move {
            let mut times = Vec::new();
            let mut body = Vec::new();
            let turn = requests.iter().cycle().skip(number * requests.len() / connections);
            for request in turn {
                let sent = Instant::now();
                let got = connection.ask(request, &mut body).await?;
                if got != status {
                    let text = String::from_utf8_lossy(&body).into_owned();
                    bail!("answered {got}, not {status}: {text}");
                }
                times.push(sent.elapsed());
                if begun.elapsed() >= span {
                    break;
                }
            }
            Ok(times)
        });
    }
    let mut load = Load::default();
    while let Some(asked) = asking.join_next().await {
        load.times.extend(asked.context("a connection's task broke")??);
    }
    load.elapsed = begun.elapsed();
    load.answers = load.times.count();
    Ok(load)
}

/// Many times of one thing.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub(super) fn extend(&mut self, more: impl IntoIterator<Item = Duration>) {
        self.0.extend(more);
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The shortest that at least 99 of 100 do not exceed.
    pub(super) fn p99(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * 99).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(super) fn longest(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

/// A count, to reckon with.
pub(super) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// The number in the middle, or what lies between the two that are.
pub(super) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_unstable_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    if numbers.len() % 2 == 1 {
        return Some(upper);
    }
    numbers.get(middle.checked_sub(1)?).map(|lower| f64::midpoint(*lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_exceeds_the_99th_percentile() {
        let mut times = Times::default();
        times.extend((1..=100).map(Duration::from_millis));
        assert_eq!(times.p99(), Duration::from_millis(99));
        assert_eq!(times.longest(), Duration::from_millis(100));
        assert_eq!(Times::default().p99(), Duration::ZERO);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
