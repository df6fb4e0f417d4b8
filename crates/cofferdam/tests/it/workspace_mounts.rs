//! A workspace with something of the host's mounted in it.

use std::fs;
use std::process::Command;

use crate::workspace::{Desk, names};

/// `cofferdam exec` on the desk's directory, with a file system mounted at a place in it. What
/// that holds is made before and listed afterwards, in one mount namespace, which then goes.
/// Returns the exit code, what was told, and the list.
fn with_mount(desk: &Desk, place: &str, script: &str) -> (i32, String, String) {
    let before = "mount -t tmpfs -o mode=750 tmpfs \"$3\" && echo host > \"$3/conf\" \
                  && mkdir \"$3/sub\" && touch \"$3/sub/x\" || exit 99";
    let after = "code=$?; cd \"$3\" && stat -c '%n %a %u' . && find . -type f -exec cat {} + \
                 && find . | sort; exit $code";
    let run = "\"$0\" exec --workspace \"$1\" -- sh -c \"$2\"";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation=private", "sh", "-c"])
        .arg(format!("{before}\n{run}\n{after}"))
        .arg(desk.home.program())
        .arg(&desk.directory)
        .arg(script)
        .arg(desk.directory.join(place))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("COFFERDAM_HOME", desk.home.path())
        .current_dir("/")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stderr), text(&output.stdout))
}

#[test]
fn what_is_mounted_in_the_directory_stays_and_the_changes_wait_until_it_is_gone() {
    if !rustix::process::geteuid().is_root() {
        crate::tell("skipped: only root mounts");
        return;
    }
    let desk = Desk::new();
    fs::create_dir(desk.directory.join("mnt")).unwrap();
    let script = "ls mnt; echo evil > mnt/conf; echo f > mnt/sub; echo fine > beside";
    let (code, told, mounted) = with_mount(&desk, "mnt", script);
    assert_eq!(mounted, ". 750 0\nhost\n.\n./conf\n./sub\n./sub/x\n", "{told}");
    assert_eq!(code, 125, "{told}");
    for part in ["error[SBX-008]", "another file system is mounted at mnt", "unmount"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(desk.read("beside"), "fine\n");
    // Nothing new begins before that, with the same to do about it.
    let (code, told, mounted) = with_mount(&desk, "mnt", "echo more > more");
    assert_eq!(code, 125, "{told}");
    assert!(told.contains("error[SBX-010]") && told.contains("unmount"), "{told}");
    assert!(mounted.contains("host\n"), "{mounted}");
    // It is not mounted any more.
    desk.shell("rm beside").expect_code(0);
    assert_eq!(names(&desk.directory), ["mnt", "mnt/conf", "mnt/sub"]);
    assert_eq!((desk.read("mnt/conf"), desk.read("mnt/sub")), ("evil\n".into(), "f\n".into()));
}

#[test]
fn a_directory_with_something_mounted_in_it_is_deleted_once_that_is_gone() {
    if !rustix::process::geteuid().is_root() {
        crate::tell("skipped: only root mounts");
        return;
    }
    let desk = Desk::new();
    fs::create_dir_all(desk.directory.join("project/mnt")).unwrap();
    let (code, told, mounted) = with_mount(&desk, "project/mnt", "rm -rf project");
    assert_eq!(code, 125, "{told}");
    for part in ["error[SBX-008]", "remove project: another file system is mounted", "unmount"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(mounted.contains("host\n"), "{mounted}");
    desk.home.shell(&[], "true").expect_code(0);
    assert_eq!(desk.names(), Vec::<String>::new());
}
