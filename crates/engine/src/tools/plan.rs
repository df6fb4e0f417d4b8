//! `plan`: the steps to the goal, for the model itself and for whoever watches.

use cofferdam_types::{PlanStep, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tool's name.
pub(crate) const PLAN: &str = "plan";

/// Steps that a plan has at most; more are no plan.
const MOST_STEPS: usize = 50;

/// Decisions of one plan at most, and bytes of each: they stay before the model for good.
const MOST_DECISIONS: usize = 30;
const LONGEST_DECISION: usize = 500;

pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        name: PLAN.to_owned(),
        description: "Write down or update the plan, whole, when a task has several steps. One \
                      step is in progress at a time. Decisions and constraints that must hold to \
                      the end go into `decisions`: they are never forgotten."
            .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "steps": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "step": { "type": "string" },
                            "status": { "enum": ["pending", "in_progress", "completed"] },
                        },
                        "required": ["step", "status"],
                    },
                },
                "decisions": { "type": "array", "items": { "type": "string" } },
            },
            "required": ["steps"],
        }),
    }
}

/// The plan that the arguments are, and what was decided.
pub(crate) fn plan(arguments: Map<String, Value>) -> Result<(Vec<PlanStep>, Vec<String>), String> {
    #[derive(Deserialize)]
    struct Plan {
        steps: Vec<PlanStep>,
        #[serde(default)]
        decisions: Vec<String>,
    }
    let Plan { steps, decisions } = super::read(arguments)?;
    let longest = decisions.iter().map(String::len).max().unwrap_or(0);
    if decisions.len() > MOST_DECISIONS || longest > LONGEST_DECISION {
        return Err(format!(
            "there are at most {MOST_DECISIONS} decisions at a time, of {LONGEST_DECISION} bytes \
             each."
        ));
    }
    if steps.len() > MOST_STEPS {
        return Err(format!("a plan has at most {MOST_STEPS} steps, this has {}.", steps.len()));
    }
    Ok((steps, decisions))
}

#[cfg(test)]
mod tests {
    use cofferdam_types::StepStatus;

    use super::*;

    fn read(value: Value) -> Result<Vec<PlanStep>, String> {
        plan(value.as_object().unwrap().clone()).map(|(steps, _)| steps)
    }

    #[test]
    fn a_plan_is_read_whole() {
        let steps = read(json!({"steps": [{"step": "write", "status": "in_progress"}]})).unwrap();
        assert_eq!(steps, [PlanStep { step: "write".to_owned(), status: StepStatus::InProgress }]);
    }

    #[test]
    fn what_is_no_plan_is_told() {
        let error = read(json!({"steps": [{"step": "write", "status": "done"}]})).unwrap_err();
        assert!(error.contains("done") && error.contains("completed"), "{error}");
        let many = vec![json!({"step": "x", "status": "pending"}); 51];
        assert!(read(json!({ "steps": many })).unwrap_err().contains("at most 50"));
    }
}
