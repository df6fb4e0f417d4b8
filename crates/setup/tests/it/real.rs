//! The real Python, pip and npm: what they install runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use cofferdam_setup::{Host, Origin, Part, Program, Recipe, Setup, TimeLimits};
use cofferdam_testkit::SetUp;

/// The prefix of all tests, and the place of a program in it.
fn set_up(program: impl Fn(&SetUp) -> Option<Program>) -> (Program, PathBuf) {
    let made = SetUp::for_tests().unwrap();
    let program = program(&made).unwrap();
    let Origin::Prefix(place) = &program.origin else { panic!("{program:?}") };
    assert!(place.starts_with(&made.prefix) && program.path.starts_with(place), "{program:?}");
    let place = place.clone();
    (program, place)
}

/// What a program says, without the caller's environment.
fn said(program: &Path, arguments: &[&str]) -> String {
    #[expect(clippy::disallowed_methods, reason = "what was installed is run, in tests")]
    let mut command = Command::new(program);
    let ran = command.args(arguments).env_clear().env("HOME", "/nonexistent").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn everything_is_ready_after_it() {
    let made = SetUp::for_tests().unwrap();
    let (host, stop) = (Host::here(std::env::var_os("PATH").as_ref()), AtomicBool::new(false));
    let limits = TimeLimits::default();
    let setup = Setup { prefix: &made.prefix, host: &host, limits, stop: &stop };
    let recipes = Part::ALL.map(|part| Recipe::of(part).unwrap());
    assert!(setup.plan(&recipes).unwrap().iter().all(|planned| planned.ready));
    for part in Part::ALL {
        assert!(made.found.of(part).is_some(), "{part}");
    }
}

#[test]
fn deno_runs_without_node() {
    let (deno, _) = set_up(|made| made.found.deno.clone());
    assert!(said(&deno.path, &["--version"]).starts_with("deno 2.9.6 "));
    let code = "const x: number = 40; console.log(x + 2)";
    assert_eq!(said(&deno.path, &["eval", "--ext=ts", code]).trim(), "42");
}

#[test]
fn the_viewer_has_all_of_its_modules() {
    let made = SetUp::for_tests().unwrap();
    let modules = made.found.viewer_directory().unwrap();
    assert!(modules.starts_with(&made.prefix));
    for module in ["core/rfb.js", "core/decoders/tight.js", "vendor/pako/lib/zlib/inflate.js"] {
        assert!(modules.join(module).is_file(), "{module}");
    }
}

#[test]
fn a_kernel_of_python_runs_with_the_machines_python() {
    let (python, place) = set_up(|made| made.found.python.clone());
    let script = "import ipykernel, sys; print(ipykernel.__version__, sys.prefix)";
    let expected = format!("7.4.0 {}\n", place.display());
    assert_eq!(said(&python.path, &["-I", "-c", script]), expected);
    assert!(place.join("share/jupyter/kernels/python3/kernel.json").exists());
}

#[test]
fn jupyter_lab_starts() {
    let (lab, _) = set_up(|made| made.found.lab.clone());
    assert!(said(&lab.path, &["--version"]).starts_with("4."));
}
