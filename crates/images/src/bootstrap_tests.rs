//! What can be told without making an image.

use super::*;

#[test]
fn packages_are_counted_as_they_are_unpacked_and_set_up() {
    let mut count = Count::default();
    assert_eq!(count.hear("0 upgraded, 2 newly installed, 0 to remove"), Some((0, 2)));
    assert_eq!(count.hear("Get:1 x"), None);
    assert_eq!(count.hear("Setting up base"), Some((1, 2)));
    assert_eq!(count.hear("Setting up files"), Some((2, 2)));
    assert_eq!(count.hear("0 upgraded, 4 newly installed, 0 to remove"), Some((2, 6)));
    for _ in 0..4 {
        count.hear("Unpacking x (1) ...");
    }
    assert_eq!(count.hear("Setting up x"), Some((3, 6)));
}

#[test]
fn a_python_is_that_of_a_release() {
    let wants = |python: &str| {
        let definition =
            Definition { python: Some(python.to_owned()), ..Definition::agent().unwrap() };
        with_python(&definition).map(|definition| definition.suite)
    };
    assert_eq!(wants("3.11").unwrap(), "bookworm");
    assert_eq!(wants("3.13").unwrap(), "trixie");
    let error = wants("3.12").unwrap_err();
    assert!(error.help().unwrap().contains("3.13"), "{error}");
}

#[test]
fn what_else_is_installed_brings_what_it_needs() {
    let mut definition = Definition { npm: vec!["tsx".to_owned()], ..Definition::agent().unwrap() };
    definition.apt.clear();
    assert_eq!(packages(&definition), ["python3-pip", "python-is-python3", "nodejs"]);
}

#[test]
fn pip_is_given_the_version_that_is_asked_for_and_no_other() {
    let work = tempfile::tempdir().unwrap();
    let pip = vec!["matplotlib==3.8.4".to_owned()];
    let definition = Definition { pip, ..Definition::agent().unwrap() };
    let nothing = |_: &str| None;
    Bootstrap::prepare_python(&definition, &Machine::of(&nothing, &[]), work.path()).unwrap();
    let read = |name: &str| fs::read_to_string(work.path().join(name)).unwrap();
    let both = read("requirements.txt") + &read("constraints.txt");
    let about = both.lines().filter(|line| line.starts_with("matplotlib="));
    assert_eq!(about.collect::<Vec<_>>(), ["matplotlib==3.8.4"]);
    assert!(read("constraints.txt").contains("numpy=="));
}

#[test]
fn what_belongs_to_a_machine_that_boots_goes() {
    let root = tempfile::tempdir().unwrap();
    for path in ["dev/x", "run/x", "tmp/x", "etc", "var/lib/apt/lists/partial"] {
        fs::create_dir_all(root.path().join(path)).unwrap();
    }
    std::os::unix::fs::symlink("/run", root.path().join("proc")).unwrap();
    clean(root.path()).unwrap();
    for name in ["dev", "run", "tmp", "sys", "var/tmp"] {
        assert_eq!(root.path().join(name).read_dir().unwrap().count(), 0, "{name}");
    }
}
