//! What a script is made of: steps, each with its calls and what to make of
//! their outputs.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::outputs::Outputs;

/// A task's script.
pub(super) struct Script {
    /// Its name, of letters only.
    pub(super) name: &'static str,
    /// Its steps, in their order.
    pub(super) steps: Vec<Step>,
    /// What to say once all of it is done.
    pub(super) summary: String,
}

/// One answer, and how to go on after it.
pub(super) struct Step {
    /// Its name, of letters and `_`.
    pub(super) name: &'static str,
    /// What is said before the calls.
    pub(super) say: String,
    /// The calls.
    pub(super) calls: Vec<Call>,
    /// The calls to make where it is not known whether the others were; as a
    /// rule the same.
    pub(super) calls_in_doubt: Option<Vec<Call>>,
    /// How to go on.
    pub(super) judge: Box<dyn Fn(&Outputs<'_>) -> Next>,
}

/// How a script goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// With the next step.
    On,
    /// With an earlier one, a limited number of times.
    Back { to: &'static str, because: String },
    /// Not at all.
    GiveUp(String),
}

/// A call of a tool.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

impl Step {
    /// A step whose calls all have to succeed.
    pub(super) fn new(name: &'static str, say: impl Into<String>, calls: Vec<Call>) -> Self {
        let judge = Box::new(|outputs: &Outputs<'_>| on_or_give_up(outputs));
        Self { name, say: say.into(), calls, calls_in_doubt: None, judge }
    }

    /// The same step, judged in another way.
    pub(super) fn judged(self, judge: impl Fn(&Outputs<'_>) -> Next + 'static) -> Self {
        Self { judge: Box::new(judge), ..self }
    }

    /// The same step, with other calls where the first ones are in doubt.
    pub(super) fn in_doubt(self, calls: Vec<Call>) -> Self {
        Self { calls_in_doubt: Some(calls), ..self }
    }
}

/// On if every call has succeeded.
pub(super) fn on_or_give_up(outputs: &Outputs<'_>) -> Next {
    outputs.first_failure().map_or(Next::On, Next::GiveUp)
}

/// The first step: the programs that are needed are there, and no file of
/// somebody else is in the way. A file that an earlier demo wrote is not. A name
/// may come twice in a row, with two contents.
pub(super) fn look(programs: &str, written: &[(&'static str, &str)]) -> Step {
    let mut names: Vec<&str> = written.iter().map(|(name, _)| *name).collect();
    names.dedup();
    let names_in_words = names.join(", ");
    let known: Vec<String> = written.iter().map(|(_, content)| digest(content)).collect();
    let command = format!(
        "{programs} && for file in {}; do if [ -e \"$file\" ]; then sha256sum \"$file\"; fi; done",
        names.join(" ")
    );
    let judge = move |outputs: &Outputs<'_>| {
        let text = outputs.text();
        let files = text.lines().filter_map(|line| line.split_once("  "));
        let strange = |digest: &str| is_digest(digest) && !known.iter().any(|own| own == digest);
        match files.filter(|(digest, _)| strange(digest)).map(|(_, name)| name).next() {
            Some(name) => Next::GiveUp(format!(
                "There is a file `{}` that the demo did not write, and it would be overwritten. \
                 Nothing was changed. Run the demo in an empty directory.",
                name.trim()
            )),
            None => on_or_give_up(outputs),
        }
    };
    let say = format!(
        "First a look: are the programs there that I need, and is nothing in the way of what I \
         am going to write ({names_in_words})?"
    );
    Step::new("look", say, vec![bash(&command)]).judged(judge)
}

fn digest(content: &str) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit())
}

pub(super) fn bash(command: &str) -> Call {
    Call { tool: "bash", arguments: json!({ "command": command, "timeout": 60 }) }
}

pub(super) fn write_file(path: &str, content: &str) -> Call {
    Call { tool: "write_file", arguments: json!({ "path": path, "content": content }) }
}

pub(super) fn read_file(path: &str) -> Call {
    Call { tool: "read_file", arguments: json!({ "path": path }) }
}

/// A plan of which so many steps are done.
pub(super) fn plan(steps: &[&str], done: usize) -> Call {
    let status = |place: usize| match place.cmp(&done) {
        std::cmp::Ordering::Less => "completed",
        std::cmp::Ordering::Equal => "in_progress",
        std::cmp::Ordering::Greater => "pending",
    };
    let steps = steps.iter().enumerate();
    let steps: Vec<_> =
        steps.map(|(place, step)| json!({ "step": step, "status": status(place) })).collect();
    Call { tool: "plan", arguments: json!({ "steps": steps }) }
}
