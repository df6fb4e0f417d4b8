//! Hostile trees are removed and applied without a step outside.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::*;

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

fn white_out(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::CharacterDevice, Mode::empty(), 0)
        .unwrap();
}

#[test]
fn a_tree_deeper_than_any_stack_or_path_is_removed() {
    let top = tempfile::tempdir().unwrap();
    let mut directory = open(top.path());
    for _ in 0..3000 {
        rustix::fs::mkdirat(&directory, c"d", Mode::RWXU).unwrap();
        let next = enter(directory.as_fd(), c"d").unwrap();
        directory = next;
    }
    drop(directory);
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

    lay_over(open(&layer).as_fd(), open(&directory).as_fd(), None).unwrap();

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
    lay_over(open(&layer).as_fd(), open(&directory).as_fd(), None).unwrap();
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
