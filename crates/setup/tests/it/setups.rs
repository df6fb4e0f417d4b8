//! Set-ups that succeed, once and again.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cofferdam_setup::{Origin, Part, Recipe};

use crate::world::World;

#[test]
fn what_is_missing_is_made_and_what_is_there_stays() {
    let world = World::new();
    let (installed, told) = world.install(&Part::ALL);
    let installed = installed.unwrap();
    assert_eq!(
        told,
        [
            "python: look for what it takes to install",
            "| 3.11",
            "python: make an environment",
            "python: install packages",
            "| Collecting ipykernel",
            "| Successfully installed",
            "python: try what was installed",
            "python: set permissions",
            "python is ready",
            "typescript: look for what it takes to install",
            "typescript: install packages",
            "typescript: try what was installed",
            "| deno 2.9.6",
            "typescript: set permissions",
            "typescript is ready",
            "viewer: look for what it takes to install",
            "viewer: install packages",
            "viewer: set permissions",
            "viewer is ready",
        ]
    );
    assert_eq!(
        world.log(),
        "venv\npip\ntried ipykernel jupyterlab matplotlib.figure\nnpm ci\nnpm ci\n"
    );
    let found = world.found();
    for (part, program) in [(0, found.python.unwrap()), (1, found.deno.unwrap())] {
        assert_eq!(program.origin, Origin::Prefix(installed[part].place.clone()));
        assert!(program.path.starts_with(&installed[part].place));
    }
    let viewer = world.found();
    let modules = viewer.viewer_directory().unwrap();
    assert!(modules.starts_with(&installed[2].place) && modules.ends_with("@novnc/novnc"));

    let (again, told) = world.install(&Part::ALL);
    assert_eq!(again.unwrap(), installed);
    assert_eq!(told, ["python is there", "typescript is there", "viewer is there"]);
    assert_eq!(world.log().lines().count(), 5, "nothing was run again");
}

#[test]
fn a_plan_says_what_would_be_done() {
    let world = World::new();
    let recipes = Part::ALL.map(|part| Recipe::of(part).unwrap());
    let ready = |world: &World| -> Vec<bool> {
        let plan = world.setup(|setup| setup.plan(&recipes)).unwrap();
        plan.iter().map(|planned| planned.ready).collect()
    };
    assert_eq!(ready(&world), [false, false, false]);
    assert!(!world.prefix().exists(), "nothing is done");
    world.install(&[Part::TypeScript]).0.unwrap();
    assert_eq!(ready(&world), [false, true, false]);
}

#[test]
fn everybody_may_read_and_nobody_else_may_write() {
    let world = World::new();
    world.does(
        "pip",
        "mkdir -m 777 lib/open && echo x > lib/open/file && chmod 666 lib/open/file
         echo x > lib/closed && chmod 600 lib/closed
         echo x > lib/program && chmod 6770 lib/program",
    );
    fs::create_dir_all(world.prefix()).unwrap();
    fs::set_permissions(world.prefix(), fs::Permissions::from_mode(0o777)).unwrap();
    let place = world.install(&[Part::Python]).0.unwrap().remove(0).place;
    let mode = |path: &str| place.join(path).metadata().unwrap().permissions().mode() & 0o7777;
    let modes = [
        "..",
        "",
        ".ready",
        "lib/open",
        "lib/open/file",
        "lib/closed",
        "lib/program",
        "requirements.txt",
    ];
    assert_eq!(modes.map(mode), [0o755, 0o755, 0o644, 0o755, 0o644, 0o644, 0o755, 0o644]);
    assert!(!place.join(".tmp").exists());
}

#[test]
fn two_at_once_install_once() {
    let world = World::new();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| world.install(&Part::ALL).0.unwrap());
        }
    });
    assert_eq!(world.log().matches("pip\n").count(), 1);
    assert_eq!(world.log().matches("npm ci\n").count(), 2, "one each for two parts");
}

#[test]
fn other_recipes_live_beside_each_other_until_they_are_pruned() {
    let world = World::new();
    let other = Recipe::python("ipykernel==7.4.0\n", &["ipykernel"]);
    let old = world.setup(|setup| setup.install(&[other], &mut |_| {})).unwrap().remove(0).place;
    let python = world.found().python.unwrap();
    assert_eq!(python.origin, Origin::Prefix(old.clone()), "an older one is better than none");

    let own = world.install(&Part::ALL).0.unwrap();
    let python = world.found().python.unwrap();
    assert_eq!(python.origin, Origin::Prefix(own[0].place.clone()), "this product's goes first");

    let broken = world.prefix().join("node-0123456789abcdef");
    fs::create_dir(&broken).unwrap();
    let (foreign, outside) = (world.prefix().join("mine"), world.home().join("outside"));
    fs::write(&foreign, "").unwrap();
    fs::create_dir(&outside).unwrap();
    let link = world.prefix().join("node-fedcba9876543210");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let keep = Part::ALL.map(|part| Recipe::of(part).unwrap());
    let removed = world.setup(|setup| setup.prune(&keep)).unwrap();
    let mut expected = vec![old, broken];
    expected.sort_by_key(|path| !path.ends_with("node-0123456789abcdef"));
    let mut removed_sorted = removed;
    removed_sorted.sort_by_key(|path| !path.ends_with("node-0123456789abcdef"));
    assert_eq!(removed_sorted, expected);
    assert!(foreign.exists() && outside.exists() && link.is_symlink(), "only parts are removed");
    assert!(world.found().python.is_some() && world.found().deno.is_some());
}
