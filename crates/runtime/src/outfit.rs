//! What the engine is told about the models of a job: their tools and prices.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use cofferdam_engine::{RoleSettings, Settings, coder_specs, digest_spec, orchestrator_specs};
use cofferdam_model::{Family, PriceTable};
use cofferdam_tools::Editing;
use cofferdam_types::{JobSpec, ModelName, Role, Toolbox};

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
    let role = |role: Role, name: &ModelName| RoleSettings {
        tools: toolbox(Family::of(name), outfit.recalls, role),
        price: outfit.prices.price(name),
        max_output: outfit.max_output,
        window: outfit.window.unwrap_or_else(|| cofferdam_model::window(name)),
    };
    let summariser = spec.summariser.as_ref().unwrap_or(&spec.orchestrator);
    Settings {
        orchestrator: role(Role::Orchestrator, &spec.orchestrator),
        coder: role(Role::Coder, &spec.coder),
        summariser: role(Role::Summariser, summariser),
        recalls: outfit.recalls,
        retries: outfit.retries,
        backoff: BACKOFF,
    }
}

/// The tools of a role, made once for all jobs.
fn toolbox(family: Family, recalls: bool, role: Role) -> Toolbox {
    type Made = HashMap<(Family, bool, Role), Toolbox>;
    static MADE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((family, recalls, role)).or_insert_with(|| tools(family, recalls, role)).clone()
}

fn tools(family: Family, recalls: bool, role: Role) -> Toolbox {
    let own = match role {
        Role::Orchestrator => orchestrator_specs(),
        Role::Coder => coder_specs(),
        Role::Summariser => return Toolbox::default(),
    };
    let editing = match family {
        Family::Patches => Editing::Patches,
        Family::Replacements => Editing::Replacements,
    };
    let remembering = if recalls { vec![memory::spec(), digest_spec()] } else { Vec::new() };
    cofferdam_tools::specs(editing).into_iter().chain(remembering).chain(own).collect()
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
