//! Whose turn it is at the desktop: a viewer takes over, and gives back.
//!
//! The job's hands are locked before the viewer's are free, and the viewer's are
//! bound, with whatever they held released, before the job's are free again.

use std::time::Duration;

use cofferdam_api::{Hands, ScreenControl, ScreenReport};
use cofferdam_fleet::{Held, Visit, screenshot};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::Viewer;
use super::rfb::Mode;
use super::way::Way;
use crate::channel::{End, closed};
use crate::desktop::{aide, whose};
use crate::exec::visitor_call;

/// How long a picture of the screen may take.
const PICTURE: Duration = Duration::from_secs(10);
/// The same for somebody whose connection is over.
const LAST_PICTURE: Duration = Duration::from_secs(3);
/// How long a VNC server may take to read what is written to it.
const BINDING: Duration = Duration::from_secs(5);
/// How often a watcher hears of what others do.
const GLANCE: Duration = Duration::from_secs(1);

/// The viewer may do this from now on; `done` is told when it is so.
pub(super) struct Change {
    pub(super) mode: Mode,
    pub(super) done: oneshot::Sender<()>,
}

/// The ends of the channels that decisions come and go by.
pub(super) struct Table {
    pub(super) ordered: mpsc::Receiver<ScreenControl>,
    pub(super) changes: mpsc::Sender<Change>,
    pub(super) reports: mpsc::Sender<ScreenReport>,
    /// When the viewer last acted.
    pub(super) last_use: watch::Receiver<Instant>,
}

/// A viewer's turn, if it is.
pub(super) struct Turn<'a> {
    viewer: &'a Viewer<'a>,
    visit: &'a Visit,
    held: Option<Held>,
    since: Instant,
}

impl<'a> Turn<'a> {
    pub(super) fn new(viewer: &'a Viewer<'a>, visit: &'a Visit) -> Self {
        Self { viewer, visit, held: None, since: Instant::now() }
    }

    /// Carries out orders until the connection cannot go on.
    pub(super) async fn rule(&mut self, mut table: Table) -> End {
        let mut told = None;
        loop {
            self.wait_for_order(&mut table, told).await;
            told = match self.take_over(&mut table).await {
                Ok(why) => why,
                Err(end) => return end,
            };
        }
    }

    /// Waits until the viewer wants to take over. Meanwhile it hears of what others do.
    async fn wait_for_order(&self, table: &mut Table, told: Option<String>) {
        let mut told = told;
        let mut glance = tokio::time::interval(GLANCE);
        glance.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = None;
        loop {
            let asked = tokio::select! {
                order = table.ordered.recv() => order,
                _ = glance.tick() => Some(ScreenControl::GiveBack {}),
            };
            match asked {
                Some(ScreenControl::TakeOver {}) => return,
                Some(ScreenControl::GiveBack {}) => {
                    let now = whose(self.visit);
                    if known.replace(now) != Some(now) {
                        table.reports.send(ScreenReport::Hands(now)).await.ok();
                    }
                    // After that, so that it is what is read.
                    if let Some(why) = told.take() {
                        table.reports.send(ScreenReport::Told(why)).await.ok();
                    }
                }
                // The connection is over, which is told elsewhere.
                None => std::future::pending().await,
            }
        }
    }

    /// Lets the viewer act until the hands are given back; why they were, or were not had.
    async fn take_over(&mut self, table: &mut Table) -> Result<Option<String>, End> {
        let Some(held) = self.visit.hands().take_over().await else {
            let why = match whose(self.visit) {
                Hands::Job => "what the job does on the desktop did not end in time; try again",
                _ => "another person has taken over",
            };
            return Ok(Some(why.to_owned()));
        };
        self.since = Instant::now();
        let held = self.held.insert(held);
        if let Some(picture) = picture(self.viewer, self.visit, PICTURE).await {
            held.before(picture);
        }
        change(table, Mode::Act).await?;
        let (user, job) = (self.viewer.caller.0.user.id, self.viewer.job);
        tracing::info!(%user, %job, "a person took over the desktop");
        table.reports.send(ScreenReport::Hands(Hands::Yours)).await.ok();
        let idle = self.viewer.app.limits.hands_idle;
        let why = hold(table, idle).await;
        change(table, Mode::Watch).await?;
        self.give_back(PICTURE).await;
        Ok(why)
    }

    /// Gives the hands back; the viewer can act no more.
    async fn give_back(&mut self, patience: Duration) {
        let Some(mut held) = self.held.take() else { return };
        if let Some(picture) = picture(self.viewer, self.visit, patience).await {
            held.after(picture);
        }
        drop(held);
        let (user, job) = (self.viewer.caller.0.user.id, self.viewer.job);
        let seconds = self.since.elapsed().as_secs();
        tracing::info!(%user, %job, seconds, "a person gave the desktop back");
    }

    /// Ends the turn of a viewer whose connection is over.
    pub(super) async fn end(mut self, way: &mut Way) {
        if self.held.is_none() {
            return;
        }
        way.set_mode(Mode::Watch);
        // A server that does not read loses its viewer, and releases what that held.
        drop(tokio::time::timeout(LAST_PICTURE, way.flush()).await);
        self.give_back(LAST_PICTURE).await;
    }
}

/// Lets the viewer act, or no more, and waits until it is so.
async fn change(table: &Table, mode: Mode) -> Result<(), End> {
    let (done, is_done) = oneshot::channel();
    let changed = async {
        table.changes.send(Change { mode, done }).await.ok()?;
        is_done.await.ok()
    };
    match tokio::time::timeout(BINDING, changed).await {
        Ok(Some(())) => Ok(()),
        // Never the job's turn while the viewer's hands are free.
        _ => Err(closed(CloseCode::Error, "the desktop does not answer")),
    }
}

/// Waits until the viewer gives back, or has not acted for too long, which is told.
async fn hold(table: &mut Table, idle: Duration) -> Option<String> {
    let Table { ordered, last_use, .. } = table;
    let begun = Instant::now();
    let unused = async {
        loop {
            let last = begun.max(*last_use.borrow());
            tokio::time::sleep_until(last + idle).await;
            if last >= *last_use.borrow() {
                return;
            }
        }
    };
    tokio::pin!(unused);
    loop {
        tokio::select! {
            order = ordered.recv() => match order {
                Some(ScreenControl::GiveBack {}) => return None,
                Some(ScreenControl::TakeOver {}) => {}
                None => std::future::pending().await,
            },
            () = &mut unused => {
                let seconds = idle.as_secs();
                return Some(format!("given back: mouse and keys were not used for {seconds} s"));
            }
        }
    }
}

/// A picture of the screen. Without one the model is told less.
async fn picture(viewer: &Viewer<'_>, visit: &Visit, patience: Duration) -> Option<Vec<u8>> {
    let (aide, call) = (aide(viewer.app).ok()?, visitor_call().ok()?);
    match tokio::time::timeout(patience, screenshot(visit, &aide, call)).await {
        Ok(Ok(picture)) => Some(picture),
        Ok(Err(why)) => {
            tracing::debug!(job = %viewer.job, why, "no picture of the desktop");
            None
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(600);

    fn table() -> (Table, mpsc::Sender<ScreenControl>, watch::Sender<Instant>) {
        let (orders, ordered) = mpsc::channel(4);
        let (used, last_use) = watch::channel(Instant::now());
        let (changes, reports) = (mpsc::channel(1).0, mpsc::channel(4).0);
        (Table { ordered, changes, reports, last_use }, orders, used)
    }

    #[tokio::test(start_paused = true)]
    async fn hands_are_given_back_when_they_are_not_used() {
        let (mut table, _orders, used) = table();
        // What was done before the turn is no use of it.
        tokio::time::advance(2 * IDLE).await;
        let begun = Instant::now();
        let acting = async {
            for _ in 0..10 {
                tokio::time::sleep(IDLE / 2).await;
                used.send_replace(Instant::now());
            }
        };
        let (told, ()) = tokio::join!(hold(&mut table, IDLE), acting);
        assert!(told.unwrap().contains("not used for 600 s"));
        assert_eq!(begun.elapsed().as_secs(), (5 * IDLE + IDLE).as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn hands_are_given_back_when_it_is_asked() {
        let (mut table, orders, _used) = table();
        orders.send(ScreenControl::TakeOver {}).await.unwrap();
        orders.send(ScreenControl::GiveBack {}).await.unwrap();
        assert_eq!(hold(&mut table, IDLE).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_viewer_that_cannot_be_bound_loses_its_connection() {
        let (table, ..) = table();
        assert!(change(&table, Mode::Watch).await.is_err(), "nobody hears");
        let (changes, _heard) = mpsc::channel(1);
        let table = Table { changes, ..table };
        assert!(change(&table, Mode::Watch).await.is_err(), "nobody answers");
    }
}
