//! The task of running one command: the smallest there is.

use super::moment::Conversation;
use super::script::{Script, Step, bash};

/// What a task of this kind begins with; the rest of its first line is the command.
const OPENING: &str = "Run: ";

/// Run in place of a command that may have been run: doing it twice may do harm.
const IN_DOUBT: &str = "echo 'Whether the command was run is not known.'; exit 1";

/// The command in a task; `None` if the task is another.
pub(super) fn of(task: &str) -> Option<&str> {
    let command = task.trim_start().strip_prefix(OPENING)?.lines().next()?.trim();
    (!command.is_empty()).then_some(command)
}

pub(super) fn script(conversation: &Conversation<'_>) -> Script {
    let task = conversation.opening();
    let command = of(&task).unwrap_or("true");
    Script {
        name: "command",
        steps: vec![
            Step::new("run", "I run it.", vec![bash(command)]).in_doubt(vec![bash(IN_DOUBT)]),
        ],
        summary: "Ran the command; its exit code is 0.".to_owned(),
    }
}
