//! Two servers that share a database, one of which dies or falls silent.

use std::time::{Duration, Instant};

use super::dice::Dice;
use super::model::Plan;
use super::scene::{Expected, OVER, Scene};
use super::violation::{Violation, ensure};
use super::{CrashSuite, Tally};

/// Jobs of a round.
const JOBS: usize = 8;

/// How long a server may take to remove what its earlier life left.
const RECONCILED: Duration = Duration::from_secs(30);

/// Longer than the lease: the other server has taken over.
const SILENCE: Duration = Duration::from_secs(4);

/// What happens to the first server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is dead until all jobs are over.
    Dead,
    /// It comes back while the other one works on its jobs.
    Back,
    /// It is halted for longer than its leases last, and goes on.
    Halted,
}

impl CrashSuite {
    /// Two servers on one database, of which one is killed at random; it comes back
    /// at the end, or earlier, or was only halted.
    ///
    /// # Errors
    /// The first violation. What it was found in is kept.
    pub fn two_servers(&self, rounds: u32) -> Result<Tally, Violation> {
        ensure(self.postgres.is_some(), || "two servers need PostgreSQL".to_owned())?;
        let mut dice = Dice(self.seed);
        let mut tally = Tally::default();
        let fates = [Fate::Dead, Fate::Back, Fate::Halted].into_iter().cycle();
        self.scene(2, &["--jobs", "6"])?.play(|scene| {
            for (round, fate) in (0..rounds).zip(fates) {
                let jobs = round_of(scene, fate, &mut dice).map_err(|Violation(what)| {
                    Violation(format!("two servers, round {round}: {what}"))
                })?;
                tally = Tally { rounds: tally.rounds + 1, jobs: tally.jobs + jobs };
            }
            Ok(tally)
        })
    }
}

fn round_of(scene: &mut Scene, fate: Fate, dice: &mut Dice) -> Result<usize, Violation> {
    scene.node(0)?.revived = false;
    scene.start(0)?;
    scene.start(1)?;
    for _ in 0..JOBS {
        scene.submit(Plan::Count(4), Expected::Complete)?;
    }
    std::thread::sleep(dice.between(100, 1_500));
    if fate == Fate::Halted {
        scene.node(0)?.halt();
    } else {
        scene.kill(0)?;
    }
    let back = Instant::now() + SILENCE;
    match fate {
        Fate::Dead => scene.all_over(OVER)?,
        Fate::Back | Fate::Halted => {
            scene.until("the lease", OVER, |_| Ok(Instant::now() > back))?;
        }
    }
    if fate == Fate::Halted {
        scene.node(0)?.go_on();
    } else {
        scene.start(0)?;
    }
    scene.all_over(OVER)?;
    for number in 0..2 {
        scene.node(number)?.watch.no_sandbox_within(RECONCILED)?;
    }
    let jobs = scene.verify()?;
    scene.stop(0)?;
    scene.stop(1)?;
    Ok(jobs)
}
