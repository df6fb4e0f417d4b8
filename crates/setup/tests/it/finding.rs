//! What is found without a set-up, on the machine itself.

use std::fs;
use std::os::unix::fs::symlink;

use cofferdam_setup::{Found, Host, Origin, Part};

use crate::world::World;

#[test]
fn the_machines_programs_do_where_nothing_was_set_up() {
    let world = World::new();
    assert_eq!(world.found(), Found::default(), "a Python without a kernel is no use");
    let places = [
        "lib/python3.11/site-packages/ipykernel",
        "lib/python3/dist-packages/ipykernel",
        "local/lib/python3.11/dist-packages/ipykernel",
    ];
    for place in places {
        let place = world.home().join(place);
        fs::create_dir_all(&place).unwrap();
        let python = world.found().python.unwrap();
        assert_eq!(python.path, world.home().join("bin/python3"));
        assert_eq!(python.origin, Origin::Host);
        fs::remove_dir(&place).unwrap();
    }
    let deno = world.program("deno", "#!/bin/sh\n");
    let lab = world.program("jupyter-lab", "#!/bin/sh\n");
    let found = world.found();
    assert_eq!(found.deno.unwrap().path, deno);
    assert_eq!(found.lab.unwrap().path, lab);

    let place = world.install(&[Part::TypeScript]).0.unwrap().remove(0).place;
    assert_eq!(
        world.found().deno.unwrap().origin,
        Origin::Prefix(place),
        "what was set up goes first"
    );
}

#[test]
fn programs_that_sandboxes_cannot_see_are_none() {
    let world = World::new();
    let elsewhere = World::new();
    let deno = elsewhere.program("deno", "#!/bin/sh\n");
    symlink(&deno, world.home().join("bin/deno")).unwrap();
    fs::write(world.home().join("bin/jupyter-lab"), "not a program").unwrap();
    assert_eq!(world.found(), Found::default());
}

#[test]
fn relative_directories_of_the_path_are_left_out() {
    let host = Host::here(Some(&"bin::/usr/bin:../x".into()));
    assert_eq!(host.path, [std::path::PathBuf::from("/usr/bin")]);
    assert_eq!(Host::here(None).path, Host::here(None).shown);
}
