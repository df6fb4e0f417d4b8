//! Which back end makes a sandbox.

use std::sync::Arc;

use crate::backend::{Backend, Grade};

/// The name that leaves the choice to us.
pub const AUTO: &str = "auto";

/// Why there is no back end to make a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no back end {name:?}; there is {}", known.join(", "))]
pub struct NoSuchBackend {
    /// The name that was asked for.
    pub name: String,
    /// Those that there are.
    pub known: Vec<&'static str>,
}

/// The back end of this name, of those that there are in order of preference. [`AUTO`] is the
/// first that can be as strong as required; if none can, the first, which says what it lacks.
///
/// # Errors
/// When there is none of this name.
pub fn choose<'a>(
    backends: &'a [Arc<dyn Backend>],
    name: &str,
    required: Grade,
) -> Result<&'a Arc<dyn Backend>, NoSuchBackend> {
    let found = if name == AUTO {
        let will_do = |backend: &&Arc<dyn Backend>| backend.capabilities().strongest >= required;
        backends.iter().find(will_do).or(backends.first())
    } else {
        backends.iter().find(|backend| backend.name() == name)
    };
    found.ok_or_else(|| NoSuchBackend {
        name: name.to_owned(),
        known: backends.iter().map(|backend| backend.name()).collect(),
    })
}
