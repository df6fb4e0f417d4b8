//! A set-up that is killed leaves nothing that looks ready, and what it had started keeps the
//! next one away until it is gone.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cofferdam_setup::{Found, Part, SetupError};

use crate::world::{World, lives, until};

/// Says to a second process of this test where its machine is.
const MACHINE: &str = "COFFERDAM_SETUP_TEST_MACHINE";

/// Not a test of its own: what the process that is killed does.
#[test]
fn the_process_that_is_killed() {
    let Some(machine) = std::env::var_os(MACHINE) else { return };
    let world = World::at(Path::new(&machine));
    world.install(&[Part::Python]).0.unwrap();
}

/// Ends when it is dropped.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_killed_set_up_looks_like_none_and_the_next_one_waits_for_its_programs() {
    let mut world = World::new();
    // It ends when its directory, or the file `go` in it, says so.
    world.does(
        "pip",
        "mkdir -p lib/half; echo $$ > \"$HERE/pip-id.new\"; mv \"$HERE/pip-id.new\" \"$HERE/pip-id\"
         while [ -e \"$HERE/pip-id\" ] && [ ! -e \"$HERE/go\" ]; do sleep 0.05; done",
    );
    #[expect(clippy::disallowed_methods, reason = "a second process of this test")]
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "killed::the_process_that_is_killed"]).env(MACHINE, world.home());
    let victim = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let victim = Victim(victim);
    let pip = world.home().join("pip-id");
    until("pip runs", || pip.exists());
    let pip = fs::read_to_string(pip).unwrap();
    drop(victim);

    assert!(lives(&pip), "pip has not noticed");
    assert_eq!(world.found(), Found::default());
    world.limits.lock = Duration::from_millis(300);
    let busy = world.install(&[Part::Python]).0;
    assert!(matches!(busy, Err(SetupError::Busy { .. })), "{busy:?}");

    fs::write(world.home().join("go"), "").unwrap();
    until("pip is gone", || !lives(&pip));
    world.limits.lock = Duration::from_secs(120);
    world.does("pip", "mkdir -p lib/python3.11/site-packages/ipykernel");
    let place = world.install(&[Part::Python]).0.unwrap().remove(0).place;
    assert!(!place.join("lib/half").exists(), "it was made anew");
    assert!(world.found().python.is_some());
}
