//! What else can happen to one server: it is asked to stop, its sandboxes are killed,
//! and it is killed at random.

use std::time::{Duration, Instant};

use serde_json::json;

use super::dice::Dice;
use super::leftovers;
use super::model::Plan;
use super::scene::{Expected, OVER, Scene, is_over};
use super::states::submit;
use super::violation::{Violation, ensure};
use super::{CrashSuite, Tally};
use crate::script::Fault;

/// The grace that servers are started with, and what they may need besides.
const DRAINED: Duration = Duration::from_secs(5 + 4);

/// How long a server may take that is asked to stop a second time.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Longer than a lease.
const LEASE_OVER: Duration = Duration::from_secs(3);

/// Jobs that are under way at once while servers are killed at random.
const CROWD: usize = 25;

/// How long those may take.
const PATIENCE: Duration = Duration::from_secs(300);

type Trial = fn(&mut Scene, u32) -> Result<(), Violation>;

const TRIALS: &[(&str, Trial)] = &[
    ("stop-in-tools", stop_in_tools),
    ("stop-in-answers", stop_in_answers),
    ("stop-twice", stop_twice),
    ("sandbox-killed", sandbox_killed),
    ("orphans", orphans),
    ("halted", halted),
    ("many-events", many_events),
];

impl CrashSuite {
    /// The names of the other trials of one server.
    pub fn trials() -> impl Iterator<Item = &'static str> {
        TRIALS.iter().map(|(name, _)| *name)
    }

    /// One of the other trials, in rounds that have the same data directory.
    ///
    /// # Errors
    /// The first violation. What it was found in is kept.
    pub fn trial(&self, name: &str, rounds: u32) -> Result<Tally, Violation> {
        let found = TRIALS.iter().find(|(known, _)| *known == name);
        let (_, trial) = found.ok_or_else(|| Violation(format!("no such trial: {name}")))?;
        let mut tally = Tally::default();
        self.scene(1, &[])?.play(|scene| {
            for round in 0..rounds {
                let tried = trial(scene, round).and_then(|()| scene.all_over(OVER));
                let jobs = tried.and_then(|()| scene.verify()).map_err(|Violation(what)| {
                    Violation(format!("{name}, round {round}: {what}"))
                })?;
                scene.stop(0)?;
                tally = Tally { rounds: tally.rounds + 1, jobs: tally.jobs + jobs };
            }
            Ok(tally)
        })
    }

    /// So many jobs, some of them cancelled, while their server is killed at random.
    ///
    /// # Errors
    /// The first violation. What it was found in is kept.
    pub fn random(&self, jobs: usize) -> Result<Tally, Violation> {
        let mut dice = Dice(self.seed);
        let mut tally = Tally::default();
        self.scene(1, &["--jobs", "8"])?.play(|scene| {
            while tally.jobs < jobs {
                let crowd = CROWD.min(jobs - tally.jobs);
                scene.start(0)?;
                random_kills(scene, crowd, &mut dice)?;
                tally.jobs += scene.verify()?;
                tally.rounds += 1;
                scene.stop(0)?;
            }
            Ok(tally)
        })
    }
}

fn random_kills(scene: &mut Scene, crowd: usize, dice: &mut Dice) -> Result<(), Violation> {
    let mut cancelled = Vec::new();
    let mut kill_at = Instant::now() + dice.between(200, 2_500);
    let (mut submitted, mut over) = (0, 0);
    scene.until("the end of all jobs", PATIENCE, |scene| {
        if Instant::now() >= kill_at {
            scene.kill(0)?;
            kill_at = Instant::now() + dice.between(200, 2_500);
            return Ok(false);
        }
        if submitted < crowd {
            submitted += 1;
            if dice.one_in(8) {
                cancelled.push(scene.submit(Plan::Endless, Expected::Cancelled)?);
            } else {
                scene.submit(Plan::Count(2), Expected::Complete)?;
            }
            return Ok(false);
        }
        if let Some(job) = cancelled.pop() {
            scene.order(job, "cancel")?;
        } else if over < crowd && is_over(&scene.job(over)?) {
            over += 1;
        }
        Ok(over == crowd)
    })
}

/// Commands run on while no server is there.
fn stop_in_tools(scene: &mut Scene, _: u32) -> Result<(), Violation> {
    scene.start(0)?;
    submit(scene, Plan::Count(3), Expected::Complete)?;
    scene.all_reached("tool_started")?;
    scene.node(0)?.ask_to_stop();
    left(scene)?;
    scene.start(0)
}

/// A server that waits for an answer takes no job any more.
fn stop_in_answers(scene: &mut Scene, round: u32) -> Result<(), Violation> {
    scene.start(0)?;
    scene.model.strike(round as usize % 3, Fault::StallHeaders);
    submit(scene, Plan::Count(2), Expected::Complete)?;
    scene.until("the question", OVER, |scene| Ok(scene.model.has_struck()))?;
    let api = scene.api();
    let begun = Instant::now();
    scene.node(0)?.ask_to_stop();
    let task = json!({ "task": "One more." });
    while let Some(api) = &api {
        match api.post("/api/v1/jobs", Some(&task)) {
            Ok(answer) if answer.status == 503 => break,
            // Asked before the signal has come: a job like any other.
            Ok(answer) if answer.is_good() && begun.elapsed() < AT_ONCE => {}
            Ok(answer) => return Err(Violation(format!("while stopping: {}", answer.text()))),
            Err(_) => break,
        }
    }
    left(scene)?;
    scene.start(0)
}

/// Whoever asks twice does not wait.
fn stop_twice(scene: &mut Scene, round: u32) -> Result<(), Violation> {
    scene.start(0)?;
    scene.model.strike(round as usize % 3, Fault::StallHeaders);
    submit(scene, Plan::Count(2), Expected::Complete)?;
    scene.until("the question", OVER, |scene| Ok(scene.model.has_struck()))?;
    let node = scene.node(0)?;
    node.ask_to_stop();
    node.says("stopping", OVER)?;
    node.ask_to_stop();
    let status = node.left_within(AT_ONCE)?;
    ensure(status.code().is_some_and(|code| code != 0), || format!("it ended with {status}"))?;
    scene.start(0)
}

/// A server that was asked to stop ends well, and in time.
fn left(scene: &mut Scene) -> Result<(), Violation> {
    let status = scene.node(0)?.left_within(DRAINED)?;
    ensure(status.success(), || format!("a server that was to stop ended with {status}"))
}

/// The sandboxes die in the middle of their commands.
fn sandbox_killed(scene: &mut Scene, _: u32) -> Result<(), Violation> {
    scene.start(0)?;
    submit(scene, Plan::Count(3), Expected::Any)?;
    scene.all_reached("tool_started")?;
    let supervisors = scene.node(0)?.watch.supervisors();
    ensure(!supervisors.is_empty(), || "there is no sandbox to be killed".to_owned())?;
    supervisors.into_iter().for_each(leftovers::kill);
    Ok(())
}

/// Many sandboxes with endless commands are there when the server dies.
fn orphans(scene: &mut Scene, _: u32) -> Result<(), Violation> {
    scene.start(0)?;
    for _ in 0..10 {
        scene.submit(Plan::Endless, Expected::Cancelled)?;
    }
    scene.all_reached("tool_started")?;
    scene.kill(0)?;
    for job in 0..scene.jobs.len() {
        scene.order(job, "cancel")?;
    }
    Ok(())
}

/// The server is halted for longer than its leases last, and nobody else is there.
fn halted(scene: &mut Scene, _: u32) -> Result<(), Violation> {
    scene.start(0)?;
    submit(scene, Plan::Count(6), Expected::Complete)?;
    scene.all_reached("tool_started")?;
    scene.node(0)?.halt();
    std::thread::sleep(LEASE_OVER);
    scene.node(0)?.go_on();
    Ok(())
}

/// A reader follows a long job over several lives of the server.
fn many_events(scene: &mut Scene, _: u32) -> Result<(), Violation> {
    scene.start(0)?;
    let job = scene.submit(Plan::Many(8), Expected::Complete)?;
    for events in [60, 150, 260] {
        scene.until("many events", OVER, |scene| Ok(scene.seen(job) >= events))?;
        scene.kill(0)?;
    }
    Ok(())
}
