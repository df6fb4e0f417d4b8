//! A desktop in jobs: a scripted model uses a graphical program on a real X server in
//! the native sandbox, with no network, as root and as an ordinary user.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cofferdam_testkit::{Dialect, Picture, Turn};
use serde_json::{Value, json};

use crate::agent::{Agent, bash, of_kind};
use crate::home::Home;
use crate::processes;

/// A field above a button. The button writes what is in the field to a file, and turns
/// from red to green.
const FORM: &str = r##"
import pathlib, tkinter

root = tkinter.Tk()
root.title("Form")
root.geometry("400x300+200+150")
entry = tkinter.Entry(root)
entry.pack(fill="x", ipady=20)

def save():
    pathlib.Path("said").write_text(entry.get(), encoding="utf-8")
    button.configure(background="#12c834", activebackground="#12c834")

red = "#c83412"
button = tkinter.Button(root, text="Save", background=red, activebackground=red, command=save)
button.pack(fill="both", expand=True)

def ready():
    if button.winfo_viewable():
        pathlib.Path("ready").write_text("")
    else:
        root.after(50, ready)

root.after(50, ready)
root.mainloop()
"##;

const RED: [u8; 3] = [0xc8, 0x34, 0x12];
const GREEN: [u8; 3] = [0x12, 0xc8, 0x34];

/// In the field, in the button, and in the button beside its label and the pointer: the
/// window's frame is thinner than any of them.
const FIELD: [u32; 2] = [400, 205];
const BUTTON: [u32; 2] = [400, 350];
const BESIDE: [u32; 2] = [280, 420];

const WORDS: &str = "Grüße, 世界 ✓";

fn computer(arguments: Value) -> Turn {
    Turn::call("computer", arguments)
}

fn look() -> Turn {
    computer(json!({"action": "screenshot"}))
}

/// What came of each call: how it ended, and its text.
pub(crate) fn outputs(agent: &Agent) -> Vec<(String, String)> {
    let ran = agent.run(&["--json", "Use the desktop"]).run();
    ran.expect_code(0);
    let records = agent.transcript();
    let outputs = of_kind(&records, "tool_ended").into_iter().map(|record| {
        let output = &record["output"];
        let content = output["content"].as_array().unwrap();
        let texts: Vec<&str> = content.iter().filter_map(|part| part["text"].as_str()).collect();
        (output["status"].as_str().unwrap().to_owned(), texts.join("\n"))
    });
    outputs.collect()
}

/// The pictures in what a model was asked, in their order, whatever the dialect.
fn pictures(asked: &Value) -> Vec<Picture> {
    match asked {
        Value::Array(parts) => parts.iter().flat_map(pictures).collect(),
        Value::Object(parts) => parts.values().flat_map(pictures).collect(),
        Value::String(text) => {
            let data = text.strip_prefix("data:image/png;base64,").unwrap_or(text);
            let png = data.starts_with("iVBORw0KGgo").then(|| STANDARD.decode(data).unwrap());
            png.iter().map(|png| Picture::of(png)).collect()
        }
        _ => Vec::new(),
    }
}

/// The pictures that the model had seen when it was asked last.
fn seen(agent: &Agent) -> Vec<Picture> {
    pictures(&agent.requests().last().unwrap().body)
}

pub(crate) fn form(home: Home, dialect: Dialect) {
    let mark = home.mark();
    let open = format!("python3 form.py {mark}");
    let open = Turn::call("bash", json!({"command": open, "background": true}));
    let ready = "for n in $(seq 600); do test -e ready && exit 0; sleep 0.1; done; exit 1";
    let turns = vec![
        look(),
        open,
        bash(ready),
        computer(json!({"action": "left_click", "coordinate": FIELD})),
        computer(json!({"action": "type", "text": "what is not meant"})),
        computer(json!({"action": "triple_click", "coordinate": FIELD})),
        computer(json!({"action": "type", "text": WORDS})),
        computer(json!({"action": "left_click", "coordinate": BUTTON})),
        bash("for n in $(seq 600); do test -s said && exec cat said; sleep 0.1; done; exit 1"),
        look(),
    ];
    let agent = Agent::at(home, dialect, turns);
    agent.home.make_file(&agent.workspace.join("form.py"), FORM);
    let outputs = outputs(&agent);
    assert_eq!(outputs.len(), 10);
    for (number, (status, text)) in outputs.iter().enumerate() {
        assert_eq!(status, "done", "{number}: {text}");
    }
    assert!(outputs[0].1.contains("the desktop was started now"), "{}", outputs[0].1);
    assert_eq!(agent.file("said"), WORDS);
    assert!(outputs[8].1.contains(WORDS), "{}", outputs[8].1);

    // One of each action, as pictures.
    let seen = seen(&agent);
    assert_eq!(seen.len(), 7);
    assert!(seen.iter().all(|picture| picture.size == (1280, 800)));
    let colours: Vec<_> = seen.iter().map(|picture| picture.pixel(BESIDE)).collect();
    assert!(colours[0] != RED && colours[0] != GREEN, "{colours:?}");
    assert_eq!(colours[1..5], [RED; 4], "{colours:?}");
    assert_eq!(colours[6], GREEN, "{colours:?}");
    // The words are seen in the field.
    let dark = |picture: &Picture| {
        let field = (210..590).flat_map(|x| (180..230).map(move |y| [x, y]));
        field.filter(|at| picture.pixel(*at).iter().all(|part| *part < 0x60)).count()
    };
    assert!(dark(&seen[1]) < dark(&seen[4]), "{} {}", dark(&seen[1]), dark(&seen[4]));

    // Nothing is left of a desktop that was still there when the job ended.
    assert_eq!(processes::with_argument(&mark), Vec::<i32>::new());
}

#[test]
fn a_model_fills_in_a_form_with_eyes_and_hands() {
    form(Home::new(), Dialect::Messages);
}

#[test]
fn an_ordinary_user_has_a_desktop_too() {
    form(Home::of_ordinary_user(), Dialect::Responses);
}

#[test]
fn a_desktop_that_nobody_uses_ends_and_comes_back() {
    let gone = "for n in $(seq 600); do pgrep -x 'Xvnc|Xtigervnc|openbox' >/dev/null || exit 0; \
                sleep 0.1; done; exit 1";
    let turns = vec![look(), bash(gone), look()];
    let agent = Agent::new(Dialect::Messages, turns);
    agent.configure("[sandbox]\nidle = \"3s\"\nscreen = \"1024x768\"\n");
    let outputs = outputs(&agent);
    for (number, (status, text)) in outputs.iter().enumerate() {
        assert_eq!(status, "done", "{number}: {text}");
    }
    assert!(outputs[2].1.contains("the desktop was started now"), "{}", outputs[2].1);
    let sizes: Vec<_> = seen(&agent).iter().map(|picture| picture.size).collect();
    assert_eq!(sizes, [(1024, 768); 2]);
}
