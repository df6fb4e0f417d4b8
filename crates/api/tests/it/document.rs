//! The committed OpenAPI document.

use serde_json::Value;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

fn made() -> String {
    let mut text = cofferdam_api::document().to_pretty_json().unwrap();
    text.push('\n');
    text
}

/// To bring the file up to date: `UPDATE_OPENAPI=1 cargo nextest run -p cofferdam-api`.
#[test]
fn the_committed_document_is_the_one_that_the_types_make() {
    let made = made();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(FILE, &made).unwrap();
    }
    let committed = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        committed == made,
        "crates/api/openapi.json is not what the types make; bring it up to date with \
         UPDATE_OPENAPI=1 cargo nextest run -p cofferdam-api, and look at the difference: others \
         rely on it"
    );
}

#[test]
fn the_document_is_openapi_3_1_and_every_reference_leads_somewhere() {
    let document: Value = serde_json::from_str(&made()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut dangling = Vec::new();
    let mut waiting = vec![&document];
    let mut references = 0;
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    references += 1;
                    if document.pointer(reference.trim_start_matches('#')).is_none() {
                        dangling.push(reference.clone());
                    }
                }
                waiting.extend(members.values());
            }
            Value::Array(elements) => waiting.extend(elements),
            _ => {}
        }
    }
    assert!(references > 50, "{references}");
    assert_eq!(dangling, Vec::<String>::new());
}

#[test]
fn every_operation_has_a_name_of_its_own_and_tells_its_failures() {
    let document: Value = serde_json::from_str(&made()).unwrap();
    let mut names = Vec::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            names.push(operation["operationId"].as_str().unwrap().to_owned());
            let failure = &operation["responses"]["default"]["content"];
            assert!(failure["application/problem+json"].is_object(), "{operation}");
        }
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count > 35, "{count}");
}

#[test]
fn what_needs_a_token_says_so() {
    let document: Value = serde_json::from_str(&made()).unwrap();
    assert_eq!(document["security"], serde_json::json!([{"bearer": []}, {"key": []}]));
    let public: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, item)| {
            item.as_object().unwrap().values().any(|operation| operation.get("security").is_some())
        })
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(public, ["/", "/api/v1/openapi.json", "/health"]);
}
