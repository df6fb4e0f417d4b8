//! Kernels: which there are, when they come, when they go.

use std::process::Stdio;

use cofferdam_aide_protocol::{CellEnd, KernelPiece};
use cofferdam_guest_protocol::RecordDecoder;
use rustix::process::{Signal, kill_process};

use crate::aide::{Home, exists, is_alive, wait_until};

#[test]
fn the_kernels_that_there_are_can_be_listed() {
    let home = Home::new();
    let ran = home.command(&["kernels"]).output().unwrap();
    assert!(ran.status.success());
    let mut decoder = RecordDecoder::default();
    decoder.push(&ran.stdout);
    let mut found = Vec::new();
    while let Some(KernelPiece::Found(facts)) = decoder.next_record().unwrap() {
        found.push((facts.spec, facts.language));
    }
    for (spec, language) in [("python3", "python"), ("deno", "typescript")] {
        assert!(found.contains(&(spec.to_owned(), language.to_owned())), "{found:?}");
    }
}

#[test]
fn an_unknown_kernel_says_what_there_is_and_what_to_install() {
    let home = Home::new();
    let why = home.start_with(&["--spec", "julia"]).err().unwrap();
    assert!(why.contains("no kernel \"julia\""), "{why}");
    assert!(why.contains("python3") && why.contains("deno"), "{why}");
    assert!(why.contains("cofferdam setup") && why.contains("install its kernel"), "{why}");
    let given = home.cell("main", "1");
    let CellEnd::NoKernel { why } = given.end() else { panic!("{given:?}") };
    assert!(why.contains("no kernel \"julia\""), "{why}");
}

#[test]
fn a_kernel_that_cannot_start_says_why() {
    let home = Home::new();
    let specs = home.path("jupyter/kernels/broken");
    std::fs::create_dir_all(&specs).unwrap();
    let spec = r#"{"argv": ["/bin/sh", "-c", "echo no module named kernel >&2; exit 3",
        "{connection_file}"], "display_name": "Broken", "language": "none"}"#;
    std::fs::write(specs.join("kernel.json"), spec).unwrap();
    let mut command = home.command(&["kernel", "--spec", "broken"]);
    command.env("JUPYTER_PATH", home.path("jupyter")).stdout(Stdio::piped());
    let ran = command.output().unwrap();
    let mut decoder = RecordDecoder::default();
    decoder.push(&ran.stdout);
    let Some(KernelPiece::Failed { why }) = decoder.next_record().unwrap() else { panic!() };
    assert!(why.contains("exited with 3") && why.contains("no module named kernel"), "{why}");
}

#[test]
fn a_name_has_one_kernel() {
    let home = Home::new();
    let _kernel = home.start("python3", "main");
    let why = home.start_with(&["--spec", "deno", "--name", "main"]).err().unwrap();
    assert!(why.contains("running already"), "{why}");
    assert_eq!(home.cell("main", "6 * 7").result(), "42");
}

#[test]
fn a_cell_without_a_kernel_says_so() {
    let home = Home::new();
    let given = home.cell("main", "1");
    let CellEnd::NoKernel { why } = given.end() else { panic!("{given:?}") };
    assert!(why.contains("no kernel \"main\" was started"), "{why}");
}

#[test]
fn a_cell_waits_for_a_kernel_that_is_starting() {
    let home = Home::new();
    let mut command = home.command(&["kernel", "--spec", "deno"]);
    let mut keeper = command.stdout(Stdio::null()).spawn().unwrap();
    wait_until("the keeper is there", || exists(&home.path("state/main.json")));
    let result = home.cell("main", "6 * 7").result();
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    assert_eq!(result, "42");
    // Only a new keeper ends what a killed one left.
    let left = home.kernel_of("main");
    assert!(is_alive(left));
    let _kernel = home.start("deno", "main");
    wait_until("the old kernel is gone", || !is_alive(left));
    assert_eq!(home.cell("main", "6 * 7").result(), "42");
}

#[test]
fn an_idle_kernel_is_ended_and_a_busy_one_is_not() {
    let home = Home::new();
    let args = ["--spec", "python3", "--name", "main", "--idle", "1"];
    let kernel = home.start_with(&args).unwrap();
    // Longer than the idle time, within one cell.
    let given = home.cell("main", "import time; time.sleep(2.5); 'awake'");
    assert_eq!(given.result(), "'awake'");
    assert_eq!(kernel.ended(), "no cell was run for 1 s");
    let given = home.cell("main", "1");
    let CellEnd::NoKernel { why } = given.end() else { panic!("{given:?}") };
    assert!(why.contains("no cell was run for 1 s"), "{why}");
    let _kernel = home.start("python3", "main");
    assert_eq!(home.cell("main", "1").result(), "1");
}

#[test]
fn nothing_is_left_when_a_kernel_has_gone() {
    use std::os::unix::fs::PermissionsExt;

    let home = Home::new();
    let kernel = home.start("deno", "main");
    let mode = home.path("state/main.json").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    home.cell("main", "1");
    kill_process(kernel.pid(), Signal::TERM).unwrap();
    kernel.ended();
    for file in ["main.json", "main.ready", "main.running", "main.used"] {
        assert!(!exists(&home.path("state").join(file)), "{file}");
    }
}
