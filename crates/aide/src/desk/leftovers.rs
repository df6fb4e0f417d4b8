//! What a keeper that was killed left running.
//!
//! Every program of a desktop has its directory in its environment; so it is found
//! even if nobody remembers its number.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, Signal, getpid, kill_process};

/// The variable that marks them.
pub(super) const MARK: &str = "COFFERDAM_DESK";

/// Kills whatever belongs to the desktop with this directory.
pub(super) fn kill(directory: &Path) {
    let mut mark = OsString::from(format!("{MARK}="));
    mark.push(directory);
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else { continue };
        // What cannot be read is another's.
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let marked = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
        if marked && pid != getpid() {
            // It may have ended meanwhile.
            kill_process(pid, Signal::KILL).ok();
        }
    }
}
