//! The same tests as an ordinary user, when root runs them.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A user that exists nowhere.
const ORDINARY: u32 = 64_017;

/// Runs tests of this program again as an ordinary user. Does nothing when the
/// tests already run as one.
pub(crate) fn again(tests: &[&str]) {
    if rustix::process::geteuid().as_raw() != 0 {
        eprintln!("these tests already run as an ordinary user");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let home = place.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(ORDINARY), Some(ORDINARY)).unwrap();
    let output = Command::new(&program)
        .args(tests)
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .current_dir(&home)
        .stdin(Stdio::null())
        .uid(ORDINARY) // which also drops root's groups
        .gid(ORDINARY)
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    eprintln!("{text}");
    assert!(output.status.success(), "as an ordinary user: {}", output.status);
    assert!(text.contains(&format!("{} passed", tests.len())), "all of them ran");
}
