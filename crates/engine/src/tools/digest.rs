//! `digest`: what is in something that is too long to read.

use cofferdam_types::ToolSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tool's name.
pub const DIGEST: &str = "digest";

/// What there is where long inputs can be read.
#[must_use]
pub fn digest_spec() -> ToolSpec {
    ToolSpec {
        name: DIGEST.to_owned(),
        description: "Have something that is too long to read (a file of /workspace, or an \
                      earlier event by its number) read piece by piece by another model, and get \
                      the answer to a question about it, or a summary. Costs one model call for \
                      each piece."
            .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "A file of /workspace." },
                "id": { "type": "integer", "description": "The number (#) of an event." },
                "question": {
                    "type": "string",
                    "description": "What is to be found out. Default: a summary.",
                },
            },
        }),
    }
}

/// What is to be found out.
pub(crate) fn question(arguments: Map<String, Value>) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Wanted {
        path: Option<String>,
        id: Option<u64>,
        question: Option<String>,
    }
    let Wanted { path, id, question } = super::read(arguments)?;
    if path.is_some() == id.is_some() {
        return Err("give either `path` or `id`.".to_owned());
    }
    let question = question.filter(|question| !question.trim().is_empty());
    Ok(question.unwrap_or_else(|| "Summarise it: what it is, and what matters in it.".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_or_an_event_is_needed_and_not_both() {
        let read = |value: Value| question(value.as_object().unwrap().clone());
        assert_eq!(read(json!({"path": "a", "question": "why?"})), Ok("why?".to_owned()));
        assert!(read(json!({"id": 3})).unwrap().contains("Summarise"));
        assert!(read(json!({"id": 3, "path": "a"})).is_err());
        assert!(read(json!({})).is_err());
    }
}
