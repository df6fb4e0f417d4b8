//! The machine's processes, as `/proc` tells them.

use std::fs;
use std::path::Path;

/// The numbers of all processes.
pub(crate) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What a process calls itself.
pub(crate) fn name(pid: i32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// The living processes that have `mark` in their arguments.
pub(crate) fn with_argument(mark: &str) -> Vec<i32> {
    let has = |pid: &i32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    all().into_iter().filter(has).collect()
}

/// Whether a process is in `directory`, or has something of it open.
pub(crate) fn touches(pid: i32, directory: &Path) -> bool {
    let within = |link: &Path| fs::read_link(link).is_ok_and(|path| path.starts_with(directory));
    let own = Path::new("/proc").join(pid.to_string());
    let open = fs::read_dir(own.join("fd")).into_iter().flatten().flatten();
    within(&own.join("cwd")) || open.into_iter().any(|entry| within(&entry.path()))
}

/// A number of bytes that `/proc/PID/status` tells.
pub(crate) fn status_bytes(pid: i32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
