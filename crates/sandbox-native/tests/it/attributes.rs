//! Whom a directory's files are for, and what was noted of them, after a sandbox changed them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cofferdam_sandbox::{Changes, Sandbox, Spec, Workspace};
use rustix::fs::{XattrFlags, setxattr};

use crate::home::{Home, block_on};
use crate::ordinary_user;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Somebody whom nothing in a sandbox knows.
const STRANGER: u32 = 64_022;

/// A list that names a user, and gives the group nothing.
fn shared_with(user: u32, permissions: u16) -> Vec<u8> {
    let entries = [
        (0x01, permissions, u32::MAX),
        (0x02, permissions, user),
        (0x04, 0, u32::MAX),
        (0x10, permissions, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (kind, permissions, id) in entries {
        bytes.extend(u16::to_le_bytes(kind));
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn set(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1000];
    let length = rustix::fs::getxattr(path, name, value.as_mut_slice()).ok()?;
    value.truncate(length);
    Some(value)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Runs a script on a directory, and returns what it said.
async fn run(home: &Home, directory: &Path, changes: Changes, script: &str) -> String {
    let spec =
        Spec { workspace: Workspace::Directory(directory.to_owned()), changes, ..Spec::scratch() };
    let sandbox = Sandbox::open(&home.native(), spec).await.unwrap();
    let done = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
    sandbox.close().await.unwrap();
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn changed_files_are_for_whom_they_were_and_keep_what_was_noted() {
    block_on(async {
        for changes in [Changes::OnDisk, Changes::InMemory] {
            let home = Home::new();
            let directory = home.directory("project");
            let own = rustix::process::geteuid().as_raw();
            let (shared, handing) = (directory.join("shared"), directory.join("handing"));
            std::fs::write(&shared, "old\n").unwrap();
            set(&shared, ACCESS, &shared_with(own, 6));
            set(&shared, "user.note", b"noted");
            std::fs::create_dir(&handing).unwrap();
            set(&handing, DEFAULT, &shared_with(own, 7));
            let script = "echo new >> shared; echo x > handing/file; mkdir handing/sub";
            run(&home, &directory, changes, script).await;
            assert_eq!(std::fs::read_to_string(&shared).unwrap(), "old\nnew\n");
            assert_eq!(get(&shared, ACCESS).unwrap(), shared_with(own, 6));
            assert_eq!(get(&shared, "user.note").unwrap(), b"noted");
            for name in ["user.overlay.origin", "user.overlay.nlink"] {
                assert_eq!(get(&shared, name), None, "{name}");
            }
            assert_eq!(mode(&handing.join("file")), 0o660);
            assert!(get(&handing.join("file"), ACCESS).is_some());
            for name in [ACCESS, DEFAULT] {
                assert_eq!(get(&handing.join("sub"), name).unwrap(), shared_with(own, 7), "{name}");
            }
            assert_eq!(get(&handing, DEFAULT).unwrap(), shared_with(own, 7));
            home.assert_empty();
        }
    });
}

#[test]
fn files_for_somebody_else_are_not_opened_to_a_group() {
    block_on(async {
        // The last is where changes are not on the directory's file system: they are copied.
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        for (changes, place) in [
            (Changes::OnDisk, None),
            (Changes::InMemory, None),
            (Changes::OnDisk, Some(elsewhere.path())),
        ] {
            let home = Home::new();
            let directory = place.map_or_else(|| home.directory("project"), Path::to_owned);
            let (shared, handing) = (directory.join("shared"), directory.join("handing"));
            std::fs::write(&shared, "old\n").unwrap();
            set(&shared, ACCESS, &shared_with(STRANGER, 6));
            std::fs::create_dir(&handing).unwrap();
            for name in [ACCESS, DEFAULT] {
                set(&handing, name, &shared_with(STRANGER, 7));
            }
            let script = "(echo new >> shared) 2>&1; (echo x > handing/file) 2>&1";
            let said = run(&home, &directory, changes, script).await;
            assert_eq!(get(&shared, ACCESS).unwrap(), shared_with(STRANGER, 6));
            assert_eq!(get(&handing, ACCESS).unwrap(), shared_with(STRANGER, 7));
            let text = std::fs::read_to_string(&shared).unwrap();
            if rustix::process::geteuid().is_root() || changes == Changes::InMemory {
                // The kernel puts no list on the sandbox's own file system that names somebody
                // without an id inside.
                assert_eq!(said.matches("Invalid argument").count(), 2, "{said}");
                assert_eq!(text, "old\n");
            } else {
                assert_eq!((said.as_str(), text.as_str()), ("", "old\nnew\n"));
                assert!(get(&handing.join("file"), ACCESS).is_some());
            }
            home.assert_empty();
        }
    });
}

#[test]
fn attributes_are_the_same_for_an_ordinary_user() {
    ordinary_user::again(&[
        "attributes::changed_files_are_for_whom_they_were_and_keep_what_was_noted",
        "attributes::files_for_somebody_else_are_not_opened_to_a_group",
    ]);
}
