//! Who may do what with a file, and what its user noted of it, is the same outside, or less.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use rustix::fs::XattrFlags;

use super::acl::List;
use super::acl::tests::{list, text};
use super::host_tests::{as_user, two_file_systems, with_own_mounts};
use super::tests::{lay, mode, open, sorted};
use super::*;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// The list that a mode alone would make one for the group of.
const SHARED: &str = "u::rw- u:64022:rw- g::--- m::rw- o::---";

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 64 << 10];
    let length = rustix::fs::getxattr(path, name, value.as_mut_slice()).ok()?;
    value.truncate(length);
    Some(value)
}

/// A list in words; nothing where there is none.
fn shown(path: &Path, name: &str) -> String {
    get(path, name).map_or_else(String::new, |bytes| text(&List::parse(&bytes).unwrap()))
}

fn shared(path: &Path) {
    fs::write(path, "x").unwrap();
    set(path, ACCESS, &list(SHARED));
}

/// Calls something with a layer and a directory on one file system, and on two.
fn both_ways(work: impl Fn(&Path, &Path)) {
    let top = tempfile::tempdir().unwrap();
    let (layer, directory) = (top.path().join("layer"), top.path().join("directory"));
    fs::create_dir(&layer).unwrap();
    fs::create_dir(&directory).unwrap();
    work(&layer, &directory);
    if let Some((layer, directory)) = two_file_systems() {
        work(layer.path(), directory.path());
    }
}

#[test]
fn a_file_keeps_its_list_and_what_its_user_noted_and_nothing_else() {
    both_ways(|layer, directory| {
        shared(&layer.join("shared"));
        shared(&directory.join("shared"));
        set(&layer.join("shared"), "user.note", b"noted");
        set(&layer.join("shared"), "user.empty", b"");
        set(&layer.join("shared"), "user.long", &[7; 2000]);
        for name in ["user.overlay.origin", "user.overlay.overlay.mine"] {
            set(&layer.join("shared"), name, b"y");
        }
        if rustix::process::geteuid().is_root() {
            set(&layer.join("shared"), "trusted.overlay.opaque", b"y");
        }
        let crosses =
            rustix::fs::stat(layer).unwrap().st_dev != rustix::fs::stat(directory).unwrap().st_dev;
        lay(layer, directory, None).unwrap();
        let applied = directory.join("shared");
        assert_eq!((shown(&applied, ACCESS).as_str(), mode(&applied)), (SHARED, 0o660));
        assert_eq!(get(&applied, "user.note").unwrap(), b"noted");
        assert_eq!(get(&applied, "user.empty").unwrap(), b"");
        assert_eq!(get(&applied, "user.long").unwrap(), [7; 2000]);
        for name in ["user.overlay.origin", "user.overlay.overlay.mine"] {
            assert_eq!(get(&applied, name), None, "{name}");
        }
        if crosses {
            assert_eq!(get(&applied, "trusted.overlay.opaque"), None);
        }
    });
}

#[test]
fn what_a_directory_of_the_host_hands_down_is_not_for_what_is_applied() {
    both_ways(|layer, directory| {
        let handed = "u::rwx u:64022:rwx g::rwx m::rwx o::---";
        fs::create_dir_all(layer.join("d/new")).unwrap();
        fs::create_dir(directory.join("d")).unwrap();
        set(&directory.join("d"), DEFAULT, &list(handed));
        fs::write(layer.join("d/plain"), "x").unwrap();
        fs::set_permissions(layer.join("d/plain"), fs::Permissions::from_mode(0o640)).unwrap();
        lay(layer, directory, None).unwrap();
        let plain = directory.join("d/plain");
        assert_eq!((shown(&plain, ACCESS).as_str(), mode(&plain)), ("", 0o640));
        for name in [ACCESS, DEFAULT] {
            assert_eq!(shown(&directory.join("d/new"), name), "");
        }
        assert_eq!(shown(&directory.join("d"), DEFAULT), handed, "it was there");
    });
}

#[test]
fn a_new_directory_has_its_lists_and_one_that_was_there_keeps_its_own() {
    both_ways(|layer, directory| {
        let (access, default) = ("u::rwx u:7:rwx g::--- m::rwx o::---", "u::rwx g::r-x o::---");
        let hosts = "u::rwx u:64022:rwx g::r-x m::rwx o::---";
        for name in ["new", "was", "was-listed", "was-equal"] {
            fs::create_dir(layer.join(name)).unwrap();
            set(&layer.join(name), ACCESS, &list(access));
            set(&layer.join(name), DEFAULT, &list(default));
            set(&layer.join(name), "user.note", b"noted");
        }
        for name in ["was", "was-listed", "was-equal"] {
            fs::create_dir(directory.join(name)).unwrap();
            fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        set(&directory.join("was-listed"), ACCESS, &list(hosts));
        set(&directory.join("was-equal"), ACCESS, &list(access));
        lay(layer, directory, None).unwrap();
        let both = |name: &str| {
            let path = directory.join(name);
            (shown(&path, ACCESS), shown(&path, DEFAULT), mode(&path))
        };
        assert_eq!(both("new"), (access.to_owned(), default.to_owned(), 0o770));
        assert_eq!(get(&directory.join("new"), "user.note").unwrap(), b"noted");
        // Not 770, as if the list were the group's.
        assert_eq!(both("was"), (String::new(), String::new(), 0o700));
        assert_eq!(both("was-listed"), (hosts.to_owned(), String::new(), 0o770));
        assert_eq!(both("was-equal"), (access.to_owned(), String::new(), 0o770));
    });
}

#[test]
fn where_there_are_no_lists_nobody_gets_more() {
    let layer = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (layer, directory) = (layer.path(), directory.path());
    let lists = [
        ("closed", SHARED, 0o600),
        ("group", "u::rw- u:64022:rw- g::r-- m::rw- o::---", 0o640),
        ("masked", "u::rw- u:64022:rw- g::rw- m::r-- o::---", 0o640),
        ("denied", "u::rw- u:64022:--- g::r-- m::r-- o::r--", 0o600),
    ];
    for (name, entries, _) in lists {
        fs::write(layer.join(name), name).unwrap();
        fs::create_dir(layer.join(format!("{name}-directory"))).unwrap();
        for name in [name.to_owned(), format!("{name}-directory")] {
            set(&layer.join(name), ACCESS, &list(entries));
        }
    }
    set(&layer.join("closed"), "user.note", b"noted");
    let done = with_own_mounts(|| {
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("ramfs", directory, "ramfs", flags, None).unwrap();
        assert!(
            rustix::fs::setxattr(directory, ACCESS, &list(SHARED), XattrFlags::empty()).is_err()
        );
        lay(layer, directory, None).unwrap();
        for (name, _, wanted) in lists {
            assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), name);
            assert_eq!(mode(directory.join(name)), wanted, "{name}");
            assert_eq!(mode(directory.join(format!("{name}-directory"))), wanted, "{name}");
        }
    });
    if done.is_some() {
        assert_eq!(sorted(layer), Vec::<String>::new());
    }
}

#[test]
fn ids_of_a_range_name_nobody_outside_but_who_wrote_is_who_owns() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root has a range");
        return;
    }
    both_ways(|layer, directory| {
        chown(layer, Some(4242), Some(4252)).unwrap();
        let names = "u::rw- u:4242:rw- u:64022:r-- g::rw- g:4252:rw- g:0:rw- m::rw- o::r--";
        let wanted = "u::rw- u:77:rw- g::r-- g:88:r-- m::rw- o::r--";
        fs::write(layer.join("file"), "x").unwrap();
        set(&layer.join("file"), ACCESS, &list(names));
        fs::hard_link(layer.join("file"), layer.join("link")).unwrap();
        shared(&layer.join("shared"));
        fs::create_dir(layer.join("d")).unwrap();
        set(&layer.join("d"), DEFAULT, &list(names));
        let owner = (rustix::fs::Uid::from_raw(77), rustix::fs::Gid::from_raw(88));
        lay(layer, directory, Some(owner)).unwrap();
        for name in ["file", "link"] {
            assert_eq!(shown(&directory.join(name), ACCESS), wanted, "{name}");
        }
        assert_eq!(shown(&directory.join("d"), DEFAULT), wanted);
        let path = directory.join("shared");
        assert_eq!((shown(&path, ACCESS).as_str(), mode(&path)), ("", 0o600));
    });
}

#[test]
fn a_copied_layer_keeps_lists_and_what_users_noted() {
    for copy in [copy_layer, copy_whole_layer] {
        let top = tempfile::tempdir().unwrap();
        let (from, to) = (top.path().join("from"), top.path().join("to"));
        fs::create_dir_all(from.join("d")).unwrap();
        fs::create_dir(&to).unwrap();
        shared(&from.join("d/shared"));
        let default = "u::rwx u:64022:rwx g::--- m::rwx o::---";
        for name in [ACCESS, DEFAULT] {
            set(&from.join("d"), name, &list(default));
        }
        for path in [from.join("d"), from.join("d/shared")] {
            set(&path, "user.note", b"noted");
        }
        copy(open(&from).as_fd(), open(&to).as_fd()).unwrap();
        for path in [to.join("d"), to.join("d/shared")] {
            assert_eq!(get(&path, "user.note").unwrap(), b"noted");
        }
        assert_eq!(shown(&to.join("d/shared"), ACCESS), SHARED);
        for name in [ACCESS, DEFAULT] {
            assert_eq!(shown(&to.join("d"), name), default);
        }
    }
}

#[test]
fn what_its_owner_closed_keeps_all_of_it() {
    both_ways(|layer, directory| {
        shared(&layer.join("closed"));
        set(&layer.join("closed"), "user.note", b"noted");
        fs::set_permissions(layer.join("closed"), fs::Permissions::from_mode(0o060)).unwrap();
        if rustix::process::geteuid().is_root() {
            let above = layer.parent().unwrap();
            for path in [layer, directory, &layer.join("closed")] {
                chown(path, Some(4242), None).unwrap();
            }
            // A test's own, on the way.
            if above.parent().is_some_and(|parent| parent == std::env::temp_dir()) {
                chown(above, Some(4242), None).unwrap();
            }
        }
        as_user(4242, || lay(layer, directory, None)).unwrap();
        let closed = directory.join("closed");
        let wanted = "u::--- u:64022:rw- g::--- m::rw- o::---";
        assert_eq!((shown(&closed, ACCESS).as_str(), mode(&closed)), (wanted, 0o060));
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o660)).unwrap();
        assert_eq!(get(&closed, "user.note").unwrap(), b"noted");
    });
}

#[test]
fn attributes_that_are_not_taken_hold_nothing_back() {
    let Some((layer, directory)) = two_file_systems() else { return };
    let (layer, directory) = (layer.path(), directory.path());
    fs::write(layer.join("file"), "x").unwrap();
    // More than a block, which is what most file systems have for all of them.
    set(&layer.join("file"), "user.large", &[7; 60_000]);
    set(&layer.join("file"), "user.small", b"small");
    // More than the kernel tells of.
    fs::write(layer.join("crowded"), "x").unwrap();
    for number in 0..400 {
        set(&layer.join("crowded"), &format!("user.{number:0>200}"), b"");
    }
    lay(layer, directory, None).unwrap();
    assert_eq!(get(&directory.join("file"), "user.small").unwrap(), b"small");
    for name in ["file", "crowded"] {
        assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), "x");
    }
}

#[test]
fn a_pipe_is_for_nobody_more_than_it_was() {
    both_ways(|layer, directory| {
        let pipe = layer.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        set(&pipe, ACCESS, &list(SHARED));
        lay(layer, directory, None).unwrap();
        assert_eq!(mode(directory.join("pipe")), 0o600);
    });
}
