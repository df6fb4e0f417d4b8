//! `delegate`: one piece of code, written by the coder in a conversation of its
//! own.

use cofferdam_types::ToolSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tool's name.
pub(crate) const DELEGATE: &str = "delegate";

pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        name: DELEGATE.to_owned(),
        description: "Have the coder, a model specialised in writing code, carry out one \
                      instruction in /workspace. It sees only what you write here, works with the \
                      same files and reports back."
            .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "instruction": { "type": "string", "description": "What to write, and where." },
                "context": { "type": "string", "description": "What it must know: files, findings." },
                "constraints": { "type": "string", "description": "What it must keep to." },
            },
            "required": ["instruction"],
        }),
    }
}

/// What the coder is told.
pub(crate) fn delegate(arguments: Map<String, Value>) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Brief {
        instruction: String,
        #[serde(default)]
        context: String,
        #[serde(default)]
        constraints: String,
    }
    let Brief { instruction, context, constraints } = super::read(arguments)?;
    if instruction.trim().is_empty() {
        return Err("the instruction is empty.".to_owned());
    }
    let mut brief = instruction;
    for (title, text) in [("Context", context), ("Constraints", constraints)] {
        if !text.trim().is_empty() {
            brief.push_str(&format!("\n\n{title}:\n{text}"));
        }
    }
    Ok(brief)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Result<String, String> {
        delegate(value.as_object().unwrap().clone())
    }

    #[test]
    fn a_brief_holds_what_was_given() {
        let brief = read(json!({"instruction": "write a.py", "constraints": "no imports"}));
        assert_eq!(brief.unwrap(), "write a.py\n\nConstraints:\nno imports");
    }

    #[test]
    fn an_instruction_is_needed() {
        assert!(read(json!({"context": "x"})).unwrap_err().contains("instruction"));
        assert!(read(json!({"instruction": " "})).unwrap_err().contains("empty"));
    }
}
