//! The states of a job, and how a server is killed in each of them.

use std::time::Duration;

use super::model::Plan;
use super::scene::{Expected, OVER, Scene, is_over};
use super::violation::{Violation, ensure};
use crate::script::Fault;

/// Jobs of a round.
pub(super) const JOBS: usize = 3;

/// A state that servers are killed in.
pub(super) struct State {
    pub(super) name: &'static str,
    /// The points at which the lives of the server end, with the how manieth time
    /// they are reached: that many rounds differ.
    points: &'static [(&'static str, u32, u32)],
    act: Act,
}

/// What is done with the jobs of a round.
#[derive(Clone, Copy)]
enum Act {
    /// They are waited for.
    Work,
    /// There is room for one at a time.
    Queue,
    /// They are cancelled in the middle of a command.
    Cancel,
    /// They are paused in the middle of a command, then resumed.
    Pause,
    /// The server is killed while it waits for the answer of this number.
    Ask(Wait),
}

#[derive(Clone, Copy)]
enum Wait {
    Answer,
    Rest,
}

const fn at(name: &'static str, points: &'static [(&'static str, u32, u32)], act: Act) -> State {
    State { name, points, act }
}

/// All states. Of `(point, first, rounds)`, round `r` is killed when the point is
/// reached for the `first + r % rounds`-th time.
pub(super) const STATES: &[State] = &[
    at("accepted", &[("accepted", 1, 3)], Act::Work),
    at("queued", &[("queued", 3, 3)], Act::Queue),
    at("leased", &[("leased", 1, 3)], Act::Work),
    at("taken-up", &[("taken-up", 1, 3)], Act::Work),
    at("provisioning", &[("provisioning", 1, 3)], Act::Work),
    at("model-asked", &[("model-asked", 1, 9)], Act::Work),
    at("model-waiting", &[], Act::Ask(Wait::Answer)),
    at("model-answering", &[("model-answering", 2, 25)], Act::Work),
    at("model-half", &[], Act::Ask(Wait::Rest)),
    at("model-answered", &[("model-answered", 1, 9)], Act::Work),
    at("tool-intent", &[("tool-intent", 1, 8)], Act::Work),
    at("tool-running", &[("tool-running", 1, 5)], Act::Work),
    at("tool-ended", &[("tool-ended", 1, 8)], Act::Work),
    at("collecting", &[("tool-running", 2, 3), ("collecting", 1, 2)], Act::Work),
    at("checking", &[("checking", 1, 3)], Act::Work),
    at("zipping", &[("zipping", 1, 3)], Act::Work),
    at("keeping", &[("keeping", 1, 6)], Act::Work),
    at("completing", &[("completing", 1, 3)], Act::Work),
    at("ended", &[("ended", 1, 3)], Act::Work),
    at("cancelling", &[("cancelling", 1, 3)], Act::Cancel),
    at("cancelled-zipping", &[("zipping", 1, 3)], Act::Cancel),
    at("cancelled-completing", &[("completing", 1, 3)], Act::Cancel),
    at("pausing", &[("pausing", 1, 3)], Act::Pause),
    at("resting", &[("resting", 1, 3)], Act::Pause),
    // The jobs of a round are taken up once each before they are paused.
    at("resuming", &[("taken-up", JOBS as u32 + 1, 3)], Act::Pause),
];

impl State {
    /// The state of this name.
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        STATES.iter().find(|state| state.name == name)
    }

    /// What its servers are started with.
    pub(super) fn words(&self) -> &'static [&'static str] {
        match self.act {
            Act::Queue => &["--jobs", "1"],
            _ => &[],
        }
    }

    /// One round, from the start of the server to its stop. How many jobs there
    /// were.
    pub(super) fn round(&self, scene: &mut Scene, round: u32) -> Result<usize, Violation> {
        let lives = self.points.iter();
        let lives =
            lives.map(|(point, first, rounds)| format!("{point}:{}", first + round % rounds));
        let node = scene.node(0)?;
        node.lives = lives.collect();
        node.deaths = 0;
        let mut deaths = node.lives.len();
        scene.start(0)?;
        match self.act {
            Act::Work => submit(scene, Plan::Count(2), Expected::Complete)?,
            Act::Queue => {
                submit(scene, Plan::Count(1), Expected::Complete)?;
                submit(scene, Plan::Count(1), Expected::Complete)?;
            }
            Act::Cancel => {
                submit(scene, Plan::Endless, Expected::Cancelled)?;
                scene.all_reached("tool_started")?;
                for job in 0..scene.jobs.len() {
                    scene.order(job, "cancel")?;
                }
            }
            Act::Pause => pause(scene)?,
            Act::Ask(wait) => {
                deaths = 1;
                let fault = match wait {
                    Wait::Answer => Fault::StallHeaders,
                    Wait::Rest => Fault::StallStream,
                };
                scene.model.strike(round as usize % 3, fault);
                submit(scene, Plan::Count(2), Expected::Complete)?;
                scene.until("the question", OVER, |scene| Ok(scene.model.has_struck()))?;
                scene.kill(0)?;
            }
        }
        scene.all_over(OVER)?;
        let died = scene.node(0)?.deaths;
        ensure(died == deaths, || format!("the server died {died} times instead of {deaths}"))?;
        let verified = scene.verify()?;
        scene.stop(0)?;
        Ok(verified)
    }
}

/// Submits the jobs of a round.
pub(super) fn submit(scene: &mut Scene, plan: Plan, expected: Expected) -> Result<(), Violation> {
    for _ in 0..JOBS {
        scene.submit(plan, expected)?;
    }
    Ok(())
}

/// Jobs that are paused while they work, and resumed once they rest.
fn pause(scene: &mut Scene) -> Result<(), Violation> {
    submit(scene, Plan::Count(3), Expected::Complete)?;
    scene.all_reached("tool_started")?;
    for job in 0..scene.jobs.len() {
        scene.order(job, "pause")?;
    }
    for job in 0..scene.jobs.len() {
        scene.until("a pause", Duration::from_secs(30), |scene| {
            let row = scene.job(job)?;
            ensure(!is_over(&row), || "the job was over before it was paused".to_owned())?;
            Ok(row.get("paused") == Some(&true.into()))
        })?;
    }
    for job in 0..scene.jobs.len() {
        scene.order(job, "resume")?;
    }
    Ok(())
}
