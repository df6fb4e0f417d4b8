//! What the process that drives a run brings along: it may differ from one
//! process to the next, so no state is computed from it.

use std::time::Duration;

use cofferdam_types::{Price, Role, Toolbox};

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For the orchestrator.
    pub orchestrator: RoleSettings,
    /// For the coder.
    pub coder: RoleSettings,
    /// For whoever summarises.
    pub summariser: RoleSettings,
    /// Whether what was let go can be looked for.
    pub recalls: bool,
    /// How often a question that failed is put again.
    pub retries: u32,
    /// How long to wait before the first time; each further wait is twice as
    /// long, up to half a minute.
    pub backoff: Duration,
}

/// The settings of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleSettings {
    /// What it can call.
    pub tools: Toolbox,
    /// What its model costs, if that is known.
    pub price: Option<Price>,
    /// Tokens that one answer may have.
    pub max_output: u32,
    /// Tokens that its model can take in and give out together.
    pub window: u64,
}

impl Settings {
    /// Those of one role.
    #[must_use]
    pub fn role(&self, role: Role) -> &RoleSettings {
        match role {
            Role::Orchestrator => &self.orchestrator,
            Role::Coder => &self.coder,
            Role::Summariser => &self.summariser,
        }
    }
}
