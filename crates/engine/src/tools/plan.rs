//! `plan`: the steps to the goal, for the model itself and for whoever watches.

use cofferdam_types::{PlanStep, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tool's name.
pub(crate) const PLAN: &str = "plan";

/// Steps that a plan has at most; more are no plan.
const MOST_STEPS: usize = 50;

pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        name: PLAN.to_owned(),
        description: "Write down or update the plan, whole, when a task has several steps. One \
                      step is in progress at a time."
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
            },
            "required": ["steps"],
        }),
    }
}

/// The plan that the arguments are.
pub(crate) fn plan(arguments: Map<String, Value>) -> Result<Vec<PlanStep>, String> {
    #[derive(Deserialize)]
    struct Plan {
        steps: Vec<PlanStep>,
    }
    let Plan { steps } = super::read(arguments)?;
    if steps.len() > MOST_STEPS {
        return Err(format!("a plan has at most {MOST_STEPS} steps, this has {}.", steps.len()));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use cofferdam_types::StepStatus;

    use super::*;

    fn read(value: Value) -> Result<Vec<PlanStep>, String> {
        plan(value.as_object().unwrap().clone())
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
