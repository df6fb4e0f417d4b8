//! A job of a server, watched like one that runs here.

use cofferdam_client::{Client, Stored};
use cofferdam_types::{Event, JobId, Record};

use super::{Failed, problem, status};
use crate::exit;
use crate::interruption::{Asked, Signals};
use crate::run::screen::{Screen, TICK};

/// Shows a job until it is over; returns its exit code. Whoever leaves earlier
/// leaves the job alone.
pub(crate) async fn watch(
    client: &Client,
    job: JobId,
    screen: &mut Screen,
    signals: &mut Signals,
) -> Result<u8, Failed> {
    let mut events = client.follow(job, 0);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut code = None;
    loop {
        let next = events.next();
        tokio::pin!(next);
        let event = loop {
            tokio::select! {
                biased;
                asked = signals.next() => heed(asked, job, screen)?,
                // It has deadlines of its own, and so is not begun anew by a tick.
                event = &mut next => break event,
                _ = ticks.tick(), if screen.ticks() => screen.tick().await,
            }
        };
        let Some(Stored { line, .. }) = event.map_err(problem::failed)? else { break };
        let record: Option<Box<Record>> = serde_json::from_str(&line).ok();
        if let Some(Event::Ended { ending, .. }) = record.as_ref().map(|record| &record.event) {
            code = Some(exit::of(ending));
        }
        // A reader of ours that is stuck keeps nobody from leaving.
        loop {
            tokio::select! {
                biased;
                asked = signals.next() => heed(asked, job, screen)?,
                () = screen.ready() => break,
            }
        }
        screen.show_stored(line, record).await;
    }
    match code {
        Some(code) => Ok(code),
        // An ending of a newer server: the job tells what it comes to.
        None => client.job(job).await.map(|job| status::code(&job)).map_err(problem::failed),
    }
}

fn heed(asked: Asked, job: JobId, screen: &mut Screen) -> Result<(), Failed> {
    match asked {
        Asked::Resize => {
            screen.resize();
            Ok(())
        }
        asked => Err((problem::left(job), asked.exit_code())),
    }
}
