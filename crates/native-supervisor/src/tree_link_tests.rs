//! What is one file with several names in a layer is one where it goes to.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::host_tests::{as_user, two_file_systems};
use super::tests::{lay, mode, open, sorted};
use super::*;

/// Makes a file of a size, and links of it, which may be in directories of their own.
fn link_all(top: &Path, size: usize, names: &[String]) {
    let (first, others) = names.split_first().unwrap();
    let path = |name: &str| {
        fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
        top.join(name)
    };
    fs::write(path(first), vec![7; size]).unwrap();
    for name in others {
        fs::hard_link(top.join(first), path(name)).unwrap();
    }
}

/// The files that these names are of, as the file system knows them.
fn inodes(top: &Path, names: &[String]) -> HashSet<u64> {
    names.iter().map(|name| fs::symlink_metadata(top.join(name)).unwrap().ino()).collect()
}

fn named(names: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
    names.into_iter().map(|name| name.to_string()).collect()
}

/// Names of one file, in every place that the walk may come to before or after another.
fn scattered() -> Vec<String> {
    let numbered =
        (0..10).flat_map(|at| [format!("a{at}"), format!("d{at}/in/b"), format!("z{at}")]);
    numbered.chain(named(["existing", "was-directory", "was-link"])).collect()
}

#[test]
fn one_file_with_many_names_is_one_file_on_another_file_system() {
    let Some((layer, directory)) = two_file_systems() else { return };
    let (layer, directory) = (layer.path(), directory.path());
    let (names, others) = (scattered(), named(["other", "d3/other"]));
    link_all(layer, 1 << 20, &names);
    link_all(layer, 3, &others);
    fs::write(layer.join("alone"), "alone").unwrap();
    fs::write(directory.join("kept"), "kept").unwrap();
    fs::hard_link(directory.join("kept"), directory.join("existing")).unwrap();
    fs::create_dir_all(directory.join("was-directory/in")).unwrap();
    symlink("kept", directory.join("was-link")).unwrap();

    lay(layer, directory, None).unwrap();

    assert_eq!(inodes(directory, &names).len(), 1);
    assert_eq!(fs::metadata(directory.join("a0")).unwrap().nlink(), names.len() as u64);
    assert_eq!(fs::read(directory.join("d7/in/b")).unwrap(), vec![7; 1 << 20]);
    assert_eq!(inodes(directory, &others).len(), 1);
    assert_eq!(fs::metadata(directory.join("other")).unwrap().nlink(), 2);
    for alone in ["alone", "kept"] {
        assert_eq!(fs::read_to_string(directory.join(alone)).unwrap(), alone);
        assert_eq!(fs::metadata(directory.join(alone)).unwrap().nlink(), 1);
    }
    assert_eq!(sorted(layer), Vec::<String>::new(), "the layer is used up");
    let passing = sorted(directory).into_iter().find(|name| is_passing_name(name));
    assert_eq!(passing, None);
}

#[test]
fn one_file_with_many_names_is_one_file_on_the_same_file_system() {
    let top = tempfile::tempdir().unwrap();
    let (layer, directory) = (top.path().join("layer"), top.path().join("directory"));
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("existing"), "x").unwrap();
    let names = scattered();
    link_all(&layer, 1, &names);
    lay(&layer, &directory, None).unwrap();
    assert_eq!(inodes(&directory, &names).len(), 1);
}

#[test]
fn a_copied_layer_has_as_many_files_as_the_layer() {
    for copy in [copy_layer, copy_whole_layer] {
        let top = tempfile::tempdir().unwrap();
        let (from, to) = (top.path().join("from"), top.path().join("to"));
        fs::create_dir(&to).unwrap();
        let names = scattered();
        link_all(&from, 1 << 20, &names);
        copy(open(&from).as_fd(), open(&to).as_fd()).unwrap();
        assert_eq!(inodes(&to, &names).len(), 1);
        assert_eq!(fs::metadata(to.join("a0")).unwrap().nlink(), names.len() as u64);
        assert_eq!(inodes(&from, &names).len(), 1, "it is as it was");
    }
}

#[test]
fn directories_that_are_closed_hide_no_name_and_stay_closed() {
    let Some((layer, directory)) = two_file_systems() else { return };
    let (layer, directory) = (layer.path(), directory.path());
    let names = named((0..8).map(|at| format!("outer{at}/inner/file")));
    link_all(layer, 1, &names);
    let root = rustix::process::geteuid().is_root();
    let closed = |at: usize| [format!("outer{at}"), format!("outer{at}/inner")];
    for at in 0..8 {
        for (path, mode) in closed(at).iter().zip([0o600, 0o000]).rev() {
            let path = layer.join(path);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            if root {
                std::os::unix::fs::chown(path, Some(4242), None).unwrap();
            }
        }
    }
    if root {
        let file = layer.join(&names[0]);
        for path in [layer, directory, &file] {
            std::os::unix::fs::chown(path, Some(4242), None).unwrap();
        }
    }
    as_user(4242, || lay(layer, directory, None)).unwrap();
    for at in 0..8 {
        let modes = closed(at).map(|path| {
            let path = directory.join(path);
            let found = mode(&path);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            found
        });
        assert_eq!(modes, [0o600, 0o000], "{at}");
    }
    assert_eq!(inodes(directory, &names).len(), 1);
}

#[test]
fn no_path_is_too_long_for_a_link() {
    let Some((layer, directory)) = two_file_systems() else { return };
    let name = CString::new("n".repeat(255)).unwrap();
    // Deep in two trees, and one name in neither.
    fs::write(layer.path().join("file"), "x").unwrap();
    let file = open(layer.path());
    for tree in ["one", "two"] {
        fs::create_dir(layer.path().join(tree)).unwrap();
        let mut at = open(&layer.path().join(tree));
        for _ in 0..40 {
            rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
            at = enter(at.as_fd(), &name).unwrap();
        }
        rustix::fs::linkat(&file, "file", &at, "file", AtFlags::empty()).unwrap();
    }
    fs::remove_file(layer.path().join("file")).unwrap();
    lay(layer.path(), directory.path(), None).unwrap();
    let found = ["one", "two"].map(|tree| {
        let mut at = open(&directory.path().join(tree));
        for _ in 0..40 {
            at = enter(at.as_fd(), &name).unwrap();
        }
        let stat = rustix::fs::statat(&at, "file", AtFlags::SYMLINK_NOFOLLOW).unwrap();
        (stat.st_ino, stat.st_nlink)
    });
    assert_eq!(found[0], found[1]);
    for directory in [&layer, &directory] {
        for tree in [c"one", c"two"] {
            remove(open(directory.path()).as_fd(), tree).unwrap();
        }
    }
}

/// Two names of a file, of which the second comes after something was done to the first.
fn put_after(meddle: impl FnOnce(&Path)) -> (PathBuf, tempfile::TempDir) {
    let top = tempfile::tempdir().unwrap();
    let (from, to) = (top.path().join("from"), top.path().join("to"));
    fs::create_dir_all(from.join("d")).unwrap();
    fs::create_dir_all(to.join("d")).unwrap();
    link_all(&from, 1000, &named(["d/one", "two"]));
    let (layer, directory) = (open(&from), open(&to));
    let above = walk::Level::top(layer.as_fd(), directory.as_fd()).unwrap();
    let target = || walk::Target { directory: open(&to.join("d")), found: None };
    let inner = above.below(open(&from.join("d")), target(), c"d", above.stat).unwrap();
    let mut links = links::Links::to(directory.as_fd());
    let passing = passing_name().unwrap();
    let mut put = |above: &walk::Level, name| {
        let stat = rustix::fs::statat(&above.from, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        let file = open_to_read(above.from.as_fd(), name).unwrap();
        let permissions = Permissions::of(&file, &stat, Names::Same).unwrap();
        let to = above.to.as_fd();
        let copy = || copy_file(&file, to, name, &stat, None, &permissions, &passing);
        links.put(above, name, &stat, &passing, copy).unwrap();
    };
    put(&inner, c"one");
    meddle(&to);
    put(&above, c"two");
    assert_eq!(fs::read(to.join("two")).unwrap(), vec![7; 1000]);
    assert_eq!(sorted(&to), ["d", "two"].map(str::to_owned));
    (to, top)
}

#[test]
fn only_the_file_that_was_put_there_is_linked_and_only_while_it_is_that() {
    let links = |path: PathBuf| fs::metadata(path).unwrap().nlink();
    let (to, _top) = put_after(|_| {});
    assert_eq!(links(to.join("two")), 2);

    let secret = tempfile::tempdir().unwrap();
    fs::create_dir(secret.path().join("d")).unwrap();
    let secret = secret.path().join("d/one");
    fs::write(&secret, vec![7; 1000]).unwrap();
    let replaced = |with: &dyn Fn(&Path)| {
        let (to, _top) = put_after(|to| {
            fs::remove_file(to.join("d/one")).unwrap();
            with(to);
        });
        assert_eq!(links(to.join("two")), 1);
        assert_eq!(links(secret.clone()), 1);
    };
    replaced(&|_| {});
    replaced(&|to| fs::write(to.join("d/one"), vec![7; 1000]).unwrap());
    replaced(&|to| symlink(&secret, to.join("d/one")).unwrap());
    replaced(&|to| {
        fs::remove_dir(to.join("d")).unwrap();
        symlink(secret.parent().unwrap(), to.join("d")).unwrap();
    });
    // Somebody works on it: the second name is to have what the sandbox wrote.
    let (to, _top) = put_after(|to| fs::write(to.join("d/one"), "changed").unwrap());
    assert_eq!((links(to.join("two")), links(to.join("d/one"))), (1, 1));
}

#[test]
fn a_file_with_more_names_than_it_can_have_is_copied_again() {
    let Some((layer, directory)) = two_file_systems() else { return };
    // One more than ext4 has of one file. A file in memory may have more.
    let names = named((0..65_002).map(|at| format!("{at}")));
    link_all(layer.path(), 1, &names);
    lay(layer.path(), directory.path(), None).unwrap();
    assert!(inodes(directory.path(), &names).len() <= 2);
    assert_eq!(sorted(layer.path()), Vec::<String>::new());
}

#[test]
fn a_name_in_passing_that_an_earlier_try_left_is_removed_and_what_it_is_of_stays() {
    let Some((layer, directory)) = two_file_systems() else { return };
    let (layer, directory) = (layer.path(), directory.path());
    let names = named(["d/one", "d/three", "d/two"]);
    link_all(layer, 1000, &names);
    let passing = passing_name().unwrap();
    fs::create_dir(directory.join("d")).unwrap();
    fs::write(directory.join("d/earlier"), "earlier").unwrap();
    let left = directory.join("d").join(passing.to_str().unwrap());
    fs::hard_link(directory.join("d/earlier"), left).unwrap();
    lay_over(open(layer).as_fd(), open(directory).as_fd(), None, &passing).unwrap();
    assert_eq!(sorted(&directory.join("d")), ["earlier", "one", "three", "two"]);
    assert_eq!(inodes(directory, &names).len(), 1);
    assert_eq!(fs::read_to_string(directory.join("d/earlier")).unwrap(), "earlier");
    assert_eq!(fs::metadata(directory.join("d/earlier")).unwrap().nlink(), 1);
}
