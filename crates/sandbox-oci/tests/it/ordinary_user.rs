//! The same tests as an ordinary user, when root runs them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

/// A user that every machine has and that owns nothing.
const ORDINARY: u32 = 65_534;

/// Runs tests of this program again as an ordinary user, who may use a range of ids beside
/// its own. Does nothing when the tests already run as one.
pub(crate) fn again(tests: &[&str]) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("these tests already run as an ordinary user");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let home = place.path().join("home");
    fs::create_dir(&home).unwrap();
    chown(&home, Some(ORDINARY), Some(ORDINARY)).unwrap();
    let ranges = place.path().join("ranges");
    fs::write(&ranges, "nobody:1800000000:65536\n").unwrap();
    let ranges = ranges.display();
    // The machine's own ranges stay as they are.
    let script = format!(
        "mount --bind {ranges} /etc/subuid && mount --bind {ranges} /etc/subgid && \
         exec setpriv --reuid={ORDINARY} --regid={ORDINARY} --clear-groups \"$@\""
    );
    let output = Command::new("unshare")
        .args(["--mount", "--propagation=private", "sh", "-c", &script, "sh"])
        .arg(&program)
        .args(tests)
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .current_dir(&home)
        .stdin(Stdio::null())
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
