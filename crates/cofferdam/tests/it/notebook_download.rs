//! Notebooks of jobs: of transcripts here, and of a server's jobs. Jupyter's own library
//! reads each of them.

use std::path::Path;
use std::process::Command;

use cofferdam_testkit::{Dialect, SetUp, Turn};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::home::Home;
use crate::served::{Served, bearer};

/// Reads a notebook as Jupyter does, and validates it.
const SCRIPT: &str = "
import sys, warnings, nbformat
warnings.simplefilter('error')
notebook = nbformat.reads(sys.stdin.read(), as_version=4)
nbformat.validate(notebook, relax_add_props=False)
assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
";

/// The notebook of a text, which Jupyter takes.
#[track_caller]
fn valid(text: &[u8]) -> Value {
    let python = SetUp::for_tests().and_then(|made| made.python()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("notebook.ipynb");
    std::fs::write(&file, text).unwrap();
    let mut jupyter = Command::new(python);
    let ran = jupyter.args(["-I", "-c", SCRIPT]).stdin(std::fs::File::open(file).unwrap());
    let ran = ran.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(text).unwrap()
}

/// The code of each cell, with its number.
fn code(notebook: &Value) -> Vec<(u64, String)> {
    let cells = notebook["cells"].as_array().unwrap().iter();
    let code = cells.filter(|cell| cell["cell_type"] == "code").map(|cell| {
        let lines = cell["source"].as_array().unwrap();
        let source = lines.iter().map(|line| line.as_str().unwrap()).collect();
        (cell["execution_count"].as_u64().unwrap(), source)
    });
    code.collect()
}

fn cell(tool: &str, code: &str) -> Turn {
    Turn::call(tool, json!({ "code": code }))
}

fn set_up() -> Home {
    let home = Home::new();
    home.set_up_cells();
    home
}

#[test]
fn a_job_here_becomes_a_notebook_with_what_came_of_its_cells() {
    let turns = vec![
        cell("python", "x = 41\nprint('printed')"),
        cell("python", "x + 1"),
        cell("python", "1/0"),
    ];
    let agent = Agent::at(set_up(), Dialect::Messages, turns);
    agent.run(&["--quiet", "Compute"]).run().expect_code(0);
    let job = agent.transcript()[0]["spec"]["job"].as_str().unwrap().to_owned();

    let ran = agent.invoke("download", &["--notebook", "--last"]).run().expect_code(0);
    let file = format!("{job}.ipynb");
    assert_eq!(ran.text().trim_end(), file);
    let text = std::fs::read(agent.workspace.join(&file)).unwrap();
    let notebook = valid(&text);
    assert_eq!(notebook["metadata"]["kernelspec"]["name"], "python3");
    assert_eq!(notebook["metadata"]["title"], "Compute");
    let expected = [(1, "x = 41\nprint('printed')"), (2, "x + 1"), (3, "1/0")];
    assert_eq!(code(&notebook), expected.map(|(number, code)| (number, code.to_owned())));
    let outputs: Vec<&Value> = notebook["cells"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|cell| cell["outputs"].as_array().into_iter().flatten())
        .collect();
    let has = |wanted: &dyn Fn(&Value) -> bool| outputs.iter().any(|output| wanted(output));
    assert!(has(&|output| output["text"] == json!(["printed\n"])), "{outputs:?}");
    assert!(has(&|output| output["data"]["text/plain"] == json!(["42"])), "{outputs:?}");
    assert!(has(&|output| output["ename"] == "ZeroDivisionError"), "{outputs:?}");

    // By its id, by the file's name, and to stdout: the same bytes.
    let words = ["--out", "mine.ipynb", job.as_str()];
    agent.invoke("download", &words).run().expect_code(0);
    assert_eq!(std::fs::read(agent.workspace.join("mine.ipynb")).unwrap(), text);
    let words = ["--notebook", "--out", "-", "--kernel", "python", job.as_str()];
    assert_eq!(agent.invoke("download", &words).run().expect_code(0).stdout, text);

    let words = ["--kernel", "typescript", "--last"];
    let told = ["error[RUN-011]", "no notebook \"typescript\", only python", "--kernel"];
    agent.invoke("download", &words).run().expect_error(1, &told);
    let words = ["--kernel", "../x", "--last"];
    agent.invoke("download", &words).run().expect_error(2, &["error[CLI-003]"]);
    let words = ["--notebook", "--last", "--out", "no/such/place.ipynb"];
    agent.invoke("download", &words).run().expect_error(2, &["error[CLI-004]"]);
}

#[test]
fn a_job_without_cells_has_no_notebook_and_a_job_that_is_none_neither() {
    let agent = Agent::new(Dialect::Messages, []);
    let words = ["--notebook", "--last"];
    agent.invoke("download", &words).run().expect_error(2, &["error[RUN-005]"]);
    agent.run(&["--quiet", "Talk"]).run().expect_code(0);
    let told = ["error[RUN-011]", "the job has run no code cells"];
    agent.invoke("download", &words).run().expect_error(1, &told);
    assert_eq!(std::fs::read_dir(&agent.workspace).unwrap().count(), 0);
}

#[test]
fn a_servers_job_has_a_notebook_for_each_kernel() {
    let turns = vec![
        cell("python", "print('snake')"),
        cell("typescript", "const x: number = 40;\nx + 2"),
        Turn::call("python", json!({"code": "'second'", "kernel": "other"})),
    ];
    let served = Served::new(turns);
    // A server need not be started anew for what is set up while it runs.
    served.home().set_up_cells();
    let job = served.submit(&json!({"task": "Compute twice"}));
    served.until(&job, &["complete"]);
    let path = format!("/api/v1/jobs/{job}/notebook.ipynb");

    let told = served.ask("GET", &path).refused(409, "API-007");
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.ends_with("python, typescript, python-other"), "{detail}");
    let mut files = Vec::new();
    for (name, language) in
        [("python", "python3"), ("typescript", "deno"), ("python-other", "python3")]
    {
        let answer = served.ask("GET", &format!("{path}?kernel={name}")).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/x-ipynb+json"));
        let file = format!("attachment; filename=\"{job}-{name}.ipynb\"");
        assert_eq!(answer.header("content-disposition"), Some(file.as_str()));
        let notebook = valid(&answer.body);
        assert_eq!(notebook["metadata"]["kernelspec"]["name"], language);
        assert_eq!(code(&notebook).len(), 1);
        files.push(answer.body);
    }
    let text = String::from_utf8(files[1].clone()).unwrap();
    assert!(text.contains("42"), "{text}");

    served.ask("GET", &format!("{path}?kernel=perl")).refused(404, "API-020");
    served.ask("GET", &format!("{path}?kernel=..%2f")).refused(404, "API-020");
    served.ask("GET", &format!("{path}?kernels=python")).refused(400, "API-001");
    served.nobody("GET", &path).refused(401, "API-002");
    let other = served.new_user("other");
    let stranger = served.nobody("GET", &path).header("Authorization", &bearer(&other));
    stranger.refused(404, "API-004");
    let silent = served.submit(&json!({"task": "Run: true", "model": "demo"}));
    served.until(&silent, &["complete"]);
    let none = format!("/api/v1/jobs/{silent}/notebook.ipynb");
    served.ask("GET", &none).refused(404, "API-020");

    let place = served.home().make_directory("place");
    let download = |words: &[&str]| {
        let mut invocation = served.home().cofferdam(["download", "--notebook"]);
        invocation.command().current_dir(&place);
        let url = format!("http://{}", served.address);
        invocation.words(words).env("COFFERDAM_SERVER", url).env("COFFERDAM_TOKEN", &served.token)
    };
    let told = ["error[API-007]", "python, typescript, python-other", "name one with --kernel"];
    download(&[&job]).run().expect_error(1, &told);
    download(&[&job, "--kernel", "typescript"]).run().expect_code(0);
    let file = Path::new(&place).join(format!("{job}-typescript.ipynb"));
    assert_eq!(std::fs::read(file).unwrap(), files[1]);
    let told = ["error[API-020]", "has no notebook \"perl\"", "name one of them"];
    download(&[&job, "--kernel", "perl"]).run().expect_error(1, &told);
    download(&[&silent]).run().expect_error(1, &["error[API-020]", "no code cells"]);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
    served.stop();
}
