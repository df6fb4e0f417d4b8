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
fn a_version_that_is_asked_for_is_not_constrained() {
    let constraints = "# all\nnumpy==2.4.6\njupyter_core==5.9.1\nnumpydoc==1\n";
    let asked = ["NumPy[x]<2".to_owned(), "jupyter-core".to_owned()];
    assert_eq!(without(constraints, &asked), "# all\nnumpydoc==1\n");
    assert_eq!(without(constraints, &[]), constraints);
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
