//! What is in a notebook, and what is not.

use cofferdam_notebook::{Bundle, Output, Part, Step, story};
use cofferdam_types::{Block, Content, Event, Rest, Role, ThreadId, ToolOutput, ToolStatus};
use serde_json::json;

use crate::checked::{Cell, checked};
use crate::world::{MAIN, PIXEL, World, plain, stderr, stdout};

/// A session with everything in it.
pub(crate) fn session() -> World {
    let mut world = World::new("Plot the \"data\"\n\nwith ![care](http://example.org/)");
    world.says("I begin with the numbers.");
    world.python("x = 1\nprint(x)", &[stdout("1\n"), stdout("more\n"), stderr("careful\n")]);
    world.python("x + 1", &[Output::Result(Bundle(vec![plain("2")]))]);
    world.says("Now a plot:\n\n```py\nplt.plot([1])\n```");
    let figure = vec![plain("<Figure>"), Part::new("image/png", PIXEL)];
    world.python("plt.plot([1])", &[Output::Display(Bundle(figure))]);
    let traceback = "\u{1b}[31m---\u{1b}[39m\nTraceback (most recent call last)\n\u{1b}[31mZeroDivisionError\u{1b}[39m: division by zero";
    let (name, value) = ("ZeroDivisionError".to_owned(), "division by zero".to_owned());
    world.python("1 / 0", &[Output::Error { name, value, traceback: traceback.to_owned() }]);
    world.event(Event::UserSaid { text: "Stop it after a while".to_owned() });
    let why = "the cell ran longer than 5 s".to_owned();
    world.python("while True: pass", &[Output::Restarted(why)]);
    let table = vec![
        plain("{'a': 1}"),
        Part::new("application/json", r#"{"b": [1, null], "a": 1.5}"#),
        Part::new("text/html", "<b>a</b>\n<i>1</i>"),
    ];
    world.python("{'a': 1}", &[Output::Result(Bundle(table))]);
    let why = "it was not used for 600 s".to_owned();
    world.python("x", &[Output::Started(why), stdout("gone\n")]);
    world.completes("All is plotted.");
    world
}

#[test]
fn a_session_reads_as_jupyter_would_have_written_it() {
    let text = session().notebook();
    checked(&text);
    insta::assert_snapshot!(text);
    assert_eq!(text, session().notebook(), "the same log gives the same bytes");
}

#[test]
fn each_kernel_has_a_notebook_of_its_own() {
    let mut world = World::new("Compare");
    world.python("1", &[]);
    world.cell("typescript", &json!({"code": "2"}), &[]);
    world.cell("python", &json!({"code": "3", "kernel": "a b"}), &[]);
    world.cell("python", &json!({"code": "4", "kernel": "a/b"}), &[]);
    world.cell("python", &json!({"code": "5", "kernel": "main", "timeout": 3}), &[]);
    let notebooks = world.notebooks();
    let told: Vec<_> = notebooks
        .iter()
        .map(|notebook| {
            let file = checked(&notebook.to_json());
            let kernel = file.metadata.kernelspec["name"].clone();
            format!("{} {kernel} {}", notebook.name, notebook.cells)
        })
        .collect();
    assert_eq!(
        told,
        ["python python3 2", "typescript deno 1", "python-a-b python3 1", "python-a-b-2 python3 1"]
    );
}

#[test]
fn a_job_without_cells_has_no_notebook() {
    let mut world = World::new("Talk");
    world.says("Hello");
    world.cell("bash", &json!({"command": "ls", "code": "no"}), &[]);
    assert_eq!(world.notebooks(), []);
    assert_eq!(cofferdam_notebook::notebooks(&[], &cofferdam_notebook::Limits::default()), []);
}

fn steps(world: &World) -> Vec<Step> {
    story(&world.records).steps
}

#[test]
fn what_became_of_a_cell_is_said_however_it_ended() {
    let mut world = World::new("Work");
    let arguments = json!({"code": "x"}).to_string();
    let refused = world.begins(MAIN, "python", &arguments);
    world.ends(MAIN, refused, ToolOutput::text(ToolStatus::Refused, "python: no kernel"));
    let cancelled = world.begins(MAIN, "python", &arguments);
    world.ends(MAIN, cancelled, ToolOutput::text(ToolStatus::Cancelled, "the job was stopped"));
    let long = world.begins(MAIN, "python", &arguments);
    let rest = Some(Rest { handle: "output:3".to_owned(), bytes: 9_000_000 });
    let content = vec![Content::text("[stdout]\nbeginning")];
    world.ends(MAIN, long, ToolOutput { content, rest, ..ToolOutput::text(ToolStatus::Done, "") });
    world.begins(MAIN, "python", &arguments);
    let file = checked(&world.notebook());
    let mut told = String::new();
    for cell in &file.cells {
        if let Cell::Code { execution_count, outputs, .. } = cell {
            told.push_str(&format!("{execution_count:?}"));
            for output in outputs {
                if let crate::checked::Output::Stream { name, text } = output {
                    told.push_str(&format!(" {name}: {}", text.concat().trim_end()));
                }
            }
            told.push('\n');
        }
    }
    insta::assert_snapshot!(told, @r"
    None stderr: [python: no kernel]
    Some(1) stderr: [the job was stopped]
    Some(2) stdout: beginning stderr: [There is more of this output, 9000000 bytes in all: output:3 in the job.]
    Some(3) stderr: [This cell had not ended yet.]
    ");
}

#[test]
fn arguments_that_mean_nothing_are_no_cell() {
    let mut world = World::new("Work");
    for arguments in ["{", r#"{"code": "\ud800"}"#, r#"{"code": 3}"#, "{}", "[]"] {
        let call = world.begins(MAIN, "python", arguments);
        world.ends(MAIN, call, ToolOutput::text(ToolStatus::Refused, "no"));
    }
    assert_eq!(steps(&world), []);
}

#[test]
fn words_go_with_the_conversation_that_said_them() {
    let mut world = World::new("Work");
    let say = |text: &str| vec![Block::Text { text: text.to_owned() }];
    world.says("mine");
    world.answers(ThreadId(1), Role::Coder, say("the coder's"));
    world.answers(MAIN, Role::Summariser, say("a summary"));
    let call = world.begins(ThreadId(1), "python", r#"{"code": "1"}"#);
    world.ends(ThreadId(1), call, ToolOutput::text(ToolStatus::Done, "[stdout]\n"));
    world.python("2", &[]);
    world.python("3", &[]);
    let said: Vec<_> = steps(&world).into_iter().map(|step| step.said.concat()).collect();
    assert_eq!(said, ["the coder's", "mine", ""]);
}
