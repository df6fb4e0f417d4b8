//! What a call is about, in a line.

use cofferdam_types::{Arguments, ToolCall};
use serde_json::{Map, Value};

use crate::edits;
use crate::tame::tame_line;
use crate::text::count;

/// Characters looked at: a heading is cut to the width of a terminal anyway.
const LONGEST: usize = 2_000;

/// What a call is about: tame, in one line, without the tool's name.
pub(crate) fn heading(call: &ToolCall) -> String {
    let Ok(arguments) = call.arguments.object() else { return raw(&call.arguments) };
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let told = match call.name.as_str() {
        "bash" => command(&arguments),
        "read_file" => text("path").map(|path| format!("{path}{}", range(&arguments))),
        "write_file" | "edit_file" => text("path").map(str::to_owned),
        "apply_patch" => text("input").map(patch),
        "list_files" => Some(match (text("path").unwrap_or("."), text("pattern")) {
            (path, None) => path.to_owned(),
            (".", Some(pattern)) => pattern.to_owned(),
            (path, Some(pattern)) => format!("{path} {pattern}"),
        }),
        "search_files" => text("pattern").map(|pattern| {
            let places = [text("path"), text("glob")];
            let places: Vec<&str> = places.into_iter().flatten().collect();
            let within = if places.is_empty() { "" } else { "  in " };
            format!("{pattern}{within}{}", places.join(" "))
        }),
        "delegate" => text("instruction").map(str::to_owned),
        "recall" => {
            let id = number(&arguments, "id").map(|id| format!("#{id}"));
            let asked = [id, text("query").map(str::to_owned), text("file").map(str::to_owned)];
            let asked: Vec<String> = asked.into_iter().flatten().collect();
            (!asked.is_empty()).then(|| asked.join("  "))
        }
        "digest" => {
            let id = number(&arguments, "id").map(|id| format!("#{id}"));
            let what = text("path").map(str::to_owned).or(id);
            let question = text("question").map(|question| format!("  {question}"));
            what.map(|what| what + &question.unwrap_or_default())
        }
        "plan" | "finish" => Some(String::new()),
        _ => None,
    };
    told.map_or_else(|| raw(&call.arguments), |told| shortened(&told))
}

fn command(arguments: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let set = |name: &str| arguments.get(name).and_then(Value::as_bool).unwrap_or(false);
    if let Some(process) = text("process") {
        return Some(if set("stop") { format!("stop {process}") } else { process.to_owned() });
    }
    let background = if set("background") { " &" } else { "" };
    text("command").map(|command| format!("{}{background}", command.trim()))
}

fn number(arguments: &Map<String, Value>, name: &str) -> Option<u64> {
    arguments.get(name).and_then(Value::as_u64)
}

fn range(arguments: &Map<String, Value>) -> String {
    match (number(arguments, "offset"), number(arguments, "limit")) {
        (None, None) => String::new(),
        (offset, None) => format!("  from line {}", offset.unwrap_or(1)),
        (offset, Some(limit)) => {
            let first = offset.unwrap_or(1);
            format!("  lines {first}–{}", first.saturating_add(limit.saturating_sub(1)))
        }
    }
}

fn patch(input: &str) -> String {
    match edits::patch(input).as_slice() {
        [edit] => edit.path.to_owned(),
        edits => count(edits.len() as u64, "file"),
    }
}

/// Arguments of a tool that is not known, or that make no sense.
fn raw(arguments: &Arguments) -> String {
    let text = arguments.0.trim();
    if text == "{}" { String::new() } else { shortened(text) }
}

/// The beginning of a text: tame, in one line.
pub(crate) fn shortened(text: &str) -> String {
    let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(at, _)| at);
    tame_line(text.get(..end).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(name: &str, arguments: &Value) -> String {
        let arguments = Arguments(arguments.to_string());
        heading(&ToolCall { id: String::new(), name: name.to_owned(), arguments })
    }

    #[test]
    fn a_heading_says_what_a_person_looks_for() {
        let patch = "*** Begin Patch\n*** Add File: a\n+1\n*** Delete File: b\n*** End Patch";
        for (name, arguments, expected) in [
            ("bash", json!({"command": "cd x\nmake"}), "cd x ⏎ make"),
            ("bash", json!({"command": "serve", "background": true}), "serve &"),
            ("bash", json!({"process": "p1"}), "p1"),
            ("bash", json!({"process": "p1", "stop": true}), "stop p1"),
            ("read_file", json!({"path": "a"}), "a"),
            ("read_file", json!({"path": "a", "offset": 5, "limit": 10}), "a  lines 5–14"),
            ("read_file", json!({"path": "a", "offset": 5}), "a  from line 5"),
            ("list_files", json!({}), "."),
            ("list_files", json!({"pattern": "*.rs", "path": "src"}), "src *.rs"),
            ("search_files", json!({"pattern": "fn main"}), "fn main"),
            ("search_files", json!({"pattern": "x", "glob": "*.rs"}), "x  in *.rs"),
            ("apply_patch", json!({"input": patch}), "2 files"),
            ("mcp__x__y", json!({"a": 1}), r#"{"a":1}"#),
            ("mcp__x__y", json!({}), ""),
            ("bash", json!({"command": 7}), r#"{"command":7}"#),
            ("bash", json!({"command": "echo \u{1b}]0;x\u{7}"}), "echo ␛]0;x␇"),
        ] {
            assert_eq!(told(name, &arguments), expected);
        }
    }

    #[test]
    fn arguments_that_are_cut_are_shown_as_they_came() {
        let arguments = Arguments(r#"{"command":"rm -"#.to_owned());
        let call = ToolCall { id: String::new(), name: "bash".to_owned(), arguments };
        assert_eq!(heading(&call), r#"{"command":"rm -"#);
    }
}
