//! Jupyter's own library reads the notebooks, holds them against its schema, and would write
//! the same file. It comes with JupyterLab, as `cofferdam setup` installs it.

use std::fs;
use std::path::Path;
use std::process::Command;

use cofferdam_notebook::{Bundle, Limits, Output, Part, notebooks};
use cofferdam_testkit::SetUp;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::bounds::job;
use crate::sessions::session;
use crate::world::{PIXEL, World, stderr, stdout};

#[expect(clippy::disallowed_methods, reason = "Jupyter's own library, in tests")]
fn command(program: &Path) -> Command {
    Command::new(program)
}

#[track_caller]
fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?} failed: {said}");
}

/// Reads each file as Jupyter does and validates it. Files whose name begins with `same` have
/// to be the same after they are written again.
const SCRIPT: &str = r#"
import os, sys, warnings
import nbformat
warnings.simplefilter("error")
names = sorted(os.listdir(sys.argv[1]))
for name in names:
    with open(os.path.join(sys.argv[1], name), encoding="utf-8", newline="") as file:
        text = file.read()
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook, relax_add_props=False)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5), name
    again = nbformat.writes(notebook) + "\n"
    assert nbformat.reads(again, as_version=4) == notebook, name
    if name.startswith("same"):
        assert again == text, name
assert names
"#;

fn validate(texts: &[(String, String)]) {
    let place = tempfile::tempdir().unwrap();
    for (name, text) in texts {
        fs::write(place.path().join(name), text).unwrap();
    }
    let python = SetUp::for_tests().and_then(|made| made.python()).unwrap();
    run(command(&python).args(["-I", "-c", SCRIPT]).arg(place.path()));
}

#[test]
fn jupyter_would_have_written_the_same_file() {
    validate(&[("same.ipynb".to_owned(), session().notebook())]);
}

#[test]
fn jupyter_takes_hostile_notebooks_for_valid() {
    let mut world = World::new("\0\u{1b}[31m\u{2028}<script>");
    let all: String = (0..0x180).filter_map(char::from_u32).collect();
    let part = |mime, data: &str| Part::new(mime, data);
    world.says(&all);
    world.python(&all, &[stdout(all.as_str()), stderr("\r\u{c}\u{b}\u{85}\u{1c}")]);
    let bundle = vec![
        part("text/plain", "\u{fffd}\u{10ffff}"),
        part("application/json", r#"{"a": "\ud800"}"#),
        part("application/vnd.dataresource+json", r#"{"a": "\ud83d\ude00\u0000"}"#),
        part("image/png", PIXEL),
        part("image/svg+xml", "<svg onload='x'/>"),
    ];
    world.python("x", &[Output::Result(Bundle(bundle))]);
    let (name, value) = ("\0".to_owned(), "\n".to_owned());
    world.python("y", &[Output::Error { name, value, traceback: all.clone() }]);
    world.python("z", &[stdout("0123456789".repeat(500_000)), stdout("\0".repeat(5_000_000))]);
    let mut texts = vec![("hostile.ipynb".to_owned(), world.notebook())];

    let mut runner = TestRunner::deterministic();
    for number in 0..40 {
        let world = job().new_tree(&mut runner).unwrap().current();
        let limits = Limits { file: 1 << 17, ..Limits::default() };
        for notebook in notebooks(&world.records, &limits) {
            texts.push((format!("any-{number}.ipynb"), notebook.to_json()));
        }
    }
    validate(&texts);
}
