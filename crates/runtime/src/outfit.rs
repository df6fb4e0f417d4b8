//! What the engine is told about the models of a job: their tools and prices.

use std::time::Duration;

use cofferdam_engine::{RoleSettings, Settings, coder_specs, orchestrator_specs};
use cofferdam_model::{Family, PriceTable};
use cofferdam_tools::Editing;
use cofferdam_types::{JobSpec, ModelName, ToolSpec};

/// The wait before a question is put again for the first time.
const BACKOFF: Duration = Duration::from_millis(250);

/// What is the same for all jobs of a process.
#[derive(Clone, Copy, Debug)]
pub struct Outfit<'a> {
    /// What models cost.
    pub prices: &'a PriceTable,
    /// Tokens of one answer at most.
    pub max_output: u32,
    /// How often a question is put again.
    pub retries: u32,
}

/// What the engine needs to know besides the job.
#[must_use]
pub fn engine_settings(outfit: Outfit<'_>, spec: &JobSpec) -> Settings {
    let role = |name: &ModelName, own: Vec<ToolSpec>| {
        let editing = match Family::of(name) {
            Family::Patches => Editing::Patches,
            Family::Replacements => Editing::Replacements,
        };
        RoleSettings {
            tools: cofferdam_tools::specs(editing).into_iter().chain(own).collect(),
            price: outfit.prices.price(name),
            max_output: outfit.max_output,
        }
    };
    Settings {
        orchestrator: role(&spec.orchestrator, orchestrator_specs()),
        coder: role(&spec.coder, coder_specs()),
        retries: outfit.retries,
        backoff: BACKOFF,
    }
}

/// A model whose price is not known although the job has a limit on money.
#[must_use]
pub fn unpriced<'a>(settings: &Settings, spec: &'a JobSpec) -> Option<&'a ModelName> {
    spec.budget.cost?;
    let roles = [(&settings.orchestrator, &spec.orchestrator), (&settings.coder, &spec.coder)];
    roles.into_iter().find(|(role, _)| role.price.is_none()).map(|(_, name)| name)
}
