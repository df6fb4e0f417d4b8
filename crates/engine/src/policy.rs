//! What a call means, before anything is done about it.

use cofferdam_types::{PlanStep, ToolCall, ToolSpec};

use crate::commands;
use crate::thread::PendingCall;
use crate::tools;
use crate::words;

/// Whether a call may change anything that another call could see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Reads,
    Changes,
}

/// What a call means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing that could be done; the model is told why.
    Nonsense(String),
    /// A tool is to be run.
    Tool(Access),
    /// The plan is to be this, with these decisions.
    Plan(Vec<PlanStep>, Vec<String>),
    /// A coder is to be told this.
    Delegate(String),
    /// The work is handed in.
    Finish { summary: String, success: bool },
}

/// Finds out what a call means. Arguments that are not what they should be are
/// told to the model, never repaired and never run.
pub(crate) fn meaning(pending: &PendingCall, known: &[ToolSpec]) -> Meaning {
    let asked = &pending.asked;
    if pending.cut {
        return Meaning::Nonsense(words::CUT_CALL.to_owned());
    }
    if !known.iter().any(|tool| tool.name == asked.name) {
        let names: Vec<&str> = known.iter().map(|tool| tool.name.as_str()).collect();
        let names = names.join(", ");
        return Meaning::Nonsense(format!(
            "Not run: there is no tool {:?}. There are: {names}.",
            asked.name
        ));
    }
    let arguments = match asked.arguments.object() {
        Ok(arguments) => arguments,
        Err(error) => return Meaning::Nonsense(format!("Not run: {error}. Send the call again.")),
    };
    let meant = match asked.name.as_str() {
        tools::PLAN => {
            tools::plan(arguments).map(|(steps, decisions)| Meaning::Plan(steps, decisions))
        }
        tools::DELEGATE => tools::delegate(arguments).map(Meaning::Delegate),
        tools::FINISH => {
            tools::finish(arguments).map(|(summary, success)| Meaning::Finish { summary, success })
        }
        // Loaded like any tool; what is loaded is then read by a model.
        tools::DIGEST => tools::question(arguments).map(|_| Meaning::Tool(Access::Reads)),
        name => Ok(Meaning::Tool(access(name, &arguments))),
    };
    meant.unwrap_or_else(|error| Meaning::Nonsense(format!("Not run: {error}")))
}

/// Whether a call may have changed something.
pub(crate) fn changes(asked: &ToolCall) -> bool {
    let arguments = asked.arguments.object().unwrap_or_default();
    access(&asked.name, &arguments) == Access::Changes
}

fn access(tool: &str, arguments: &serde_json::Map<String, serde_json::Value>) -> Access {
    let reads = match tool {
        "read_file" | "list_files" | "search_files" | "recall" | tools::DIGEST => true,
        "bash" => match arguments.get("command").and_then(|command| command.as_str()) {
            Some(command) => {
                let background = arguments.get("background").and_then(|value| value.as_bool());
                background != Some(true) && commands::only_reads(command)
            }
            None => false,
        },
        _ => false,
    };
    if reads { Access::Reads } else { Access::Changes }
}
