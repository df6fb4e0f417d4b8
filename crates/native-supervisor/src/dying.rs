//! Tests of what a death in the middle leaves: the test is run again as another process, which
//! the kernel kills as soon as it makes a file larger than it may.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Makes a process the one that dies, and tells it the paths it needs.
const PATHS: &str = "COFFERDAM_TEST_DYING";

/// The paths, in the process that is to die.
pub(crate) fn paths() -> Option<Vec<PathBuf>> {
    let paths = std::env::var_os(PATHS)?;
    Some(std::env::split_paths(&paths).collect())
}

/// From here on this process dies of a file that is larger.
pub(crate) fn at_files_over(size: u64) {
    let limit = Rlimit { current: Some(size), maximum: Some(size) };
    setrlimit(Resource::Fsize, limit).unwrap();
}

/// Runs a test as the process that dies, and returns once it has.
#[expect(clippy::disallowed_methods, reason = "this very program")]
pub(crate) fn run(test: &str, paths: &[&Path]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env(PATHS, std::env::join_paths(paths).unwrap());
    let output = command.output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGXFSZ), "{output:?}");
}
