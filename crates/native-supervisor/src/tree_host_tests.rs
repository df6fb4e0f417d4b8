//! What is on the host and not the sandbox's stays as it is when changes are laid over it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags};

use super::tests::{lay, mode, open, sorted, white_out};
use super::*;
use crate::{dying, sys};

/// Does something where mounts are nobody else's. Only root can; `None` for others.
pub(super) fn with_own_mounts<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root mounts");
        return None;
    }
    // These hold for one thread.
    let work = || {
        sys::own_mounts().unwrap();
        let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", alone).unwrap();
        work()
    };
    Some(std::thread::scope(|scope| scope.spawn(work).join().unwrap()))
}

/// Does something as an ordinary user, where root runs the tests. This holds for one thread.
pub(super) fn as_user<T: Send>(id: u32, work: impl FnOnce() -> T + Send) -> T {
    let work = || {
        if rustix::process::geteuid().is_root() {
            let id = rustix::thread::Uid::from_raw(id);
            rustix::thread::set_thread_res_uid(id, id, id).unwrap();
        }
        work()
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

fn bind(from: &Path, to: &Path) {
    rustix::mount::mount_bind(from, to).unwrap();
}

fn mount_temporary(at: &Path) {
    rustix::mount::mount("tmpfs", at, "tmpfs", MountFlags::empty(), None).unwrap();
}

#[test]
fn what_is_mounted_in_the_directory_is_not_reached_and_its_changes_wait() {
    let top = tempfile::tempdir().unwrap();
    let (layer, directory) = (top.path().join("layer"), top.path().join("directory"));
    let same = top.path().join("same");
    for path in ["mnt", "bound", "removed/in", "replaced/in", "was"] {
        fs::create_dir_all(directory.join(path)).unwrap();
    }
    fs::write(directory.join("file"), "").unwrap();
    fs::create_dir_all(same.join("sub")).unwrap();
    for (path, text) in [("mnt/conf", "evil"), ("mnt/sub", "f"), ("bound/conf", "evil")] {
        let path = layer.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for name in ["file", "was", "beside"] {
        fs::write(layer.join(name), name).unwrap();
    }
    white_out(&layer.join("removed"));
    fs::create_dir(layer.join("replaced")).unwrap();
    fs::write(layer.join("replaced/new"), "new").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(open(&layer.join("replaced")), OPAQUE, b"y", flags).unwrap();
    let lay = || lay(&layer, &directory, None);

    let refused = with_own_mounts(|| {
        // The host's: a file system of its own, and a part of the very same.
        for place in ["mnt", "removed/in", "replaced/in", "was"] {
            mount_temporary(&directory.join(place));
            fs::create_dir(directory.join(place).join("sub")).unwrap();
            fs::write(directory.join(place).join("sub/x"), "x").unwrap();
        }
        fs::write(directory.join("mnt/conf"), "host").unwrap();
        fs::set_permissions(directory.join("mnt"), fs::Permissions::from_mode(0o1770)).unwrap();
        fs::write(same.join("conf"), "host").unwrap();
        bind(&same, &directory.join("bound"));
        bind(&same.join("conf"), &directory.join("file"));

        let failure = lay().unwrap_err();

        for place in ["mnt", "removed/in", "replaced/in", "was"] {
            let x = directory.join(place).join("sub/x");
            assert_eq!(fs::read_to_string(x).unwrap(), "x", "{place}");
        }
        for file in ["mnt/conf", "bound/conf", "file"] {
            assert_eq!(fs::read_to_string(directory.join(file)).unwrap(), "host", "{file}");
        }
        assert_eq!(mode(directory.join("mnt")), 0o1770);
        assert_eq!(fs::read_to_string(directory.join("beside")).unwrap(), "beside");
        failure
    });
    let Some(failure) = refused else { return };
    assert!(failure.step.contains("another file system is mounted at "), "{failure}");
    let kept = ["bound", "file", "mnt", "removed", "replaced", "was"];
    assert_eq!(sorted(&layer), kept, "nothing is lost");

    // Nothing is mounted there any more.
    lay().unwrap();
    assert_eq!(sorted(&layer), Vec::<String>::new());
    assert_eq!(sorted(&directory), ["beside", "bound", "file", "mnt", "replaced", "was"]);
    assert_eq!(fs::read_to_string(directory.join("mnt/sub")).unwrap(), "f");
    assert_eq!(fs::read_to_string(same.join("conf")).unwrap(), "host");
    assert_eq!(sorted(&directory.join("replaced")), ["new"]);
}

#[test]
fn each_thing_that_is_mounted_is_told_by_its_name() {
    let why = "another file system is mounted at place or below it";
    for (kind, told) in [("directory", "make the directory"), ("file", "write"), ("gone", "remove")]
    {
        let top = tempfile::tempdir().unwrap();
        let (layer, directory) = (top.path().join("layer"), top.path().join("directory"));
        fs::create_dir_all(directory.join("in/place")).unwrap();
        fs::create_dir_all(layer.join("in")).unwrap();
        match kind {
            "directory" => fs::create_dir(layer.join("in/place")).unwrap(),
            "file" => fs::write(layer.join("in/place"), "x").unwrap(),
            _ => white_out(&layer.join("in/place")),
        }
        let failure = with_own_mounts(|| {
            mount_temporary(&directory.join("in/place"));
            lay(&layer, &directory, None).unwrap_err()
        });
        let Some(failure) = failure else { return };
        assert_eq!(failure.step, format!("in in: {told} place: {why}"), "{kind}");
    }
}

#[test]
fn a_directory_keeps_what_makes_it_special_and_a_sandbox_makes_none_so() {
    let top = tempfile::tempdir().unwrap();
    let (layer, directory) = (top.path().join("layer"), top.path().join("directory"));
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    // The host's, the layer's, and what is to come of it.
    let modes = [
        ("sticky", Some(0o1777), 0o1777, 0o1777),
        ("group", Some(0o2775), 0o2775, 0o2775),
        ("copied-without", Some(0o2775), 0o775, 0o2775),
        ("changed", Some(0o2775), 0o2700, 0o2700),
        ("closed", Some(0o1555), 0o1555, 0o1555),
        ("hostile", Some(0o755), 0o6755, 0o755),
        ("new", None, 0o7755, 0o755),
    ];
    for (name, host, inside, _) in modes {
        fs::create_dir_all(layer.join(name)).unwrap();
        fs::write(layer.join(name).join("file"), "x").unwrap();
        set(&layer.join(name), inside);
        if let Some(host) = host {
            fs::create_dir_all(directory.join(name)).unwrap();
            set(&directory.join(name), host);
        }
    }
    let root = rustix::process::geteuid().is_root();
    let id = |id| (rustix::fs::Uid::from_raw(id), rustix::fs::Gid::from_raw(id));
    if root {
        std::os::unix::fs::chown(directory.join("group"), Some(4243), Some(4244)).unwrap();
    }
    let owner = root.then(|| id(4242));
    lay(&layer, &directory, owner).unwrap();
    for (name, _, _, wanted) in modes {
        assert_eq!(mode(directory.join(name)), wanted, "{name}");
        assert!(directory.join(name).join("file").exists(), "{name}");
    }
    if root {
        let owner = |name: &str| {
            let stat = rustix::fs::stat(directory.join(name)).unwrap();
            (stat.st_uid, stat.st_gid)
        };
        assert_eq!((owner("group"), owner("new")), ((4243, 4244), (4242, 4242)));
    }
}

#[test]
fn files_that_their_owner_may_not_write_are_applied() {
    let top = tempfile::tempdir().unwrap();
    let (layer, directory) = (top.path().join("layer"), top.path().join("directory"));
    for path in [&layer, &directory] {
        fs::create_dir(path).unwrap();
    }
    let modes = [("constant", 0o444), ("program", 0o555), ("secret", 0)];
    for (name, mode) in modes {
        fs::write(layer.join(name), name).unwrap();
        fs::set_permissions(layer.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    if rustix::process::geteuid().is_root() {
        let all = [top.path(), &layer, &directory].map(Path::to_path_buf).into_iter();
        for path in all.chain(modes.map(|(name, _)| layer.join(name))) {
            std::os::unix::fs::chown(path, Some(4242), None).unwrap();
        }
    }
    as_user(4242, || lay(&layer, &directory, None)).unwrap();
    for (name, wanted) in modes {
        assert_eq!(mode(directory.join(name)), wanted, "{name}");
    }
    assert_eq!(sorted(&layer), Vec::<String>::new());
}

#[test]
fn rights_are_given_back_to_the_thing_itself_and_never_through_a_link() {
    let top = tempfile::tempdir().unwrap();
    let outside = top.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, top.path().join("link")).unwrap();
    fs::create_dir(top.path().join("closed")).unwrap();
    let close = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    };
    close(&outside);
    close(&top.path().join("closed"));
    let root = rustix::process::geteuid().is_root();
    if root {
        for path in [top.path(), &outside, &top.path().join("closed")] {
            std::os::unix::fs::chown(path, Some(4242), Some(4242)).unwrap();
        }
    }
    let (closed, link) = as_user(4242, || {
        let top = open(top.path());
        (enter(top.as_fd(), c"closed").is_ok(), enter(top.as_fd(), c"link").is_ok())
    });
    assert!(closed && !link);
    assert_eq!(mode(&outside), 0);
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o700)).unwrap();
}

/// A layer and a directory that no file can be moved between; `None` where there is no such.
pub(super) fn two_file_systems() -> Option<(tempfile::TempDir, tempfile::TempDir)> {
    let (layer, directory) = (tempfile::tempdir_in("/dev/shm").ok()?, tempfile::tempdir().unwrap());
    let device = |path: &Path| rustix::fs::stat(path).unwrap().st_dev;
    (device(layer.path()) != device(directory.path())).then_some((layer, directory))
}

#[test]
fn a_death_in_the_middle_of_a_file_leaves_nothing_of_it() {
    const TEST: &str = "tree::host_tests::a_death_in_the_middle_of_a_file_leaves_nothing_of_it";
    if let Some(paths) = dying::paths() {
        let [layer, directory] = paths.as_slice() else { panic!("{paths:?}") };
        dying::at_files_over(1 << 20);
        drop(lay(layer, directory, None));
        return;
    }
    let Some((layer, directory)) = two_file_systems() else { return };
    fs::write(layer.path().join("large"), vec![1; 2 << 20]).unwrap();
    dying::run(TEST, &[layer.path(), directory.path()]);
    assert_eq!(sorted(directory.path()), Vec::<String>::new());
    assert_eq!(sorted(layer.path()), ["large"], "nothing is lost");
    lay(layer.path(), directory.path(), None).unwrap();
    assert_eq!(fs::read(directory.path().join("large")).unwrap(), vec![1; 2 << 20]);
}

#[test]
fn the_next_try_removes_what_an_earlier_one_left_and_nothing_else_of_such_a_name() {
    let Some((layer, directory)) = two_file_systems() else { return };
    let (layer, directory) = (layer.path(), directory.path());
    let passing = passing_name().unwrap();
    let left = passing.to_str().unwrap();
    assert!(is_passing_name(left) && !is_passing_name(".cofferdam-incoming-"));
    let others = passing_name().unwrap().into_string().unwrap();
    for path in ["d/old", "d/new"] {
        fs::create_dir_all(layer.join("d")).unwrap();
        fs::write(layer.join(path), path).unwrap();
    }
    fs::write(layer.join("d").join(&others), "the sandbox's own").unwrap();
    fs::create_dir(directory.join("d")).unwrap();
    fs::write(directory.join("d/old"), "x").unwrap();
    fs::write(directory.join("d").join(left), "half").unwrap();
    lay_over(open(layer).as_fd(), open(directory).as_fd(), None, &passing).unwrap();
    assert_eq!(sorted(&directory.join("d")), [others.as_str(), "new", "old"]);
    for path in ["d/old", "d/new"] {
        assert_eq!(fs::read_to_string(directory.join(path)).unwrap(), path);
    }
}
