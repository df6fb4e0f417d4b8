//! Which sample task somebody has in mind.
//!
//! Tolerant of wording, but not of another purpose: who asks to repair an API
//! wants no new one.

use super::moment::Conversation;
use super::script::Script;
use super::{command, csv_filter, health, hello, todo};

/// Makes a task's script for a conversation.
pub(super) type Composer = fn(&Conversation<'_>) -> Script;

/// The sample tasks, in words of the README.
pub(super) const SAMPLES: [(&str, Composer); 5] = [
    ("Write a hello world script", hello::script),
    ("Build a Flask API with a /health endpoint", health::script),
    ("Write a CSV filter with sample data and tests", csv_filter::script),
    ("Build a todo web app", todo::script),
    ("Run: uname -sm", command::script),
];

/// Words that name a task; the first row with one of them wins. "Hello" is last:
/// it may also greet.
const KEYWORDS: [(&[&str], Composer); 4] = [
    (&["csv"], csv_filter::script),
    (&["todo", "todos"], todo::script),
    (&["health", "healthcheck", "flask", "api"], health::script),
    (&["hello"], hello::script),
];

/// Words of work on something that is there already.
const ABOUT_SOMETHING_ELSE: [&str; 17] = [
    "bug", "client", "debug", "explain", "fix", "improve", "migrate", "optimise", "optimize",
    "port", "refactor", "remove", "rename", "repair", "review", "update", "upgrade",
];

/// The script for a task; `None` if there is none.
pub(super) fn recognise(task: &str) -> Option<Composer> {
    if task.contains(todo::INSTRUCTION) {
        return Some(todo::coder);
    }
    if command::of(task).is_some() {
        return Some(command::script);
    }
    let task = task.to_lowercase().replace("to-do", "todo").replace("to do list", "todo list");
    let words: Vec<&str> = task.split(|c: char| !c.is_alphanumeric()).collect();
    let names_one_of = |known: &[&str]| words.iter().any(|word| known.contains(word));
    if names_one_of(&ABOUT_SOMETHING_ELSE) {
        return None;
    }
    KEYWORDS.iter().find(|(known, _)| names_one_of(known)).map(|(_, composer)| *composer)
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Request;
    use cofferdam_types::{Message, Toolbox};

    use super::*;

    /// The name of the script for a task.
    fn name(task: &str) -> Option<&'static str> {
        let request = Request {
            system: String::new(),
            messages: vec![Message::user(task)],
            tools: Toolbox::default(),
            max_output: 1000,
            cache_key: String::new(),
            which: cofferdam_model::Which::FIRST,
        };
        recognise(task).map(|composer| composer(&Conversation::of(&request)).name)
    }

    #[test]
    fn every_sample_task_is_recognised_as_itself() {
        let names: Vec<_> = SAMPLES.iter().map(|(task, _)| name(task)).collect();
        let expected = ["hello", "health", "csv", "todo", "command"];
        assert_eq!(names, expected.map(Some));
    }

    #[test]
    fn other_wordings_are_recognised() {
        for (task, expected) in [
            ("hello world", "hello"),
            ("Please print HELLO, in Python!", "hello"),
            ("Create a simple Flask API with a health check endpoint.", "health"),
            ("a REST api", "health"),
            ("Hello! Make me a tool that filters csv files", "csv"),
            ("Create a to-do list as a web page", "todo"),
            ("a To Do list", "todo"),
            ("Run: fix csv.txt", "command"),
        ] {
            assert_eq!(name(task), Some(expected), "{task}");
        }
    }

    #[test]
    fn tasks_about_other_things_are_not() {
        for task in [
            "",
            "Write a chess engine",
            "Fix the bug in our CSV parser",
            "Write an API client for the weather service",
            "Refactor the todo module",
            "Shellos and capitals",
            "Run:",
            "Run: ",
            "Running: ls",
        ] {
            assert_eq!(name(task), None, "{task}");
        }
    }
}
