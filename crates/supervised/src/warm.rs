//! Containers that wait for a sandbox: an engine takes its time, and a job's first command
//! need not wait for it.
//!
//! One is made, for limits and a network that were wanted before, when another is taken. Its
//! supervisor asks the engine, holds what came, and waits for a plan; nobody in this process
//! waits for anything. It ends with this process, or when nobody wants it for some minutes.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use cofferdam_native_supervisor::wire::Hire;
use cofferdam_sandbox::Spec;
use cofferdam_types::{Limits, Network};

use crate::reaper::Reaped;
use crate::state::State;

/// What two sandboxes must have in common to begin from the same container.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Likeness {
    limits: Limits,
    open_network: bool,
}

impl Likeness {
    pub(crate) fn of(spec: &Spec) -> Self {
        // Neither is the engine's business.
        let limits = Limits { wall_time: None, output: None, ..spec.limits.clone() };
        Self { limits, open_network: spec.network == Network::Open }
    }
}

/// A container that waits, with the supervisor that holds it.
pub(crate) struct Warm {
    pub(crate) likeness: Likeness,
    pub(crate) state: State,
    pub(crate) hire: Hire,
    pub(crate) socket: OwnedFd,
    pub(crate) supervisor: Reaped,
}

/// Those of one back end.
#[derive(Default)]
pub(crate) struct Pool {
    /// How many wait at most.
    pub(crate) size: usize,
    waiting: Mutex<Vec<Warm>>,
}

impl Pool {
    /// One of this likeness, the oldest.
    pub(crate) fn take(&self, likeness: &Likeness) -> Option<Warm> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let index = waiting.iter().position(|warm| warm.likeness == *likeness)?;
        Some(waiting.remove(index))
    }

    /// Whether one more of this likeness is of use. Where there is no room for it, one of
    /// another likeness goes.
    pub(crate) fn wants(&self, likeness: &Likeness) -> bool {
        if self.size == 0 {
            return false;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < self.size {
            return true;
        }
        match waiting.iter().position(|warm| warm.likeness != *likeness) {
            Some(index) => {
                drop(waiting.remove(index));
                true
            }
            None => false,
        }
    }

    pub(crate) fn put(&self, warm: Warm) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(warm);
    }
}
