//! Hostile trees are removed and applied without a step outside.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::OFlags;

use super::walk::MAX_DEPTH;
use super::*;

pub(super) fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

pub(super) fn white_out(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::CharacterDevice, Mode::empty(), 0)
        .unwrap();
}

pub(super) fn lay(layer: &Path, directory: &Path, owner: Owner) -> Result<(), Failure> {
    let passing = passing_name().unwrap();
    lay_over(open(layer).as_fd(), open(directory).as_fd(), owner, &passing)
}

/// Makes directories in a directory, one in another, each of this name.
fn nest(top: &Path, name: &CStr, depth: usize) {
    let mut directory = open(top);
    for _ in 0..depth {
        rustix::fs::mkdirat(&directory, name, Mode::RWXU).unwrap();
        let next = enter(directory.as_fd(), name).unwrap();
        directory = next;
    }
}

/// How many directories are in a directory, one in another, each of this name.
fn nested(top: &Path, name: &CStr) -> usize {
    let mut directory = open(top);
    for depth in 0.. {
        match enter(directory.as_fd(), name) {
            Ok(next) => directory = next,
            Err(_) => return depth,
        }
    }
    0
}

#[test]
fn a_tree_deeper_than_any_stack_or_path_is_removed() {
    let top = tempfile::tempdir().unwrap();
    nest(top.path(), c"d", 3000);
    // Whatever name it may be lifted to.
    for number in 0..4 {
        fs::create_dir(top.path().join(format!("d/.cofferdam-lifted-{number}"))).unwrap();
        fs::write(top.path().join(format!("d/.cofferdam-lifted-{number}/file")), "x").unwrap();
    }
    fs::write(top.path().join("d/.cofferdam-lifted-4"), "x").unwrap();
    remove(open(top.path()).as_fd(), c"d").unwrap();
    assert!(!top.path().join("d").exists());
}

#[test]
fn removing_never_follows_a_link() {
    let top = tempfile::tempdir().unwrap();
    let outside = top.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "x").unwrap();
    fs::create_dir_all(top.path().join("tree/locked")).unwrap();
    symlink(&outside, top.path().join("tree/link")).unwrap();
    fs::write(top.path().join("tree/locked/file"), "x").unwrap();
    fs::set_permissions(top.path().join("tree/locked"), fs::Permissions::from_mode(0o000)).unwrap();
    remove(open(top.path()).as_fd(), c"tree").unwrap();
    assert!(!top.path().join("tree").exists());
    assert!(outside.join("kept").exists());
}

#[test]
fn changes_are_laid_over_a_directory() {
    let top = tempfile::tempdir().unwrap();
    let (layer, directory) = (top.path().join("layer"), top.path().join("directory"));
    fs::create_dir_all(directory.join("same")).unwrap();
    fs::create_dir_all(directory.join("replaced/old")).unwrap();
    fs::write(directory.join("same/kept"), "kept").unwrap();
    fs::write(directory.join("same/changed"), "old").unwrap();
    fs::write(directory.join("gone"), "x").unwrap();
    fs::create_dir_all(directory.join("was-directory/deep")).unwrap();

    fs::create_dir_all(layer.join("same")).unwrap();
    fs::create_dir_all(layer.join("replaced")).unwrap();
    fs::write(layer.join("same/changed"), "new").unwrap();
    fs::set_permissions(layer.join("same/changed"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::write(layer.join("same/added"), "added").unwrap();
    fs::write(layer.join("was-directory"), "now a file").unwrap();
    symlink("/etc/passwd", layer.join("link")).unwrap();
    white_out(&layer.join("gone"));
    let replaced = open(&layer.join("replaced"));
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(&replaced, c"user.overlay.opaque", b"y", flags).unwrap();

    lay(&layer, &directory, None).unwrap();

    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    assert_eq!(read("same/kept"), "kept");
    assert_eq!(read("same/changed"), "new");
    assert_eq!(read("same/added"), "added");
    assert_eq!(read("was-directory"), "now a file");
    assert!(!directory.join("gone").exists());
    assert!(directory.join("replaced").is_dir() && !directory.join("replaced/old").exists());
    assert_eq!(fs::read_link(directory.join("link")).unwrap(), Path::new("/etc/passwd"));
    let mode = fs::metadata(directory.join("same/changed")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "no set-id bit survives");
    assert_eq!(fs::read_dir(&layer).unwrap().count(), 0, "the layer is used up");
}

#[test]
fn a_link_in_the_directory_is_replaced_and_not_written_through() {
    let top = tempfile::tempdir().unwrap();
    let (layer, directory) = (top.path().join("layer"), top.path().join("directory"));
    let outside = top.path().join("outside");
    for path in [&layer, &directory, &outside] {
        fs::create_dir(path).unwrap();
    }
    symlink(&outside, directory.join("d")).unwrap();
    symlink(outside.join("f"), directory.join("f")).unwrap();
    fs::create_dir(layer.join("d")).unwrap();
    fs::write(layer.join("d/x"), "x").unwrap();
    fs::write(layer.join("f"), "f").unwrap();
    lay(&layer, &directory, None).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(directory.join("d/x")).unwrap(), "x");
    assert_eq!(fs::read_to_string(directory.join("f")).unwrap(), "f");
}

#[test]
fn a_copied_layer_keeps_whiteouts_holes_and_opaque_directories() {
    let top = tempfile::tempdir().unwrap();
    let (from, to) = (top.path().join("from"), top.path().join("to"));
    fs::create_dir_all(from.join("opaque")).unwrap();
    fs::create_dir(&to).unwrap();
    white_out(&from.join("gone"));
    let sparse = fs::File::create(from.join("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    let opaque = open(&from.join("opaque"));
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(&opaque, c"user.overlay.opaque", b"y", flags).unwrap();
    copy_layer(open(&from).as_fd(), open(&to).as_fd()).unwrap();
    assert!(is_opaque(&open(&to.join("opaque"))));
    let stat = rustix::fs::stat(to.join("sparse")).unwrap();
    assert_eq!((stat.st_size, stat.st_blocks), (1 << 30, 0));
    let gone = rustix::fs::lstat(to.join("gone")).unwrap();
    assert_eq!(FileType::from_raw_mode(gone.st_mode), FileType::CharacterDevice);
}

/// A layer with something that cannot be handled among what can, also beside it.
fn layer_with_a_chasm(layer: &Path) {
    // Two descriptors for each directory on the way.
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    for directory in ["deep", "d"] {
        fs::create_dir_all(layer.join(directory)).unwrap();
        fs::write(layer.join(directory).join("beside"), "beside").unwrap();
    }
    nest(&layer.join("deep"), c"n", 2100);
    fs::set_permissions(layer.join("deep"), fs::Permissions::from_mode(0o750)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(open(&layer.join("deep")), OPAQUE, b"y", flags).unwrap();
    for name in ["a", "secret", "work", "z"] {
        fs::write(layer.join(name), name).unwrap();
    }
    fs::set_permissions(layer.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    symlink("target", layer.join("link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, layer.join("pipe"), FileType::Fifo, Mode::RUSR, 0)
        .unwrap();
    white_out(&layer.join("gone"));
}

pub(super) fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(super) fn sorted(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_cannot_be_laid_over_holds_back_nothing_else_and_stays() {
    let top = tempfile::tempdir().unwrap();
    let (layer, directory) = (top.path().join("layer"), top.path().join("directory"));
    layer_with_a_chasm(&layer);
    fs::create_dir_all(directory.join("deep")).unwrap();
    fs::write(directory.join("deep/old"), "x").unwrap();
    fs::write(directory.join("gone"), "x").unwrap();

    let lay = || lay(&layer, &directory, None);
    let failure = lay().unwrap_err();
    assert!(is_too_deep(&failure), "{failure}");
    let applied = ["a", "d", "deep", "link", "pipe", "secret", "work", "z"];
    assert_eq!(sorted(&directory), applied);
    assert_eq!(fs::read_to_string(directory.join("work")).unwrap(), "work");
    assert_eq!(fs::read_to_string(directory.join("d/beside")).unwrap(), "beside");
    assert_eq!(fs::read_to_string(directory.join("deep/beside")).unwrap(), "beside");
    assert_eq!(mode(directory.join("secret")), 0);
    assert_eq!(mode(directory.join("deep")), 0o750);
    assert_eq!(sorted(&directory.join("deep")), ["beside", "n"], "it replaces what was there");
    assert_eq!(sorted(&layer), ["deep"], "the rest stays");
    assert_eq!(sorted(&layer.join("deep")), ["n"]);
    assert_eq!(nested(&layer.join("deep"), c"n"), 2100);
    assert_eq!(mode(layer.join("deep")), 0o750);

    // Another try loses nothing of what the first one did.
    assert!(is_too_deep(&lay().unwrap_err()));
    assert_eq!(sorted(&directory.join("deep")), ["beside", "n"]);

    remove(open(&layer.join("deep/n/n")).as_fd(), c"n").unwrap();
    lay().unwrap();
    assert_eq!(sorted(&layer), Vec::<String>::new());
    assert_eq!(sorted(&directory), applied);
    assert_eq!(sorted(&directory.join("deep")), ["beside", "n"]);
}

fn is_too_deep(failure: &Failure) -> bool {
    let why = format!("directories are nested more than {MAX_DEPTH} deep");
    failure.step == format!("in deep/n/n/n/n/n/n/n/…: {why}")
}

#[test]
fn what_cannot_be_copied_holds_back_nothing_else() {
    let top = tempfile::tempdir().unwrap();
    let (from, to) = (top.path().join("from"), top.path().join("to"));
    layer_with_a_chasm(&from);
    fs::create_dir(&to).unwrap();
    let failure = copy_layer(open(&from).as_fd(), open(&to).as_fd()).unwrap_err();
    assert!(is_too_deep(&failure), "{failure}");
    assert_eq!(sorted(&to), sorted(&from));
    for name in ["work", "d/beside", "deep/beside"] {
        assert_eq!(fs::read(to.join(name)).unwrap(), fs::read(from.join(name)).unwrap());
    }
    assert!(is_opaque(&open(&to.join("deep"))));
    assert_eq!(mode(to.join("secret")), 0);
    assert_eq!(mode(to.join("deep")), 0o750);
    assert!(nested(&to.join("deep"), c"n") >= MAX_DEPTH);
}

#[test]
fn a_copy_that_is_to_be_whole_ends_where_it_cannot_be() {
    let top = tempfile::tempdir().unwrap();
    let (from, to) = (top.path().join("from"), top.path().join("to"));
    fs::create_dir_all(from.join("d")).unwrap();
    fs::create_dir(&to).unwrap();
    // No link can be made where something is already. In whatever order names are read, not
    // all of these are last.
    for number in 0..110 {
        match number {
            5..105 => fs::write(from.join(format!("d/{number}")), "x").unwrap(),
            _ => symlink("x", from.join(format!("d/link{number}"))).unwrap(),
        }
    }
    copy_whole_layer(open(&from).as_fd(), open(&to).as_fd()).unwrap();
    assert_eq!(sorted(&to.join("d")), sorted(&from.join("d")));
    for name in sorted(&to.join("d")).iter().filter(|name| !name.starts_with('l')) {
        fs::remove_file(to.join("d").join(name)).unwrap();
    }
    let failure = copy_whole_layer(open(&from).as_fd(), open(&to).as_fd()).unwrap_err();
    assert!(failure.step.starts_with("in d: copy link"), "{failure}");
    let whole = sorted(&to.join("d")).len();
    copy_layer(open(&from).as_fd(), open(&to).as_fd()).unwrap_err();
    assert_eq!(sorted(&to.join("d")).len(), 110);
    assert!(whole < 110, "{whole}");
}

#[test]
fn a_copy_is_its_owners_and_what_the_owner_closed_is_read() {
    use std::os::unix::fs::{MetadataExt, chown, lchown};
    let top = tempfile::tempdir().unwrap();
    let (from, to) = (top.path().join("from"), top.path().join("to"));
    fs::create_dir_all(from.join("closed")).unwrap();
    fs::create_dir_all(from.join("listed")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("secret"), "secret").unwrap();
    fs::write(from.join("closed/file"), "x").unwrap();
    fs::write(from.join("listed/file"), "x").unwrap();
    symlink("target", from.join("link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, from.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let closed = [("secret", 0), ("closed", 0), ("listed", 0o400)];
    for (name, mode) in closed {
        fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let root = rustix::process::geteuid().is_root();
    let owner = if root { 4242 } else { rustix::process::geteuid().as_raw() };
    if root {
        for path in [&from, &to, &top.path().to_owned()] {
            chown(path, Some(owner), Some(owner)).unwrap();
        }
        for name in ["secret", "closed", "closed/file", "listed", "listed/file", "link", "pipe"] {
            lchown(from.join(name), Some(owner), Some(owner)).unwrap();
        }
        // As root, who needs nobody's permission.
        let again = top.path().join("again");
        fs::create_dir(&again).unwrap();
        copy_layer(open(&from).as_fd(), open(&again).as_fd()).unwrap();
        for name in ["link", "pipe", "secret", "closed/file"] {
            assert_eq!(fs::symlink_metadata(again.join(name)).unwrap().uid(), owner, "{name}");
        }
        for (name, wanted) in closed {
            assert_eq!(mode(from.join(name)), wanted, "{name} is as it was");
        }
    }
    // As the owner, who needs its own. These hold for one thread.
    let copied = std::thread::scope(|scope| {
        let copy = || {
            if root {
                let id = rustix::thread::Uid::from_raw(owner);
                let gid = rustix::thread::Gid::from_raw(owner);
                rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
                rustix::thread::set_thread_res_uid(id, id, id).unwrap();
            }
            copy_layer(open(&from).as_fd(), open(&to).as_fd())
        };
        scope.spawn(copy).join().unwrap()
    });
    copied.unwrap();
    for (name, wanted) in closed {
        assert_eq!(mode(to.join(name)), wanted, "{name}");
        fs::set_permissions(to.join(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(fs::read_to_string(to.join("secret")).unwrap(), "secret");
    assert_eq!(sorted(&to.join("closed")), ["file"]);
    assert_eq!(sorted(&to.join("listed")), ["file"]);
}
