//! What the engine is told about the models of a job: their tools and prices.

use std::time::Duration;

use cofferdam_engine::{RoleSettings, Settings, coder_specs, digest_spec, orchestrator_specs};
use cofferdam_model::{Family, PriceTable};
use cofferdam_tools::Editing;
use cofferdam_types::{JobSpec, ModelName, ToolSpec};

use crate::memory;

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
    /// Tokens that every model can take in and give out together, where that is set; what
    /// is known of each model otherwise.
    pub window: Option<u64>,
    /// Whether jobs can look for what they have let go.
    pub recalls: bool,
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
            tools: cofferdam_tools::specs(editing)
                .into_iter()
                .chain(outfit.recalls.then(memory::spec))
                .chain(outfit.recalls.then(digest_spec))
                .chain(own)
                .collect(),
            price: outfit.prices.price(name),
            max_output: outfit.max_output,
            window: outfit.window.unwrap_or_else(|| cofferdam_model::window(name)),
        }
    };
    let summariser = spec.summariser.as_ref().unwrap_or(&spec.orchestrator);
    Settings {
        orchestrator: role(&spec.orchestrator, orchestrator_specs()),
        coder: role(&spec.coder, coder_specs()),
        summariser: RoleSettings { tools: Vec::new(), ..role(summariser, Vec::new()) },
        recalls: outfit.recalls,
        retries: outfit.retries,
        backoff: BACKOFF,
    }
}

/// A model whose price is not known although the job has a limit on money.
#[must_use]
pub fn unpriced<'a>(settings: &Settings, spec: &'a JobSpec) -> Option<&'a ModelName> {
    spec.budget.cost?;
    let summariser = spec.summariser.as_ref().unwrap_or(&spec.orchestrator);
    let roles = [
        (&settings.orchestrator, &spec.orchestrator),
        (&settings.coder, &spec.coder),
        (&settings.summariser, summariser),
    ];
    roles.into_iter().find(|(role, _)| role.price.is_none()).map(|(_, name)| name)
}
