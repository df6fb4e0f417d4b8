//! The race: contenders take turns at random, and each turn's time is kept.

use std::time::{Duration, Instant};

use super::host;
use super::order::Order;
use super::sample::Samples;

/// How long a turn waits for an instant in which nothing else runs.
const CALM: Duration = Duration::from_millis(50);

/// Takes the time of one turn.
type Turn<'a> = Box<dyn FnMut() -> anyhow::Result<Duration> + 'a>;

/// Something whose times are taken.
pub(super) struct Contender<'a> {
    name: String,
    turns: usize,
    turn: Result<Turn<'a>, String>,
}

/// What became of a contender: its times, or why it has none.
pub(super) struct Finish {
    pub(super) name: String,
    pub(super) times: Result<Samples, String>,
}

/// What became of all.
pub(super) struct Finishes {
    pub(super) all: Vec<Finish>,
    /// How many turns were taken, and how many of them while something else ran.
    pub(super) turns: usize,
    pub(super) disturbed: usize,
}

impl<'a> Contender<'a> {
    /// One that can take part.
    pub(super) fn new(
        name: impl Into<String>,
        turns: usize,
        turn: impl FnMut() -> anyhow::Result<Duration> + 'a,
    ) -> Self {
        Self { name: name.into(), turns, turn: Ok(Box::new(turn)) }
    }

    /// One that takes part if its preparation went well.
    pub(super) fn prepared<Take>(
        name: impl Into<String>,
        turns: usize,
        turn: anyhow::Result<Take>,
    ) -> Self
    where
        Take: FnMut() -> anyhow::Result<Duration> + 'a,
    {
        match turn {
            Ok(turn) => Self::new(name, turns, turn),
            Err(error) => Self { name: name.into(), turns: 0, turn: Err(format!("{error:#}")) },
        }
    }
}

/// Lets each have its turns, as long as `go_on` does not fail. A contender that
/// fails takes no further part.
pub(super) fn run(
    contenders: Vec<Contender<'_>>,
    order: &mut Order,
    go_on: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<Finishes> {
    let turns: Vec<usize> = contenders.iter().map(|contender| contender.turns).collect();
    let mut contenders: Vec<(Contender<'_>, Vec<Duration>)> =
        contenders.into_iter().map(|contender| (contender, Vec::new())).collect();
    // The first time is another thing: nothing is in any cache yet.
    for (contender, _) in &mut contenders {
        contender.take_turn();
    }
    let (mut taken, mut disturbed) = (0, 0);
    for number in order.turns(&turns) {
        let Some((contender, times)) = contenders.get_mut(number) else { continue };
        go_on()?;
        let calm = wait_for_calm();
        if let Some(time) = contender.take_turn() {
            times.push(time);
            taken += 1;
            disturbed += usize::from(!calm);
        }
    }
    let all = contenders.into_iter().map(|(contender, times)| contender.finish(times)).collect();
    Ok(Finishes { all, turns: taken, disturbed })
}

impl Contender<'_> {
    fn take_turn(&mut self) -> Option<Duration> {
        let outcome = self.turn.as_mut().ok()?();
        outcome.map_err(|error| self.turn = Err(format!("{error:#}"))).ok()
    }

    fn finish(self, times: Vec<Duration>) -> Finish {
        let times = match (self.turn, Samples::of(times)) {
            (Err(reason), _) => Err(reason),
            (Ok(_), None) => Err("it had no turn".to_owned()),
            (Ok(_), Some(samples)) => Ok(samples),
        };
        Finish { name: self.name, times }
    }
}

/// Waits until nothing else runs; `false` if something always does.
fn wait_for_calm() -> bool {
    let deadline = Instant::now() + CALM;
    while host::is_busy() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn who_fails_has_a_reason_and_who_does_not_has_times() {
        let mut left = 2;
        let failing = || {
            left -= 1;
            if left == 0 {
                bail!("out of breath");
            }
            Ok(Duration::from_millis(1))
        };
        let contenders = vec![
            Contender::new("steady", 3, || Ok(Duration::from_millis(5))),
            Contender::new("failing", 3, failing),
            Contender::prepared("absent", 3, Err::<fn() -> _, _>(anyhow::anyhow!("not here"))),
        ];
        let finishes = run(contenders, &mut Order::new(1), || Ok(())).unwrap();
        let words: Vec<_> = finishes
            .all
            .iter()
            .map(|finish| match &finish.times {
                Ok(samples) => format!("{}: {}", finish.name, samples.count()),
                Err(reason) => format!("{}: {reason}", finish.name),
            })
            .collect();
        assert_eq!(words, ["steady: 3", "failing: out of breath", "absent: not here"]);
        assert_eq!(finishes.turns, 3);
    }

    #[test]
    fn a_race_can_be_broken_off() {
        let steady = Contender::new("steady", 3, || Ok(Duration::from_millis(5)));
        let broken = run(vec![steady], &mut Order::new(1), || bail!("rain"));
        assert_eq!(broken.err().unwrap().to_string(), "rain");
    }
}
