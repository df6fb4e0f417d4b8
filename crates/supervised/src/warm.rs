//! Containers that wait for a sandbox: an engine takes its time, and a job's first command
//! need not wait for it.
//!
//! One is made, for limits and a network that were wanted before, when another is taken. Its
//! supervisor asks the engine, holds what came, and waits for a plan; nobody in this process
//! waits for anything. It ends with this process, or when nobody wants it for some minutes.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam_native_supervisor::hire::START;
use cofferdam_native_supervisor::wire::{self, First, FirstPlan, Hire, Report};
use cofferdam_sandbox::Spec;
use cofferdam_types::{Limits, Network, SandboxId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use crate::engine::{self, Engine};
use crate::reaper::Reaped;
use crate::starter::Starter;
use crate::state::{self, State};

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
    likeness: Likeness,
    pub(crate) state: State,
    pub(crate) hire: Hire,
    pub(crate) socket: OwnedFd,
    pub(crate) supervisor: Reaped,
}

impl Warm {
    /// What it takes to have a container of an engine's wait for a sandbox like this one, whose
    /// directory will be in `home`. What is lacking now is told when it is needed.
    pub(crate) fn prepare(
        engine: &dyn Engine,
        spec: &Spec,
        home: &Path,
        starter: &Starter,
    ) -> Option<Self> {
        let id = SandboxId::generate();
        let state = state::make(home, id).ok()?;
        let spec = Spec { id, ..spec.clone() };
        let FirstPlan::Hired(hire) = engine::first_by(engine, &spec, &state).ok()? else {
            return None;
        };
        let (socket, supervisor) = starter.spawn().ok()?;
        Some(Self { likeness: Likeness::of(&spec), state, hire, socket, supervisor })
    }

    /// Waits until its container is there; whether it is. A new one would take no less time.
    pub(crate) fn arrives(&self) -> bool {
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
        let patience = Timespec::try_from(START).ok();
        let told = retry_on_intr(|| poll(&mut watched, patience.as_ref()));
        matches!(told, Ok(1)) && matches!(wire::receive(&self.socket), Ok(Some((Report::Warm, _))))
    }

    /// Has the engine start the container.
    fn begin(&self) -> rustix::io::Result<()> {
        let first = First::Warm { state: self.state.path.clone(), hire: self.hire.clone() };
        wire::send(&self.socket, &first, &[self.state.lock.as_fd()])
    }
}

/// Those of one back end. All copies of one are one.
#[derive(Clone, Default)]
pub(crate) struct Pool {
    /// How many wait at most.
    pub(crate) size: usize,
    stock: Arc<Mutex<Stock>>,
}

#[derive(Default)]
struct Stock {
    waiting: Vec<Warm>,
    /// So many more are about to be put there.
    ordered: usize,
}

impl Pool {
    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of this likeness, the oldest.
    pub(crate) fn take(&self, likeness: &Likeness) -> Option<Warm> {
        let mut stock = self.stock();
        let index = stock.waiting.iter().position(|warm| warm.likeness == *likeness)?;
        Some(stock.waiting.remove(index))
    }

    /// Whether one more of this likeness is of use; it is then expected to be put there, or
    /// the news that it is not to be had. Where there is no room for it, one of another
    /// likeness goes.
    pub(crate) fn wants(&self, likeness: &Likeness) -> bool {
        let mut stock = self.stock();
        if stock.waiting.len() + stock.ordered >= self.size {
            let other = stock.waiting.iter().position(|warm| warm.likeness != *likeness);
            let Some(other) = other else { return false };
            drop(stock.waiting.remove(other));
        }
        stock.ordered += 1;
        true
    }

    /// What became of one that was wanted. Whoever sees its container finds it here.
    pub(crate) fn put(&self, warm: Option<Warm>) {
        let mut stock = self.stock();
        stock.ordered -= 1;
        stock.waiting.extend(warm.filter(|warm| warm.begin().is_ok()));
    }
}
