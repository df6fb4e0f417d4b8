//! `--workspace`: the directory gets the changes, and nothing else does.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::home::Home;
use crate::invocation::Ran;

/// A home with a directory to work in.
pub(crate) struct Desk {
    pub(crate) home: Home,
    pub(crate) directory: PathBuf,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::at(Home::new())
    }

    pub(crate) fn at(home: Home) -> Self {
        let directory = home.make_directory("workspace");
        Self { home, directory }
    }

    pub(crate) fn file(&self, name: &str, content: &str) {
        self.home.make_file(&self.directory.join(name), content);
    }

    pub(crate) fn shell(&self, script: &str) -> Ran {
        self.home.shell(&["--workspace", self.directory.to_str().unwrap()], script)
    }

    pub(crate) fn python(&self, script: &str) -> Ran {
        self.home.python(&["--workspace", self.directory.to_str().unwrap()], script)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.join(name)).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names(&self.directory)
    }
}

/// Every name below a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut ahead = vec![directory.to_path_buf()];
    while let Some(next) = ahead.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            let path = entry.path();
            found.push(path.strip_prefix(directory).unwrap().to_string_lossy().into_owned());
            if entry.file_type().unwrap().is_dir() {
                ahead.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn files_made_changed_deleted_and_renamed_are_so_afterwards() {
    changes(Home::new());
}

pub(crate) fn changes(home: Home) {
    let desk = Desk::at(home);
    for (name, content) in
        [("changed", "old"), ("deleted", "x"), ("renamed", "moved"), ("kept", "k")]
    {
        desk.file(name, content);
    }
    let script = "echo made > made; echo -n new > changed; rm deleted; mv renamed elsewhere
                  mkdir -p a/b; echo deep > a/b/c; cat kept";
    assert_eq!(desk.shell(script).expect_code(0).text(), "k");
    assert_eq!(desk.names(), ["a", "a/b", "a/b/c", "changed", "elsewhere", "kept", "made"]);
    assert_eq!(desk.read("made"), "made\n");
    assert_eq!(desk.read("changed"), "new");
    assert_eq!(desk.read("elsewhere"), "moved");
    assert_eq!(desk.read("a/b/c"), "deep\n");
}

#[test]
fn directories_are_moved_replaced_and_deleted_with_all_in_them() {
    let desk = Desk::new();
    desk.shell("mkdir -p old/in gone/in file; touch old/in/a gone/in/b file/c; echo x > plain")
        .expect_code(0);
    let script = "mv old new; rm -r gone; mkdir gone; touch gone/fresh
                  rm -r file; echo now > file; rm plain; mkdir plain; touch plain/p";
    desk.shell(script).expect_code(0);
    let expected = ["file", "gone", "gone/fresh", "new", "new/in", "new/in/a", "plain", "plain/p"];
    assert_eq!(desk.names(), expected);
    assert_eq!(desk.read("file"), "now\n");
}

#[test]
fn a_directory_keeps_its_special_bits_when_something_is_made_in_it() {
    let desk = Desk::new();
    let path = |name: &str| desk.directory.join(name);
    for (name, mode) in [("t", 0o1777), ("g", 0o2775)] {
        fs::create_dir(path(name)).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    desk.shell("touch t/x g/y; mkdir -m 7777 own; touch own/z; chmod 750 g").expect_code(0);
    let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!([mode("t"), mode("g"), mode("own")], [0o1777, 0o2750, 0o777]);
    assert_eq!(desk.names(), ["g", "g/y", "own", "own/z", "t", "t/x"]);
}

#[test]
fn one_command_sees_what_the_one_before_did() {
    one_after_another(Home::new());
}

pub(crate) fn one_after_another(home: Home) {
    let desk = Desk::at(home);
    for number in 0..3 {
        desk.shell("echo line >> log; wc -l < log > count").expect_code(0);
        assert_eq!(desk.read("count").trim(), (number + 1).to_string());
    }
}

#[test]
fn the_changes_of_a_command_that_failed_are_kept_too() {
    let desk = Desk::new();
    desk.shell("echo half > done; exit 9").expect_code(9);
    desk.shell("echo killed > killed; kill -9 $$").expect_code(137);
    assert_eq!((desk.read("done"), desk.read("killed")), ("half\n".into(), "killed\n".into()));
}

#[test]
fn modes_and_links_are_kept_and_set_id_bits_are_not() {
    modes(Home::new());
}

pub(crate) fn modes(home: Home) {
    let desk = Desk::at(home);
    desk.file("old", "x");
    let script = "echo '#!/bin/sh' > run; chmod 750 run; chmod 600 old
                  ln -s run link; ln -s /etc/passwd absolute; ln -s nowhere dangling
                  cp /bin/true set; chmod 6755 set; mkdir shared; chmod 2770 shared
                  mkdir sticky; chmod 1777 sticky; echo twice > one; ln one two";
    desk.shell(script).expect_code(0);
    let mode = |name: &str| {
        fs::symlink_metadata(desk.directory.join(name)).unwrap().permissions().mode() & 0o7777
    };
    assert_eq!((mode("run"), mode("old")), (0o750, 0o600));
    assert_eq!(mode("set"), 0o755);
    assert_eq!(mode("shared") & 0o6000, 0);
    assert_eq!(mode("shared") & 0o777, 0o770);
    assert_eq!(mode("sticky") & 0o777, 0o777);
    let link = |name: &str| fs::read_link(desk.directory.join(name)).unwrap();
    assert_eq!(link("link"), Path::new("run"));
    assert_eq!(link("absolute"), Path::new("/etc/passwd"));
    assert_eq!(link("dangling"), Path::new("nowhere"));
    assert_eq!((desk.read("one"), desk.read("two")), ("twice\n".into(), "twice\n".into()));
}

#[test]
fn whatever_is_made_belongs_to_the_directorys_owner() {
    owner(Home::new());
}

pub(crate) fn owner(home: Home) {
    let desk = Desk::at(home);
    desk.file("changed", "x");
    desk.shell("mkdir -p a/b; touch a/b/c made; echo y > changed; ln -s x link; mkfifo pipe")
        .expect_code(0);
    let expected = fs::metadata(&desk.directory).unwrap();
    for name in desk.names() {
        let metadata = fs::symlink_metadata(desk.directory.join(&name)).unwrap();
        assert_eq!(
            (metadata.uid(), metadata.gid()),
            (expected.uid(), expected.gid()),
            "owner of {name}"
        );
    }
}

#[test]
fn what_root_makes_in_a_users_directory_is_the_users() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let desk = Desk::new();
    std::os::unix::fs::chown(&desk.directory, Some(64_002), Some(64_003)).unwrap();
    desk.file("of-root", "x");
    std::os::unix::fs::chown(desk.directory.join("of-root"), Some(64_002), Some(64_003)).unwrap();
    desk.shell("id -un; touch made; echo y >> of-root; mkdir d; mkfifo d/p").expect_code(0);
    for name in desk.names() {
        let metadata = fs::symlink_metadata(desk.directory.join(&name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (64_002, 64_003), "owner of {name}");
    }
}

#[test]
fn what_only_was_read_is_not_touched() {
    let desk = Desk::new();
    desk.file("read", "content");
    let before = fs::metadata(desk.directory.join("read")).unwrap();
    desk.shell("cat read; ls -la").expect_code(0);
    let after = fs::metadata(desk.directory.join("read")).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(desk.names(), ["read"]);
}

#[test]
fn times_survive() {
    let desk = Desk::new();
    desk.shell("touch -d '2001-02-03 04:05:06 UTC' old").expect_code(0);
    assert_eq!(fs::metadata(desk.directory.join("old")).unwrap().mtime(), 981_173_106);
}

#[test]
fn a_scratch_workspace_leaves_nothing() {
    let home = Home::new();
    let ran = home.shell(&[], "ls -A; echo x > file; mkdir d; ls -A").expect_code(0);
    assert_eq!(ran.text(), "d\nfile\n");
    assert_eq!(home.shell(&[], "ls -A").expect_code(0).text(), "");
    let left = names(&home.path().join("sandboxes"));
    assert!(left.iter().all(|name| name.starts_with(".shared")), "{left:?}");
}

#[test]
fn a_workspace_may_be_named_in_any_way() {
    let desk = Desk::new();
    let place = desk.home.make_directory("a place, ünd: more\n");
    std::os::unix::fs::symlink(&place, desk.home.beside("link")).unwrap();
    for name in [place.clone(), desk.home.beside("link"), place.join("../a place, ünd: more\n")] {
        let words = ["--workspace", name.to_str().unwrap()];
        desk.home.shell(&words, "pwd; echo x >> file").expect_code(0);
    }
    let mut relative = desk.home.exec(["--workspace", "link", "--", "sh", "-c", "echo x >> file"]);
    relative.command().current_dir(desk.home.beside(""));
    relative.run().expect_code(0);
    assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "x\n".repeat(4));
}
