//! Following a first process from its birth until it is the guest: what it hands out on the
//! way, and what may go wrong.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::audit::Auditor;
use crate::failure::Failure;
use crate::hire;
use crate::identity::Identity;
use crate::remains;
use crate::room::Vault;
use crate::sentry;
use crate::start::{Base, Newborn, Progress};
use crate::supervisor::hire_of;
use crate::waiting::timespec;
use crate::wire::{self, Plan};

/// How long the first process may take to become the guest.
const START: Duration = Duration::from_secs(30);

/// What the first process has handed out so far.
#[derive(Default)]
pub(crate) struct Parts {
    /// Of a fork, its number and a descriptor; else those of the child.
    pub(crate) init: Option<(u32, OwnedFd)>,
    pub(crate) vault: Option<Vault>,
    pub(crate) proxy: Option<OwnedFd>,
    pub(crate) base: Option<Base>,
    pub(crate) landlock: u32,
    pub(crate) auditor: Option<Auditor>,
    /// Where the runtime of another kernel complains.
    complaints: Option<File>,
}

/// Takes what the first process hands out, until it is the guest. Executing that
/// is itself a reported call, which must be answered meanwhile.
pub(crate) fn follow(
    newborn: &Newborn,
    plan: &Plan,
    identity: Identity,
    host: &OwnedFd,
    parts: &mut Parts,
) -> Result<(), Failure> {
    let deadline = Instant::now() + START;
    loop {
        // Before it is looked whether it rests: it may have rested by then, not the other way.
        let rested = parts.auditor.as_ref().and_then(Auditor::look_again);
        let rest = rested.map(|at| at.saturating_duration_since(Instant::now()));
        let mut watched = vec![PollFd::new(&newborn.progress, PollFlags::IN)];
        if let Some(reports) = parts.auditor.as_ref().and_then(Auditor::descriptor) {
            watched.push(PollFd::from_borrowed_fd(reports, PollFlags::IN));
        }
        watched.push(PollFd::new(host, PollFlags::empty())); // only its end is of interest
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::new("the first process did not start in time"));
        }
        if poll(&mut watched, Some(&timespec(rest.map_or(left, |rest| rest.min(left))))).is_err() {
            continue;
        }
        let happened: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
        if happened.last() == Some(&true) {
            return Err(Failure::new("the host is gone"));
        }
        if happened.len() == 3 && happened.get(1) == Some(&true) {
            parts.auditor.iter_mut().for_each(Auditor::attend);
        }
        if happened.first() != Some(&true) {
            continue;
        }
        let Some((progress, beside)) = wire::receive::<Progress>(&newborn.progress)? else {
            // The socket closed: the guest's program runs, if it got that far.
            return if let Some(complaints) = &parts.complaints {
                parts.auditor.iter_mut().for_each(Auditor::catch_up);
                let complaint = parts.auditor.as_ref().map_or("", Auditor::complaint);
                let said = hire::said(complaints);
                Err(Failure::new(format!("runsc could not start the sandbox: {said} {complaint}")))
            } else if parts.vault.is_some() {
                Ok(())
            } else {
                Err(Failure::new("the first process died while it was being set up"))
            };
        };
        let mut beside = beside.into_iter();
        match progress {
            // Comes before the rest, where it comes at all.
            Progress::Born(pid) => parts.init = beside.next().map(|handle| (pid, handle)),
            Progress::Built { store, lower, proxy } => {
                parts.vault = beside.next().map(|directory| Vault { directory, store, lower });
                parts.complaints = beside.next().map(File::from);
                if proxy {
                    parts.proxy = beside.next();
                }
                let trail = plan.state.join(remains::TRAIL);
                parts.auditor = beside.next().map(|told| Auditor::of_sentry(told, trail));
            }
            Progress::Confined { built, proxy, landlock } => {
                if let Some((store, lower)) = built {
                    parts.vault = beside.next().map(|directory| Vault { directory, store, lower });
                }
                if proxy {
                    parts.proxy = beside.next();
                }
                parts.landlock = landlock;
                if sentry::of(plan).is_some() {
                    // Nothing of the sandbox's has run yet. But this message's sender has
                    // opened a file: a kernel that tells of it in other words, which are not
                    // understood, is none that tells.
                    parts.auditor.iter_mut().for_each(Auditor::catch_up);
                    parts.auditor.take_if(|auditor| !auditor.begin_anew());
                }
                if let Some(listener) = beside.next() {
                    let init = parts.init.as_ref().map_or(newborn.pid, |(pid, _)| *pid);
                    let trail = plan.state.join(remains::TRAIL);
                    parts.auditor = Some(Auditor::of_notifications(listener, init, trail));
                }
                if identity.enters_guest() || hire_of(plan).is_some() {
                    return Ok(()); // nothing is left that could fail
                }
            }
            Progress::Failed(failure) => return Err(failure),
        }
    }
}
