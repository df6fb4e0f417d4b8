//! What the outputs of tools say about how their calls ended.

use super::moment::Outcome;
use crate::said::text;

/// Lines of an output that are worth repeating to the user.
const LINES_SHOWN: usize = 12;

/// What became of the calls of one step.
pub(super) struct Outputs<'a>(pub(super) &'a [Outcome<'a>]);

impl Outputs<'_> {
    /// Whether it is not known what became of a call: its process was stopped
    /// before the result was stored.
    pub(super) fn in_doubt(&self) -> bool {
        self.0.iter().any(|outcome| {
            outcome.result.is_none_or(|result| {
                let text = text(&result.content);
                result.failed && exit_code(&text).is_none() && text.contains("not known")
            })
        })
    }

    /// Whether these calls are commands, and the last one ended with this exit
    /// code and these words.
    pub(super) fn ended_with(&self, code: i32, words: &str) -> bool {
        let text = self.0.last().map(output).unwrap_or_default();
        exit_code(&text) == Some(code) && text.contains(words)
    }

    /// The first call that did not do what it was meant to, and the end of its
    /// output. A command has to say by its exit code that it did.
    pub(super) fn first_failure(&self) -> Option<String> {
        let outcome = self.0.iter().find(|outcome| !succeeded(outcome))?;
        let output = output(outcome);
        let lines: Vec<&str> = output.trim().lines().collect();
        let last = lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default();
        Some(format!("`{}` failed:\n\n```\n{}\n```", outcome.call.name, last.join("\n")))
    }

    /// Everything the calls put out.
    pub(super) fn text(&self) -> String {
        self.0.iter().map(output).collect::<Vec<_>>().join("\n")
    }
}

fn output(outcome: &Outcome<'_>) -> String {
    outcome.result.map(|result| text(&result.content)).unwrap_or_default()
}

fn succeeded(outcome: &Outcome<'_>) -> bool {
    let Some(result) = outcome.result else { return false };
    match exit_code(&text(&result.content)) {
        Some(code) => code == 0 && !result.failed,
        None => !result.failed && !says_its_exit_code(outcome),
    }
}

/// Whether a call is a command that is waited for.
fn says_its_exit_code(outcome: &Outcome<'_>) -> bool {
    let arguments = outcome.call.arguments.object().unwrap_or_default();
    let background = arguments.get("background").and_then(serde_json::Value::as_bool);
    outcome.call.name == "bash" && arguments.contains_key("command") && background != Some(true)
}

/// The exit code that an output names; the last one, as programs may print such
/// a line themselves.
fn exit_code(text: &str) -> Option<i32> {
    let codes = text.lines().filter_map(|line| line.trim().strip_prefix("exit code: "));
    // More may follow it: why a signal ended the command, say.
    codes.filter_map(|code| code.split_whitespace().next()?.parse().ok()).next_back()
}

#[cfg(test)]
mod tests {
    use cofferdam_types::{Arguments, Content, ToolCall, ToolResult};

    use super::*;

    fn with<T>(
        (name, arguments): (&str, &str),
        (failed, output): (bool, &str),
        look: impl Fn(&Outputs<'_>) -> T,
    ) -> T {
        let (id, name) = ("1".to_owned(), name.to_owned());
        let call = ToolCall { id: id.clone(), name, arguments: Arguments(arguments.to_owned()) };
        let result = ToolResult { id, content: vec![Content::text(output)], failed };
        look(&Outputs(&[Outcome { call: &call, result: Some(&result) }]))
    }

    const COMMAND: (&str, &str) = ("bash", r#"{"command":"true"}"#);
    const BACKGROUND: (&str, &str) = ("bash", r#"{"command":"true","background":true}"#);

    #[test]
    fn a_command_succeeds_only_with_its_exit_code() {
        for (call, output, expected) in [
            (COMMAND, (false, "exit code: 0\nfine"), true),
            (COMMAND, (false, "fine\nexit code: 0"), true),
            (COMMAND, (true, "exit code: 0"), false),
            (COMMAND, (false, "exit code: 1"), false),
            (COMMAND, (false, "fine"), false),
            (BACKGROUND, (false, "started as p1"), true),
            (BACKGROUND, (true, "cannot be started"), false),
            (("write_file", "{}"), (false, "written"), true),
            (("write_file", "{}"), (true, "disk full"), false),
        ] {
            assert_eq!(
                with(call, output, |it| it.first_failure().is_none()),
                expected,
                "{call:?} {output:?}"
            );
        }
    }

    #[test]
    fn only_a_result_that_nobody_knows_is_in_doubt() {
        for (output, expected) in [
            ((true, "Whether it ran, and how far, is not known."), true),
            ((true, "exit code: 1\nthat name is not known"), false),
            ((true, "not known\nexit code: 137 (ended by signal 9)"), false),
            ((true, "exit code: not known (lost); the command may or may not have run"), true),
            ((true, "unknown tool: delegate"), false),
            ((false, "not known"), false),
        ] {
            assert_eq!(with(COMMAND, output, |it| it.in_doubt()), expected, "{output:?}");
        }
        let call = ToolCall {
            id: String::new(),
            name: String::new(),
            arguments: Arguments(String::new()),
        };
        assert!(Outputs(&[Outcome { call: &call, result: None }]).in_doubt());
    }
}
