//! `finish`: the work is handed in.

use cofferdam_types::ToolSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tool's name.
pub(crate) const FINISH: &str = "finish";

pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        name: FINISH.to_owned(),
        description: "Hand the work in. Only when you have seen it work, or, with success=false, \
                      when it cannot be done."
            .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "summary": {
                    "type": "string",
                    "description": "What was done and how it was tried, or what is in the way.",
                },
                "success": { "type": "boolean", "default": true },
            },
            "required": ["summary"],
        }),
    }
}

/// The summary, and whether the work is done.
pub(crate) fn finish(arguments: Map<String, Value>) -> Result<(String, bool), String> {
    #[derive(Deserialize)]
    struct Last {
        summary: String,
        #[serde(default = "done")]
        success: bool,
    }
    fn done() -> bool {
        true
    }
    let Last { summary, success } = super::read(arguments)?;
    Ok((summary, success))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_what_a_hand_in_means_unless_it_says_otherwise() {
        let read = |value: Value| finish(value.as_object().unwrap().clone());
        assert_eq!(read(json!({"summary": "s"})), Ok(("s".to_owned(), true)));
        assert_eq!(read(json!({"summary": "s", "success": false})), Ok(("s".to_owned(), false)));
        assert!(read(json!({"success": true})).unwrap_err().contains("summary"));
    }
}
