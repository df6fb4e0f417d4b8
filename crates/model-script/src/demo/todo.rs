//! The task of a todo web app. The page is written by the coder, and checked by
//! the orchestrator.

use serde_json::json;

use super::moment::Conversation;
use super::script::{Call, Script, Step, bash, look, write_file};

pub(super) const PAGE: &str = include_str!("programs/todo.html");
pub(super) const CHECK_BY_NODE: &str = include_str!("programs/todo_check.mjs");
pub(super) const CHECK_BY_PYTHON: &str = include_str!("programs/todo_check.py");

/// What the coder is told; it knows the task by these words.
pub(super) const INSTRUCTION: &str = "Write index.html: a todo list as one static page";

const RUN_CHECK: &str =
    "if command -v node >/dev/null; then node check.mjs; else python3 check.py; fi";

/// The orchestrator's part. Where it cannot delegate, it writes the page itself.
pub(super) fn script(conversation: &Conversation<'_>) -> Script {
    let page = if conversation.offers("delegate") {
        let arguments = json!({
            "instruction": format!("{INSTRUCTION}."),
            "context": "An empty directory, or one that an earlier demo has written to. \
                        check.mjs and check.py will check the page.",
            "constraints": "One file, nothing loaded from elsewhere. Add, toggle, delete, filter \
                            (all, active, done), kept in localStorage. The functions of the list \
                            are in a script with the id \"model\", the page's own in \"view\". \
                            Light and dark.",
        });
        let call = Call { tool: "delegate", arguments };
        Step::new("delegate", "The page is the coder's work.", vec![call])
    } else {
        Step::new("page", "I write the page.", vec![write_file("index.html", PAGE)])
    };
    let checks =
        vec![write_file("check.mjs", CHECK_BY_NODE), write_file("check.py", CHECK_BY_PYTHON)];
    Script {
        name: "todo",
        steps: vec![
            look(
                "{ command -v node || command -v python3; }",
                &[
                    ("index.html", PAGE),
                    ("check.mjs", CHECK_BY_NODE),
                    ("check.py", CHECK_BY_PYTHON),
                ],
            ),
            page,
            Step::new(
                "checks",
                "The page is there. I write a check of it: for Node, which can run its functions, \
                 and for Python, which can at least look at its structure.",
                checks,
            ),
            Step::new("check", "And run it.", vec![bash(RUN_CHECK)]),
        ],
        summary: "A todo list in `index.html`: open it in a browser. Add, tick off, delete and \
                  filter; the browser keeps the list. The check passed (`node check.mjs`, or \
                  `python3 check.py` where there is no Node)."
            .to_owned(),
    }
}

/// The coder's part.
pub(super) fn coder(_: &Conversation<'_>) -> Script {
    Script {
        name: "coder",
        steps: vec![Step::new("write", "I write the page.", vec![write_file("index.html", PAGE)])],
        summary: "Wrote `index.html`. I have not run it.".to_owned(),
    }
}
