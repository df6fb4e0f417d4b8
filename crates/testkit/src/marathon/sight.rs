//! What a model can see in a question, and nothing else.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// What stands before the tag of a rule.
const TAG: &str = "carries the tag [";

/// The sections of a memory that tell how steps stand.
const DONE: &str = "Done";
const WENT_WRONG: &str = "Went wrong when last run";

/// All that a memory may be made of, by their beginnings. Whoever does not know a section
/// passes over what it says.
const SECTIONS: [&str; 7] = [
    "What the user has said since",
    "The plan",
    "Decided",
    WENT_WRONG,
    "Went wrong at an earlier time",
    DONE,
    "Summary of #",
];

/// How a step stands, as far as can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Done,
    /// It was begun, and nobody knows how it ended.
    Unknown,
    Open,
}

/// What can be seen in a question.
#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) is_summary: bool,
    pub(super) has_recall: bool,
    /// Tokens that the answer may have.
    pub(super) max_tokens: u64,
    /// Bytes of instructions and tools.
    pub(super) preface: u64,
    /// What tells each message from others, and its bytes.
    pub(super) messages: Vec<(u64, u64)>,
    /// Bytes of everything that a model reads.
    pub(super) bytes: u64,
    /// The tags of the rules.
    pub(super) tags: BTreeSet<String>,
    /// What a summary has to name.
    pub(super) names: Vec<String>,
    /// What was recalled by words, and what came; nothing where the call did not end well.
    pub(super) recalls: Vec<(String, Option<String>)>,
    /// Files that a step read, and whether they were there.
    pub(super) read: Vec<(u32, bool)>,
    /// Calls without results and results without calls.
    pub(super) orphans: Vec<String>,
    /// Titles of a memory's sections that nobody knows.
    pub(super) strange: Vec<String>,
    steps: Vec<(u32, Standing)>,
}

impl Sight {
    /// Reads a question in the wire format of Anthropic's Messages.
    pub(super) fn of(body: &Value) -> Self {
        let mut sight = Self::default();
        let system = texts(body.get("system")).concat();
        sight.max_tokens = body.get("max_tokens").and_then(Value::as_u64).unwrap_or(0);
        sight.is_summary = system.starts_with("You summarise");
        sight.bytes += system.len() as u64;
        for tool in list(body.get("tools")) {
            sight.bytes += tool.to_string().len() as u64;
            sight.has_recall |= tool.get("name").and_then(Value::as_str) == Some("recall");
        }
        sight.preface = sight.bytes;
        let mut open: Vec<(&str, &str, &Value)> = Vec::new();
        for message in list(body.get("messages")) {
            let before = sight.bytes;
            let is_answer = message.get("role").and_then(Value::as_str) == Some("assistant");
            // Every call of the answer before must have found its result by now.
            if is_answer {
                sight.orphans.extend(open.drain(..).map(|(id, ..)| format!("the call {id}")));
            }
            for text in texts(message.get("content")) {
                sight.read(text, !is_answer);
            }
            for part in list(message.get("content")) {
                match text(part, "type") {
                    "tool_use" => {
                        let input = part.get("input").unwrap_or(&Value::Null);
                        sight.bytes += input.to_string().len() as u64;
                        open.push((text(part, "id"), text(part, "name"), input));
                    }
                    "tool_result" => {
                        let id = text(part, "tool_use_id");
                        let content = texts(part.get("content")).concat();
                        sight.bytes += content.len() as u64;
                        let place = open.iter().position(|(open, ..)| *open == id);
                        match place.map(|place| open.remove(place)) {
                            Some((_, name, input)) => {
                                let failed = part.get("is_error") == Some(&Value::Bool(true));
                                sight.call(name, input, &content, failed);
                            }
                            None => sight.orphans.push(format!("the result {id}")),
                        }
                    }
                    _ => {}
                }
            }
            let mut hasher = DefaultHasher::new();
            identify(message, &mut hasher);
            sight.messages.push((hasher.finish(), sight.bytes - before));
        }
        sight.orphans.extend(open.into_iter().map(|(id, ..)| format!("the call {id}")));
        sight
    }

    /// How a step stands: what was seen of it last counts.
    pub(super) fn step(&self, step: u32) -> Standing {
        let seen = self.steps.iter().rev().find(|(seen, _)| *seen == step);
        seen.map_or(Standing::Open, |(_, standing)| *standing)
    }

    fn read(&mut self, text: &str, told: bool) {
        self.bytes += text.len() as u64;
        if !told {
            return;
        }
        self.learn_tags(text);
        if let Some((_, names)) = text.rsplit_once("exactly as it is written: ") {
            let names = names.trim_end_matches('.').split(", ");
            self.names = names.map(str::to_owned).collect();
        }
        let Some((_, memory)) = text.split_once("<memory>") else { return };
        let mut section = "";
        for line in memory.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title;
                if !SECTIONS.iter().any(|known| title.starts_with(known)) {
                    self.strange.push(title.to_owned());
                }
            }
            let Some(step) = step_in(line) else { continue };
            match section {
                DONE => self.steps.push((step, Standing::Done)),
                WENT_WRONG => self.steps.push((step, Standing::Unknown)),
                _ => {}
            }
        }
    }

    fn learn_tags(&mut self, text: &str) {
        let tags = text.split(TAG).skip(1).filter_map(|rest| rest.split(']').next());
        self.tags.extend(tags.map(str::to_owned));
    }

    fn call(&mut self, name: &str, input: &Value, content: &str, failed: bool) {
        match name {
            "plan" => {
                for decision in list(input.get("decisions")).filter_map(Value::as_str) {
                    self.learn_tags(decision);
                }
            }
            "read_file" => {
                let file = text(input, "path").strip_prefix("data/");
                let number = file.and_then(|file| file.strip_suffix(".log")?.parse().ok());
                self.read.extend(number.map(|number| (number, !failed)));
            }
            "recall" => {
                let came = (!failed).then(|| content.to_owned());
                self.recalls.push((text(input, "query").to_owned(), came));
            }
            "bash" => {
                let command = text(input, "command");
                let looks = command.starts_with("grep ");
                let Some(step) = step_in(command) else { return };
                let standing = match (looks, failed) {
                    (true, _) if content.contains("there is no step") => Standing::Open,
                    (_, false) => Standing::Done,
                    (_, true) => Standing::Unknown,
                };
                self.steps.push((step, standing));
            }
            _ => {}
        }
    }
}

/// Whatever makes a value what it is, but for marks that say where a cache may end: they
/// move on with the conversation, and the provider reads past them.
fn identify(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::String(text) => text.hash(hasher),
        Value::Array(values) => values.iter().for_each(|value| identify(value, hasher)),
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != "cache_control") {
                name.hash(hasher);
                identify(value, hasher);
            }
        }
        other => other.to_string().hash(hasher),
    }
}

/// The step that a command or a line about it is for.
fn step_in(line: &str) -> Option<u32> {
    let rest = line.split_once("'step ").or_else(|| line.split_once("'^step "))?.1;
    rest.split(' ').next()?.parse().ok()
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a content, which is one or a list of parts.
fn texts(content: Option<&Value>) -> Vec<&str> {
    match content {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter(|part| text(part, "type") == "text");
            texts.map(|part| text(part, "text")).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bash(id: &str, command: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": command}})
    }

    fn result(id: &str, content: &str, failed: bool) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": failed})
    }

    fn seen(messages: Value) -> Sight {
        Sight::of(&json!({"system": "You are", "messages": messages}))
    }

    #[test]
    fn steps_and_rules_are_seen_in_the_memory_and_in_what_follows() {
        let memory = "<memory>\n## What the user has said since\n#9: carries the tag [x-1].\n\n## Went \
                      wrong when last run\n#7: $ printf 'step 0002 [x]\\n' >> l: failed\n\n## \
                      Done\n#5: $ printf 'step 0001 [x]\\n' >> l\n\n## News\n</memory>";
        let sight = seen(json!([
            {"role": "user", "content": [{"type": "text", "text": memory}]},
            {"role": "assistant", "content": [bash("a", "printf 'step 0003 [x]\\n' >> l")]},
            {"role": "user", "content": [result("a", "", false)]},
        ]));
        let steps: Vec<Standing> = (1..=4).map(|step| sight.step(step)).collect();
        use Standing::{Done, Open, Unknown};
        assert_eq!(steps, [Done, Unknown, Done, Open]);
        assert_eq!(sight.tags, ["x-1".to_owned()].into());
        assert_eq!(sight.orphans, [""; 0]);
        assert_eq!(sight.strange, ["News"]);
    }

    #[test]
    fn what_was_looked_at_counts() {
        for (found, standing) in
            [("there is no step 0003", Standing::Open), ("step 0003 [x]", Standing::Done)]
        {
            let sight = seen(json!([
                {"role": "assistant", "content": [bash("a", "printf 'step 0003 [x]\\n' >> l")]},
                {"role": "user", "content": [result("a", "its end is not known", true)]},
                {"role": "assistant", "content": [bash("b", "grep '^step 0003 ' l || echo '…'")]},
                {"role": "user", "content": [result("b", found, false)]},
            ]));
            assert_eq!(sight.step(3), standing, "{found}");
        }
    }

    #[test]
    fn what_was_read_is_told_from_what_was_not_there() {
        let read = |id: &str, path: &str| {
            let input = json!({ "path": path });
            json!({"type": "tool_use", "id": id, "name": "read_file", "input": input})
        };
        let sight = seen(json!([
            {"role": "assistant", "content": [read("a", "data/0017.log"), read("b", "data/0018.log")]},
            {"role": "user", "content": [result("a", "no such file", true), result("b", "1 x", false)]},
        ]));
        assert_eq!(sight.read, [(17, false), (18, true)]);
    }

    #[test]
    fn a_call_without_a_result_is_an_orphan_and_so_is_the_reverse() {
        let sight = seen(json!([
            {"role": "assistant", "content": [bash("a", "ls")]},
            {"role": "user", "content": [result("b", "", false)]},
        ]));
        assert_eq!(sight.orphans, ["the result b", "the call a"]);
    }
}
