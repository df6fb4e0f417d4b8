//! The task of a health API: written, tested, started in the background, and
//! asked over HTTP.

use serde_json::json;

use super::moment::Conversation;
use super::outputs::Outputs;
use super::script::{Call, Next, Script, Step, bash, look, write_file};

pub(super) const PROGRAM: &str = include_str!("programs/health_api.py");
pub(super) const TEST: &str = include_str!("programs/health_test.py");

/// So often the service is asked.
const QUESTIONS: usize = 3;
const ASK: &str = include_str!("programs/health_ask.py");

pub(super) fn script(conversation: &Conversation<'_>) -> Script {
    let asked = conversation.times("ask");
    let mut steps = vec![
        look("command -v python3", &[("app.py", PROGRAM), ("test_app.py", TEST)]),
        Step::new(
            "write",
            "I write the service and a test. It uses Flask if Flask is installed here, and the \
             standard library if not.",
            vec![write_file("app.py", PROGRAM), write_file("test_app.py", TEST)],
        ),
        Step::new("test", "Now its tests.", vec![bash("python3 -B -m unittest -v test_app")]),
        Step::new(
            "start",
            "Now the service itself, in the background.",
            vec![Call {
                tool: "bash",
                arguments: json!({ "command": "python3 app.py --port 5000", "background": true }),
            }],
        ),
        Step::new(
            "ask",
            "And a real request to it; it may need a moment to start.",
            vec![bash(&format!("python3 - <<'PYTHON'\n{ASK}PYTHON"))],
        )
        .judged(move |outputs| answered(outputs, asked)),
    ];
    // Without a name there is nothing to stop; it ends with its sandbox.
    if let Some(process) = process_named_in(&conversation.heard_from("start")) {
        let stop = json!({ "process": process, "stop": true });
        let call = Call { tool: "bash", arguments: stop };
        let step = Step::new("stop", "It answers. I stop it again.", vec![call]);
        // The service has answered; it does not matter how it ended.
        steps.push(step.judged(|_| Next::On));
    }
    Script {
        name: "health",
        steps,
        summary: "Wrote `app.py` and `test_app.py`. The tests pass, and the running service \
                  answered GET /health with status 200 and `\"status\": \"ok\"`. Start it with \
                  `python3 app.py`."
            .to_owned(),
    }
}

/// The service may be gone: background processes do not outlive an interruption.
fn answered(outputs: &Outputs<'_>, asked: usize) -> Next {
    if outputs.ended_with(0, "HTTP 200") {
        return Next::On;
    }
    let failure = outputs.first_failure().unwrap_or_else(|| outputs.text());
    let because = format!("The service did not answer as it should. {failure}");
    if asked < QUESTIONS { Next::Back { to: "start", because } } else { Next::GiveUp(because) }
}

/// The first word like `p1`.
fn process_named_in(text: &str) -> Option<&str> {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.find(|word| {
        let number = word.strip_prefix('p').unwrap_or_default();
        !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_is_found_in_what_the_tool_says() {
        for (text, expected) in [
            ("Started in the background as p12.", Some("p12")),
            ("process: \"p1\" (python3 app.py)", Some("p1")),
            ("pid 7, app.py, p", None),
            ("", None),
        ] {
            assert_eq!(process_named_in(text), expected, "{text}");
        }
    }
}
