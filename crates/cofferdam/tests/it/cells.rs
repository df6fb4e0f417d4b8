//! Code cells in jobs: a scripted model runs them on real kernels in the native
//! sandbox, with no network, as root and as an ordinary user.

use cofferdam_testkit::{Dialect, Turn};
use serde_json::json;

use crate::agent::{Agent, bash, of_kind};
use crate::home::Home;

/// A picture of one pixel.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk\
                       +M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// What came of one call.
#[derive(Debug)]
struct Output {
    status: String,
    text: String,
    /// The pictures' bytes, in base64.
    pictures: Vec<String>,
}

impl Output {
    #[track_caller]
    fn done(&self) -> &str {
        assert_eq!(self.status, "done", "{self:?}");
        &self.text
    }

    #[track_caller]
    fn failed(&self) -> &str {
        assert_eq!(self.status, "failed", "{self:?}");
        &self.text
    }
}

fn cell(tool: &str, code: &str) -> Turn {
    Turn::call(tool, json!({ "code": code }))
}

/// Runs these turns in a job, and what came of each call.
fn outputs(agent: &Agent) -> Vec<Output> {
    let words = ["--json", "--max-turns", "200", "Run the cells"];
    let ran = agent.run(&words).run();
    ran.expect_code(0);
    let records = agent.transcript();
    let outputs = of_kind(&records, "tool_ended").into_iter().map(|record| {
        let output = &record["output"];
        let content = output["content"].as_array().unwrap();
        let of = |kind: &str, field: &str| -> Vec<String> {
            let those = content.iter().filter(|part| part["type"] == kind);
            those.map(|part| part[field].as_str().unwrap().to_owned()).collect()
        };
        Output {
            status: output["status"].as_str().unwrap().to_owned(),
            text: of("text", "text").join("\n"),
            pictures: of("image", "data"),
        }
    });
    outputs.collect()
}

fn job(home: Home, turns: Vec<Turn>) -> (Agent, Vec<Output>) {
    home.set_up_cells();
    let agent = Agent::at(home, Dialect::Messages, turns);
    let outputs = outputs(&agent);
    (agent, outputs)
}

/// The model was shown this picture, as a picture.
fn was_shown(agent: &Agent, picture: &str) -> bool {
    agent.requests().iter().any(|request| request.body.to_string().contains(picture))
}

pub(crate) fn python(home: Home) {
    let turns = vec![
        cell("python", "x = 41"),
        cell("python", "print('printed')\nx + 1"),
        cell("python", "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]); plt.show()"),
        cell("python", "1/0"),
        Turn::call("python", json!({"code": "while True: pass", "timeout": 5})),
        cell("python", "x"),
        cell("python", "input('name? ')"),
        Turn::call("python", json!({"code": "x = 'other'; x", "kernel": "second"})),
        cell("python", "import os\nos.kill(os.getpid(), 9)"),
        cell("python", "x"),
        Turn::call("python", json!({"code": "x", "kernel": "second"})),
        cell("python", "from pathlib import Path\nPath('made.txt').write_text('by a cell')"),
        cell("python", "import socket\nsocket.create_connection(('192.0.2.1', 80), 2)"),
    ];
    let (agent, outputs) = job(home, turns);
    assert!(outputs[0].done().contains("new interpreter"), "{:?}", outputs[0]);
    let text = outputs[1].done();
    assert!(text.contains("printed") && text.contains("42"), "{text}");
    outputs[2].done();
    let [picture] = outputs[2].pictures.as_slice() else { panic!("{:?}", outputs[2]) };
    assert!(picture.starts_with("iVBORw0KGgo"), "a PNG");
    assert!(was_shown(&agent, picture));
    assert!(outputs[3].failed().contains("ZeroDivisionError"), "{:?}", outputs[3]);
    let text = outputs[4].failed();
    assert!(text.contains("interrupted") && text.contains("KeyboardInterrupt"), "{text}");
    assert!(outputs[5].done().contains("41"), "{:?}", outputs[5]);
    assert!(outputs[6].failed().contains("input"), "{:?}", outputs[6]);
    assert!(outputs[7].done().contains("other"), "{:?}", outputs[7]);
    assert!(outputs[8].failed().contains("died"), "{:?}", outputs[8]);
    let text = outputs[9].failed();
    assert!(text.contains("new interpreter") && text.contains("NameError"), "{text}");
    assert!(outputs[10].done().contains("other"), "{:?}", outputs[10]);
    outputs[11].done();
    assert_eq!(agent.file("made.txt"), "by a cell");
    outputs[12].failed();
}

pub(crate) fn typescript(home: Home) {
    let display = |picture: &str| {
        let code =
            format!("await Deno.jupyter.display({{'image/png': '{picture}'}}, {{raw: true}})");
        cell("typescript", &code)
    };
    let turns = vec![
        cell("typescript", "let x: number = 41; console.log('printed')"),
        cell("typescript", "x + 1"),
        display(PICTURE),
        cell("typescript", "throw new RangeError('too far')"),
        Turn::call("typescript", json!({"code": "while (true) {}", "timeout": 5})),
        cell("typescript", "x"),
        cell("typescript", "prompt('name?')"),
        cell("typescript", "Deno.kill(Deno.pid, 'SIGKILL'); await new Promise(() => {})"),
        cell("typescript", "x"),
        // No picture: a provider that refuses it would end the job.
        display("iVBORw0KGgo="),
    ];
    let (_agent, outputs) = job(home, turns);
    assert!(outputs[0].done().contains("printed"), "{:?}", outputs[0]);
    assert!(outputs[1].done().contains("42"), "{:?}", outputs[1]);
    outputs[2].done();
    assert_eq!(outputs[2].pictures, [PICTURE]);
    assert!(outputs[3].failed().contains("RangeError"), "{:?}", outputs[3]);
    assert!(outputs[4].failed().contains("interrupted"), "{:?}", outputs[4]);
    assert!(outputs[5].done().contains("41"), "{:?}", outputs[5]);
    assert_ne!(outputs[6].status, "unknown", "{:?}", outputs[6]);
    assert!(outputs[7].failed().contains("died"), "{:?}", outputs[7]);
    let text = outputs[8].failed();
    assert!(text.contains("new interpreter") && text.contains("ReferenceError"), "{text}");
    assert!(outputs[9].done().contains("cannot be shown"), "{:?}", outputs[9]);
    assert!(outputs[9].pictures.is_empty());
}

#[test]
fn python_keeps_its_state_draws_fails_and_is_restarted() {
    python(Home::new());
}

#[test]
fn an_ordinary_user_has_python_too() {
    python(Home::of_ordinary_user());
}

#[test]
fn typescript_keeps_its_state_draws_fails_and_is_restarted() {
    typescript(Home::new());
}

#[test]
fn an_ordinary_user_has_typescript_too() {
    typescript(Home::of_ordinary_user());
}

#[test]
fn a_hundred_cells_in_each_language() {
    let mut turns = vec![cell("python", "n = 0"), cell("typescript", "let n = 0")];
    turns.extend(
        (0..50).flat_map(|_| [cell("python", "n += 1\nn"), cell("typescript", "n += 1; n")]),
    );
    let (_agent, outputs) = job(Home::new(), turns);
    assert_eq!(outputs.len(), 102);
    for (number, pair) in (1..).zip(outputs[2..].chunks(2)) {
        for output in pair {
            assert!(output.done().contains(&number.to_string()), "{number}: {output:?}");
        }
    }
}

#[test]
fn kernels_that_nobody_uses_end_and_come_back() {
    let home = Home::new();
    home.set_up_cells();
    // The brackets keep the shell from finding itself.
    let gone = "while pgrep -f '[i]pykernel_launcher' >/dev/null; do sleep 0.1; done";
    let turns = vec![cell("python", "x = 1"), bash(gone), cell("python", "'x' in globals()")];
    let agent = Agent::at(home, Dialect::Messages, turns);
    agent.configure("[sandbox]\nidle = \"1s\"\n");
    let outputs = outputs(&agent);
    outputs[0].done();
    outputs[1].done();
    let text = outputs[2].done();
    assert!(text.contains("new interpreter") && text.contains("False"), "{text}");
}

#[test]
fn without_a_set_up_it_is_said_how_to_get_one() {
    let agent = Agent::new(Dialect::Messages, [cell("typescript", "1")]);
    let outputs = outputs(&agent);
    assert!(outputs[0].failed().contains("cofferdam setup"), "{:?}", outputs[0]);
}
