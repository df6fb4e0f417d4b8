//! What a job recalls, with a model in a file that says what texts mean.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cofferdam_testkit::{Dialect, Turn, minilm};
use serde_json::json;

use crate::agent::{Agent, bash};
use crate::context_meaning::{found, without_times};
use crate::eventually;
use crate::server_lab::Served;

/// Notes that a job writes, of which one is meant.
const NOTES: usize = 6;

/// A model that writes notes and asks for them again. All of them have the words that
/// are looked for; only the last is about what they mean together.
fn agent() -> Agent {
    let note = |number: usize| match number {
        NOTES => "small furry mammals with wings, in short bats, leave the cave where they sleep \
                  each night and fly out to hunt for moths"
            .to_owned(),
        _ => format!("note {number}: cave bats, fly in, night out, tickets"),
    };
    // One after another: what runs at the same time ends in any order.
    let notes = (1..=NOTES).map(|number| bash(&format!("echo {}", note(number))));
    let recall =
        Turn::call("recall", json!({ "query": "bats that fly in the cave at night", "limit": 20 }));
    Agent::new(Dialect::Messages, notes.chain([recall]))
}

fn place(found: &[String]) -> usize {
    found.iter().rposition(|line| line.contains("mammals")).unwrap()
}

/// A job beside this embedder, and what it found.
fn beside(path: &Path) -> Vec<String> {
    let agent = agent();
    let run = agent.run(&["write notes"]).env("COFFERDAM_EMBEDDER", path.to_str().unwrap());
    run.run().expect_code(0);
    found(&agent.transcript())
}

#[test]
fn what_is_meant_comes_earlier_with_a_model_in_a_file() {
    let model = minilm().unwrap();
    let alone = agent();
    alone.run(&["write notes"]).run().expect_code(0);
    let by_words = found(&alone.transcript());
    let mixed = beside(&model);
    assert!(place(&mixed) < place(&by_words), "{by_words:#?}\n{mixed:#?}");
    // Nothing is lost, and the file itself may be named.
    let sorted = |found: &[String]| {
        let found = without_times(found).into_iter();
        let mut found: Vec<String> =
            found.map(|line| line.trim_start_matches(char::is_numeric).to_owned()).collect();
        found.sort();
        found
    };
    assert_eq!(sorted(&mixed), sorted(&by_words));
    assert_eq!(without_times(&beside(&model.join("model.onnx"))), without_times(&mixed));
}

/// A directory with the files of the model, but for those that are put there instead.
fn instead(files: &[(&str, Option<&str>)]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for name in ["model.onnx", "tokenizer.json", "libonnxruntime.so"] {
        let path = place.path().join(name);
        match files.iter().find(|(other, _)| *other == name) {
            Some((_, Some(content))) => fs::write(path, content).unwrap(),
            Some((_, None)) => {}
            None => symlink(minilm().unwrap().join(name), path).unwrap(),
        }
    }
    place
}

#[test]
fn files_that_are_no_model_are_told_before_anything_begins() {
    let garbage = Some("no such thing");
    for (files, words) in [
        (vec![("model.onnx", None)], ["holds 0 .onnx files", "help:  name the .onnx file itself"]),
        (vec![("model.onnx", garbage)], ["is no ONNX model", "was downloaded whole"]),
        (vec![("tokenizer.json", None)], ["tokenizer.json\" cannot be read", "beside it"]),
        (vec![("tokenizer.json", garbage)], ["is no tokenizer", "a model of BERT's family"]),
        (
            vec![("libonnxruntime.so", garbage)],
            ["ONNX Runtime cannot be loaded", "put libonnxruntime.so 1.17 or newer beside"],
        ),
    ] {
        let place = instead(&files);
        let agent = agent();
        let path = place.path().to_str().unwrap();
        let run = agent.run(&["write notes"]).env("COFFERDAM_EMBEDDER", path);
        let ran = run.run().expect_error(2, &words);
        ran.expect_error(2, &["error[RUN-003]: the embedder", path]);
        assert!(agent.requests().is_empty(), "{files:?}");
    }
}

/// Files as a job might leave them. Were they looked into, they would be refused for
/// what is in them.
fn plant(place: &Path) {
    fs::create_dir_all(place).unwrap();
    for name in ["model.onnx", "tokenizer.json", "libonnxruntime.so"] {
        fs::write(place.join(name), "planted").unwrap();
    }
}

const PLANTED: [&str; 3] =
    ["error[RUN-003]: the embedder", "where jobs may write", "help:  move the model"];

#[test]
fn a_model_where_jobs_write_is_refused_before_anything_begins() {
    let agent = agent();
    let planted = agent.workspace.join("models/mini");
    plant(&planted);
    let link = agent.home.beside("link");
    symlink(&planted, &link).unwrap();
    let through = agent.workspace.join("through");
    symlink(minilm().unwrap(), &through).unwrap();
    let kept = agent.home.path().join("jobs/1/mini");
    plant(&kept);
    for path in [&planted, &planted.join("model.onnx"), &link, &through, &kept] {
        let run = agent.run(&["write notes"]).env("COFFERDAM_EMBEDDER", path.to_str().unwrap());
        run.run().expect_error(2, &PLANTED);
    }
    assert!(agent.requests().is_empty());
    // It is the job's own workspace that counts, wherever the user is.
    let elsewhere = agent.home.make_directory("elsewhere");
    let mut run = agent.run(&["write notes", "--workspace", agent.workspace.to_str().unwrap()]);
    run.command().current_dir(elsewhere);
    run.env("COFFERDAM_EMBEDDER", planted.to_str().unwrap()).run().expect_error(2, &PLANTED);
}

#[test]
fn a_server_takes_no_model_from_where_its_jobs_write() {
    let agent = agent();
    let data = agent.home.beside("data");
    for below in ["jobs/1/workspace", "sandboxes/1", "blobs/1", "spool"] {
        let planted = data.join(below);
        plant(&planted);
        let serve = agent.invoke("serve", &["--listen", "127.0.0.1:0", "--data"]);
        let serve = serve.words([data.to_str().unwrap()]);
        let ran = serve.env("COFFERDAM_EMBEDDER", planted.to_str().unwrap()).run();
        ran.expect_error(2, &PLANTED);
    }
}

/// Whether the library that runs models is part of a server's process.
fn is_loaded(served: &Served) -> bool {
    let maps = fs::read_to_string(format!("/proc/{}/maps", served.pid())).unwrap();
    assert!(maps.contains("cofferdam"), "{maps}");
    maps.contains("onnxruntime")
}

#[test]
fn nothing_is_loaded_unless_the_settings_say_so() {
    assert!(!is_loaded(&Served::with_options(agent(), &[])));
    let agent = agent();
    agent.configure(&format!("[model]\nembedder = {:?}\n", minilm().unwrap()));
    let served = Served::with_options(agent, &[]);
    assert!(is_loaded(&served));
    let job = served.submit(&["write notes"]);
    eventually("the end of the job", || served.job(&job)["status"] == "complete");
}
