//! Whatever goes wrong is said with its remedy, and nothing that looks ready is left.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cofferdam_setup::{Part, Progress, Recipe, Setup, SetupError};

use crate::world::{World, lives, tell, until};

#[track_caller]
fn help(error: &SetupError, words: &str) {
    let help = error.help().unwrap();
    assert!(help.contains(words), "{error}\n{help}");
}

#[test]
fn without_python_or_npm_it_says_which_package_has_it() {
    let world = World::new();
    fs::remove_file(world.home().join("bin/python3")).unwrap();
    let error = world.fails(Part::Python);
    assert!(matches!(&error, SetupError::NoPython { .. }), "{error}");
    help(&error, "apt-get install python3 python3-venv");

    let mut world = World::new();
    fs::remove_file(world.home().join("bin/npm")).unwrap();
    // The machine's own npm is not looked for.
    world.host.path.truncate(1);
    let error = world.fails(Part::TypeScript);
    assert!(matches!(&error, SetupError::NoNpm { .. }), "{error}");
    help(&error, "apt-get install npm");
}

#[test]
fn a_python_in_somebodys_home_is_none() {
    let world = World::new();
    let elsewhere = World::new();
    let link = world.home().join("bin/python3");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(elsewhere.home().join("bin/python3"), &link).unwrap();
    assert!(matches!(world.fails(Part::Python), SetupError::NoPython { .. }));
}

#[test]
fn a_python_without_venv_or_too_old_is_named() {
    let world = World::new();
    world.does(
        "about",
        "echo 3.11; echo \"ModuleNotFoundError: No module named 'ensurepip'\" >&2; exit 1",
    );
    let error = world.fails(Part::Python);
    assert!(error.to_string().contains("No module named 'ensurepip'"), "{error}");
    help(&error, "apt-get install python3.11-venv");

    world.does("about", "echo 3.9");
    let error = world.fails(Part::Python);
    assert!(
        error.to_string().ends_with("is Python 3.9; the packages need 3.11 or newer"),
        "{error}"
    );

    world.does("about", "kill -9 $$");
    let error = world.fails(Part::Python);
    assert!(error.to_string().contains("was ended by signal 9"), "{error}");
}

#[test]
fn a_failure_repeats_the_last_lines_and_keeps_nothing() {
    let world = World::new();
    world.does("pip", "mkdir -p lib/half; seq 1 100; echo 'ERROR: disk full' >&2; exit 2");
    let error = world.fails(Part::Python);
    let text = error.to_string();
    assert!(text.starts_with("python: cannot install packages: `"), "{text}");
    assert!(text.contains("-m pip install --no-user --only-binary=:all:"), "{text}");
    assert!(text.contains("` ended with exit code 2\n    90\n"), "{text}");
    assert!(text.ends_with("\n    100\n    ERROR: disk full"), "{text}");
    help(&error, "versions are fixed");

    // The next one is not bothered by it.
    let world = World::new();
    world.does("npm", "exit 1");
    world.fails(Part::TypeScript);
    world.does("npm", "exit 0");
    let error = world.fails(Part::TypeScript);
    assert!(error.to_string().contains("bin/deno"), "nothing was installed: {error}");
}

#[test]
fn without_a_network_it_says_what_was_tried() {
    let world = World::new();
    world.does("pip", "echo 'ERROR: No matching distribution (from versions: none)'; exit 1");
    help(&world.fails(Part::Python), "`pip config list`");
    world.does("npm", "echo 'npm error code ENOTFOUND' >&2; exit 1");
    help(&world.fails(Part::TypeScript), "`npm config get registry`");
}

#[test]
fn what_does_not_run_is_not_ready() {
    let world = World::new();
    world.does("trial", "echo 'ImportError: libzmq.so' >&2; exit 1");
    let error = world.fails(Part::Python);
    assert!(error.to_string().contains("cannot try what was installed"), "{error}");
    assert!(error.to_string().ends_with("ImportError: libzmq.so"), "{error}");
}

#[test]
fn what_takes_too_long_is_ended_with_all_that_it_started() {
    let mut world = World::new();
    world.limits.packages = Duration::from_millis(500);
    let script = "sleep 600 & echo $! > \"$HERE/child\"; trap '' TERM; echo begun; wait; sleep 600";
    world.does("pip", script);
    let error = world.fails(Part::Python);
    assert!(matches!(&error, SetupError::TimedOut { .. }), "{error}");
    assert!(error.to_string().ends_with("begun"), "{error}");
    let child = fs::read_to_string(world.home().join("child")).unwrap();
    until("the child is gone", || !lives(&child));
}

#[test]
fn it_can_be_stopped_in_the_middle() {
    let world = World::new();
    world.does("pip", "echo begun; sleep 600");
    let recipes = [Recipe::of(Part::Python).unwrap()];
    let stopped = world.setup(|setup| {
        setup.install(&recipes, &mut |event| {
            if tell(&event) == "| begun" {
                world.stop.store(true, Ordering::Relaxed);
            }
        })
    });
    assert!(matches!(stopped, Err(SetupError::Stopped)), "{stopped:?}");
    assert_eq!(world.places(), Vec::<String>::new());
}

#[test]
fn what_a_program_leaves_behind_does_not_hold_it_up() {
    let world = World::new();
    world.does("npm", "sleep 600 & echo $! > \"$HERE/child\"; . \"$HERE/deno\"");
    world.does(
        "deno",
        "mkdir -p node_modules/@deno/linux-x64-glibc node_modules/@deno/linux-arm64-glibc
        for one in x64 arm64; do
            printf '#!/bin/sh\\n' > node_modules/@deno/linux-$one-glibc/deno
            chmod 755 node_modules/@deno/linux-$one-glibc/deno
        done",
    );
    world.install(&[Part::TypeScript]).0.unwrap();
    let child = fs::read_to_string(world.home().join("child")).unwrap();
    until("the child is gone", || !lives(&child));
}

fn locked(world: &World) -> fs::File {
    fs::create_dir_all(world.prefix()).unwrap();
    let lock = fs::File::create(world.prefix().join(".lock")).unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn another_set_up_is_waited_for_but_not_for_ever() {
    let mut world = World::new();
    let lock = locked(&world);
    world.limits.lock = Duration::from_millis(200);
    let error = world.fails(Part::Python);
    assert!(matches!(&error, SetupError::Busy { .. }), "{error}");

    world.limits.lock = Duration::from_secs(120);
    let recipes = [Recipe::of(Part::Python).unwrap()];
    let mut lock = Some(lock);
    let installed = world.setup(|setup| {
        setup.install(&recipes, &mut |event| {
            if event == Progress::Waiting {
                drop(lock.take());
            }
        })
    });
    assert_eq!(installed.unwrap().len(), 1);
    assert!(lock.is_none(), "it was waited for");
}

#[test]
fn what_is_half_there_is_made_anew() {
    let world = World::new();
    let place = world.install(&[Part::Python]).0.unwrap().remove(0).place;
    let ready = fs::read(place.join(".ready")).unwrap();
    let spoil: [&dyn Fn(&Path); 4] = [
        &|place| fs::remove_file(place.join(".ready")).unwrap(),
        &|place| fs::write(place.join(".ready"), &ready[..ready.len() / 2]).unwrap(),
        &|place| fs::write(place.join(".ready"), r#"{"version":2}"#).unwrap(),
        &|place| fs::remove_file(place.join("bin/python")).unwrap(),
    ];
    for spoil in spoil {
        fs::write(place.join("half"), "").unwrap();
        spoil(&place);
        assert_eq!(world.found().python, None);
        world.install(&[Part::Python]).0.unwrap();
        assert!(!place.join("half").exists(), "it was made anew");
        assert!(world.found().python.is_some());
    }
}

#[test]
fn a_prefix_that_cannot_be_made_is_named() {
    let world = World::new();
    fs::write(world.home().join("home"), "a file").unwrap();
    let error = world.install(&[Part::Python]).0.unwrap_err();
    assert!(matches!(&error, SetupError::System { doing: "make", .. }), "{error}");
    assert!(std::error::Error::source(&error).is_some());

    let (limits, stop) = (world.limits, &world.stop);
    let setup = Setup { prefix: Path::new("relative"), host: &world.host, limits, stop };
    let error = setup.install(&[Recipe::of(Part::Python).unwrap()], &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "cannot install into relative");
}
