//! The seam to an engine that makes the walls of sandboxes in place of the supervisor.

use std::collections::HashSet;
use std::path::Path;

use cofferdam_native_supervisor::wire::FirstPlan;
use cofferdam_sandbox::{Capabilities, Fact, Grade, OpenError, Reconciled, Spec};

use crate::explain::in_step;
use crate::state::State;

/// What all sandboxes here can do, if their engine says nothing else.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    lingers: true,
    forks: true,
    strongest: Grade::Bounded,
    audits: true,
    measures_cpu: true,
    outlets: true,
};

/// An engine, asked for the first processes of sandboxes. All else is the supervisor's as
/// ever.
pub trait Engine: Send + Sync {
    /// The back end's name.
    fn name(&self) -> &'static str;

    /// What its sandboxes can do beyond the promises that all make.
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    /// Where the first process of a sandbox comes from whose directory on the host is this
    /// one. Of the spec its limits and its network matter.
    ///
    /// # Errors
    /// When it cannot serve such a sandbox.
    fn first(&self, spec: &Spec, state: &Path) -> Result<FirstPlan, OpenError>;

    /// The same for a fork, which begins in the namespaces of the sandbox that it is of.
    ///
    /// # Errors
    /// When it cannot serve such a sandbox.
    fn first_of_fork(&self, _spec: &Spec, _state: &Path) -> Result<FirstPlan, OpenError> {
        Ok(FirstPlan::Cloned)
    }

    /// Whether it can have a first process ready for a sandbox whose plan comes later.
    fn keeps_warm(&self) -> bool {
        true
    }

    /// Forgets what it was seen to be like, because it did not do what it was asked;
    /// whether there was something to forget, and asking again is of use.
    fn forget(&self) -> bool;

    /// What this machine has of it, found without making a sandbox.
    fn examine(&self) -> Vec<Fact>;

    /// Removes the containers of this home but for those that are held, and returns the
    /// sandboxes they were made for. Which are held is asked after the engine was asked
    /// which there are: one that is made meanwhile is not taken for left over.
    fn sweep(&self, held: &dyn Fn() -> HashSet<String>) -> Reconciled;
}

/// Where an engine's sandbox begins; its container, if it has one, is noted.
///
/// # Errors
/// When the engine cannot serve such a sandbox, or the note cannot be written.
pub(crate) fn first_by(
    engine: &dyn Engine,
    spec: &Spec,
    state: &State,
) -> Result<FirstPlan, OpenError> {
    let first = engine.first(spec, &state.path)?;
    if let FirstPlan::Hired(hire) = &first {
        state.name_container(&hire.container).map_err(in_step("note the container's name"))?;
    }
    Ok(first)
}
