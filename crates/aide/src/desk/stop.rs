//! `desk stop`: ends a desktop and waits until it is gone.

use std::time::Duration;

use cofferdam_aide_protocol::DeskStop;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::error::DeskError;
use super::state::State;

/// Longer than its keeper takes in the worst case.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked whether it is gone.
const LOOK: Duration = Duration::from_millis(10);

pub(super) async fn stop(name: &str) -> Result<DeskStop, DeskError> {
    let state = State::of(name)?;
    let deadline = Instant::now() + PATIENCE;
    let mut asked = None;
    while state.is_kept() {
        // One that is not ready yet has not said who keeps it: wait until it does.
        if asked.is_none()
            && let Some(ready) = state.ready()
            && let Some(keeper) = Pid::from_raw(ready.keeper)
        {
            // It may be just ending, which is what is wanted.
            kill_process(keeper, Signal::TERM).ok();
            asked = Some(keeper);
        }
        if Instant::now() > deadline {
            return Err(DeskError::Broken(format!(
                "the desktop `{name}` does not end; its files are in {}",
                state.directory().display()
            )));
        }
        sleep(LOOK).await;
    }
    Ok(if asked.is_some() { DeskStop::Asked } else { DeskStop::NotRunning })
}
