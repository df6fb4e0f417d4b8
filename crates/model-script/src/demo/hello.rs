//! The task of a hello-world script.

use super::moment::Conversation;
use super::outputs::Outputs;
use super::script::{Next, Script, Step, bash, look, on_or_give_up, write_file};

pub(super) const PROGRAM: &str = include_str!("programs/hello.py");
const GREETING: &str = "Hello, world!";

pub(super) fn script(_: &Conversation<'_>) -> Script {
    Script {
        name: "hello",
        steps: vec![
            look("command -v python3", &[("hello.py", PROGRAM)]),
            Step::new("write", "I write the script.", vec![write_file("hello.py", PROGRAM)]),
            Step::new(
                "run",
                "And run it, once for the world and once with a name.",
                vec![bash("python3 hello.py && python3 hello.py Ada")],
            )
            .judged(greeted),
        ],
        summary: "Wrote `hello.py` and ran it: `python3 hello.py` prints \"Hello, world!\", and a \
                  name after it greets that name."
            .to_owned(),
    }
}

fn greeted(outputs: &Outputs<'_>) -> Next {
    match on_or_give_up(outputs) {
        Next::On if !outputs.text().contains(GREETING) => {
            Next::GiveUp("the script ran, but did not say hello.".to_owned())
        }
        next => next,
    }
}
