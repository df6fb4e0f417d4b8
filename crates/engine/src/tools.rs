//! The tools that the loop itself provides: they touch no file and no process.

mod delegate;
mod digest;
mod finish;
mod plan;

use cofferdam_types::ToolSpec;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(crate) use delegate::{DELEGATE, delegate};
pub(crate) use digest::question;
pub use digest::{DIGEST, digest_spec};
pub(crate) use finish::{FINISH, finish};
pub(crate) use plan::{PLAN, plan};

/// What the orchestrator has besides the tools of the sandbox.
#[must_use]
pub fn orchestrator_specs() -> Vec<ToolSpec> {
    vec![plan::spec(), delegate::spec(), finish::spec()]
}

/// What the coder has besides the tools of the sandbox.
#[must_use]
pub fn coder_specs() -> Vec<ToolSpec> {
    vec![finish::spec()]
}

/// Arguments as what they should be.
fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| format!("the arguments do not fit the tool: {error}."))
}
